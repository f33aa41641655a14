//! Whether an answer fits its input request.

use longhaul_core::Json;
use longhaul_wire::{InputRequest, RpcError};
use serde_json::value::RawValue;

/// Whether an answer has the shape that its question asks for.
///
/// # Errors
/// −32602 with the reason.
pub(crate) fn check(request: &Json, answer: &Json) -> Result<(), RpcError> {
    let unreadable = || RpcError::invalid_params("The answer does not fit its question");
    let raw: &RawValue = serde_json::from_str(answer.as_str()).map_err(|_| unreadable())?;
    // For a request that the protocol does not define any answer is valid.
    InputRequest::read(request.as_str()).map_or(Ok(()), |question| question.check(raw))
}

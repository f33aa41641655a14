//! Whether an answer fits its input request.

use longhaul_core::Json;
use longhaul_wire::{InputRequest, InvalidResponse};
use serde_json::value::RawValue;

/// Whether an answer has the shape that its question asks for, and its values fit the form.
///
/// # Errors
/// The reason.
pub(crate) fn check_answer(request: &Json, answer: &Json) -> Result<(), InvalidResponse> {
    let raw: &RawValue =
        serde_json::from_str(answer.as_str()).map_err(|_| InvalidResponse::Structure("it must be JSON"))?;
    // For a request that the protocol does not define any answer is valid.
    InputRequest::read(request.as_str()).map_or(Ok(()), |question| question.check(raw))
}

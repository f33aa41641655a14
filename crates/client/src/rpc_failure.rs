//! The JSON-RPC error object of a response.

use crate::{RequestError, RpcFailure};
use longhaul_core::Json;
use serde::Deserialize;
use serde_json::value::RawValue;

/// JSON-RPC's code for what failed inside.
pub(crate) const INTERNAL_ERROR: i32 = -32603;

/// Whether it says that nobody knows how the call has ended: Longhaul's word for that.
pub(crate) fn leaves_outcome_unknown(failure: &RpcFailure) -> bool {
    #[derive(Deserialize)]
    struct Data<'a> {
        #[serde(borrow)]
        reason: std::borrow::Cow<'a, str>,
    }
    let data = failure
        .data
        .as_ref()
        .map(|data| serde_json::from_str::<Data<'_>>(data.as_str()));
    matches!(data, Some(Ok(data)) if data.reason == "interrupted")
}

/// Reads a JSON-RPC error object.
pub(crate) fn read_failure(raw: &RawValue) -> Result<RpcFailure, RequestError> {
    #[derive(Deserialize)]
    struct Failure<'a> {
        code: i64,
        #[serde(default)]
        message: String,
        #[serde(borrow, default)]
        data: Option<&'a RawValue>,
    }
    let failure: Failure<'_> =
        serde_json::from_str(raw.get()).map_err(|error| RequestError::Invalid(format!("its error object: {error}")))?;
    Ok(RpcFailure {
        // MCP has no codes beyond 32 bits, so such a code is reported as an internal error.
        code: i32::try_from(failure.code).unwrap_or(-32603),
        message: failure.message.into(),
        data: failure.data.map(Json::from),
    })
}

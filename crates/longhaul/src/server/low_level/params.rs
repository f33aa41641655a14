//! What a function that answers a method takes and returns.

use super::{CallAnswer, ToolCall};
use crate::Error;
use longhaul_core::Json;
use longhaul_runtime::{CallAnswer as Answer, CallRequest};
use serde_json::{Map, Value};

/// What a function of [`Server::method`](crate::Server::method) can take as params: `Map<String, Value>`, [`RawJson`](crate::RawJson), or, for `tools/call`, [`ToolCall`].
#[diagnostic::on_unimplemented(
    message = "a method's function cannot take `{Self}` as params",
    note = "it takes `serde_json::Map<String, Value>`, `longhaul::RawJson` or, for `tools/call`, `longhaul::ToolCall`"
)]
pub trait MethodParams: Sized + Send + 'static {
    /// The only method that it is for.
    #[doc(hidden)]
    const ONLY_FOR: Option<&'static str> = None;

    /// Reads the params of a request, an object.
    #[doc(hidden)]
    fn read(request: CallRequest) -> Result<Self, Error>;
}

/// What a function of [`Server::method`](crate::Server::method) can return: `Map<String, Value>`, [`RawJson`](crate::RawJson), which must be an object, or, for `tools/call`,
/// [`CallAnswer`].
#[diagnostic::on_unimplemented(
    message = "a method's function cannot return `{Self}`",
    note = "it returns `serde_json::Map<String, Value>`, `longhaul::RawJson` or, for `tools/call`, `longhaul::CallAnswer`"
)]
pub trait MethodResult: Send + 'static {
    /// The only method that it is for.
    #[doc(hidden)]
    const ONLY_FOR: Option<&'static str> = None;

    /// The answer to a call.
    #[doc(hidden)]
    fn into_answer(self) -> Answer;
}

impl MethodParams for Map<String, Value> {
    fn read(request: CallRequest) -> Result<Self, Error> {
        // Params are an object.
        Ok(serde_json::from_str(request.params.as_str()).unwrap_or_default())
    }
}

impl MethodParams for Json {
    fn read(request: CallRequest) -> Result<Self, Error> {
        Ok(request.params)
    }
}

impl MethodParams for ToolCall {
    const ONLY_FOR: Option<&'static str> = Some(super::tool_call::METHOD);

    fn read(request: CallRequest) -> Result<Self, Error> {
        Self::of(&request)
    }
}

impl MethodResult for Map<String, Value> {
    fn into_answer(self) -> Answer {
        Answer::Result(Json::from(Value::Object(self)))
    }
}

impl MethodResult for Json {
    fn into_answer(self) -> Answer {
        Answer::Result(self)
    }
}

impl MethodResult for CallAnswer {
    const ONLY_FOR: Option<&'static str> = Some(super::tool_call::METHOD);

    fn into_answer(self) -> Answer {
        self.0
    }
}

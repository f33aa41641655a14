//! JSON-RPC messages over raw JSON: only the members needed to route a message are parsed.

pub(crate) mod batch;

use crate::{
    MAX_DEPTH,
    json::{
        self, Edit, NestedObject, ObjectError,
        object::{self, object},
        splice::splice,
    },
    params::{self, Params},
    protocol::{RequestId, RpcError},
};
use longhaul_core::{Json, nests_deeper};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A message from a peer, borrowed from the received bytes.
#[derive(Debug, Clone)]
pub enum Message<'a> {
    /// Expects a response.
    Request(Request<'a>),
    /// Expects no response.
    Notification(Notification<'a>),
    /// Answers a request of ours.
    Response(Response<'a>),
}

/// A request: a message that expects a response.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Echoed in the response.
    pub id: RequestId<'a>,
    /// The method's name, which may be unknown.
    pub method: Cow<'a, str>,
    params: ReadParams<'a>,
}

/// A notification: a message that expects no response.
#[derive(Debug, Clone)]
pub struct Notification<'a> {
    /// The method's name, which may be unknown.
    pub method: Cow<'a, str>,
    params: ReadParams<'a>,
}

/// Params as they were read with their message.
#[derive(Debug, Clone)]
struct ReadParams<'a> {
    object: NestedObject<Params<'a>>,
    message: &'a str,
}

impl<'a> ReadParams<'a> {
    fn checked(&self) -> Result<&Params<'a>, RpcError> {
        self.object.checked().map_err(params::malformed)
    }

    fn raw(&self) -> Option<&'a RawValue> {
        match self.object.is_absent() {
            true => None,
            false => object::find(self.message, &["params"]),
        }
    }
}

impl<'a> Request<'a> {
    /// The params; absent ones are empty.
    ///
    /// # Errors
    /// −32602 if a known member occurs twice.
    pub fn params(&self) -> Result<&Params<'a>, RpcError> {
        self.params.checked()
    }

    /// The text of the params. The message is read again for it.
    pub fn raw_params(&self) -> Option<&'a RawValue> {
        self.params.raw()
    }
}

impl<'a> Notification<'a> {
    /// As [`Request::params`].
    ///
    /// # Errors
    /// As [`Request::params`].
    pub fn params(&self) -> Result<&Params<'a>, RpcError> {
        self.params.checked()
    }

    /// As [`Request::raw_params`].
    pub fn raw_params(&self) -> Option<&'a RawValue> {
        self.params.raw()
    }
}

/// The response to a request that we sent.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    /// The request's id; absent if the peer could not read it.
    pub id: Option<RequestId<'a>>,
    /// The `result` member, or the `error` member.
    pub outcome: Result<&'a RawValue, &'a RawValue>,
}

/// A message that could not be parsed, and the error to answer it with.
#[derive(Debug, Clone)]
pub struct Rejection<'a> {
    /// The message's id, if it could be read. Otherwise the error response has no id.
    pub id: Option<RequestId<'a>>,
    /// What is wrong with the message.
    pub error: RpcError,
}

impl Rejection<'_> {
    /// Appends the error response.
    pub fn write(&self, out: &mut String) {
        self.error.write_response(out, self.id);
    }
}

object! {
    struct Draft {
        jsonrpc = "jsonrpc",
        id = "id",
        method = "method",
        params: Params = "params",
        result = "result",
        error = "error",
    }
}

impl<'a> Message<'a> {
    /// Parses one message. Nesting beyond [`MAX_DEPTH`], batches, and duplicate JSON-RPC members are refused. Unknown members are
    /// ignored.
    ///
    /// ```
    /// use longhaul_wire::{Message, RequestId};
    /// let Ok(Message::Request(request)) = Message::parse(br#"{"jsonrpc":"2.0","id":"a\u002f1","method":"ping"}"#) else { panic!() };
    /// assert_eq!(request.id.as_json(), r#""a\u002f1""#);
    /// assert_eq!(request.method, "ping");
    /// ```
    ///
    /// # Errors
    /// −32700 if the bytes are not JSON in UTF-8, else −32600, both with HTTP status 400 and with the id if it was found.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Rejection<'a>> {
        let mut draft = Draft::default();
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                // The id often precedes the invalid bytes, and the error response should carry it.
                let at = error.valid_up_to();
                let valid = std::str::from_utf8(&bytes[..at]).unwrap_or_default();
                let _ = draft.fill(valid);
                return Err(draft.reject(RpcError::parse(format!("Not UTF-8 at byte {at}"))));
            }
        };
        if text.trim_start().starts_with('[') {
            return Err(draft.reject(RpcError::invalid_request(
                "Batches are not supported: send each message by itself",
            )));
        }
        match draft.fill(text) {
            Ok(()) if nests_deeper(bytes, MAX_DEPTH) => Err(draft.reject(RpcError::invalid_request(format!(
                "Nested deeper than {MAX_DEPTH} levels"
            )))),
            Ok(()) => draft.finish(text),
            Err(error) => Err(draft.reject_object(error)),
        }
    }
}

impl<'a> Draft<'a> {
    fn reject(&self, error: RpcError) -> Rejection<'a> {
        Rejection {
            id: self.id.and_then(RequestId::from_raw),
            error,
        }
    }

    fn reject_object(mut self, error: ObjectError) -> Rejection<'a> {
        match error {
            ObjectError::Syntax(error) => self.reject(RpcError::parse(format!("Not JSON: {error}"))),
            ObjectError::NotAnObject => self.reject(RpcError::invalid_request("A message must be a JSON object")),
            ObjectError::Duplicate(key) => {
                if key == "id" {
                    self.id = None;
                }
                self.reject(RpcError::invalid_request(format!("The member {key} occurs twice")))
            }
        }
    }

    fn finish(self, text: &'a str) -> Result<Message<'a>, Rejection<'a>> {
        self.classify(text)
            .map_err(|why| self.reject(RpcError::invalid_request(why)))
    }

    fn classify(&self, text: &'a str) -> Result<Message<'a>, &'static str> {
        if self.jsonrpc.and_then(json::string).as_deref() != Some("2.0") {
            return Err("jsonrpc must be \"2.0\"");
        }
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => self.call(method, text),
            (None, Some(result), None) => self.response(Ok(result)),
            (None, None, Some(error)) => self.response(Err(error)),
            // As servers write that know JSON-RPC 1.0: one of the two is null.
            (None, Some(result), Some(error)) if json::is_null(error) => self.response(Ok(result)),
            (None, Some(result), Some(error)) if json::is_null(result) => self.response(Err(error)),
            (None, None, None) => Err("A message needs a method, a result or an error"),
            _ => Err("A message has one of method, result and error, not several"),
        }
    }

    fn call(&self, method: &'a RawValue, message: &'a str) -> Result<Message<'a>, &'static str> {
        let method = json::string(method).ok_or("method must be a string")?;
        let mut object = self.params;
        if !object.is_absent() && !object.is_object() {
            return Err("params must be an object");
        }
        object.members_mut().set_source(message, &["params", "_meta"]);
        let params = ReadParams { object, message };
        Ok(match self.id()? {
            Some(id) => Message::Request(Request { id, method, params }),
            None => Message::Notification(Notification { method, params }),
        })
    }

    fn response(&self, outcome: Result<&'a RawValue, &'a RawValue>) -> Result<Message<'a>, &'static str> {
        // A peer that could not read our id answers with null or without an id.
        let unreadable = outcome.is_err() && self.id.is_none_or(json::is_null);
        let id = if unreadable { None } else { self.id()? };
        if id.is_none() && outcome.is_ok() {
            return Err("A result needs the id of its request");
        }
        Ok(Message::Response(Response { id, outcome }))
    }

    fn id(&self) -> Result<Option<RequestId<'a>>, &'static str> {
        let read = |raw| RequestId::from_raw(raw).ok_or("id must be a string or an integer");
        self.id.map(read).transpose()
    }
}

/// Appends a response. `result` appends its `result` member.
pub fn write_result(out: &mut String, id: RequestId<'_>, result: impl FnOnce(&mut String)) {
    out.push_str(r#"{"jsonrpc":"2.0","id":"#);
    out.push_str(id.as_json());
    out.push_str(r#","result":"#);
    result(out);
    out.push('}');
}

/// Appends the response whose result is `result` after `edits`, or −32603 if `result` is not an object.
pub(crate) fn write_spliced(out: &mut String, id: RequestId<'_>, result: &Json, edits: &[Edit<'_>]) {
    let start = out.len();
    let mut spliced = Ok(());
    write_result(out, id, |out| spliced = splice(out, result.as_str(), edits));
    if spliced.is_err() {
        out.truncate(start);
        RpcError::internal("The result is not a JSON object").write_response(out, Some(id));
    }
}

/// Appends a notification. `params` appends its params, an object.
pub fn write_notification(out: &mut String, method: &str, params: impl FnOnce(&mut String)) {
    out.push_str(r#"{"jsonrpc":"2.0","method":"#);
    json::push_string(out, method);
    out.push_str(r#","params":"#);
    params(out);
    out.push('}');
}

/// Appends a request with the string `id`. `params` appends its params, an object.
pub fn write_request(out: &mut String, id: &str, method: &str, params: impl FnOnce(&mut String)) {
    out.push_str(r#"{"jsonrpc":"2.0","id":"#);
    json::push_string(out, id);
    out.push_str(r#","method":"#);
    json::push_string(out, method);
    out.push_str(r#","params":"#);
    params(out);
    out.push('}');
}

//! JSON-RPC messages over raw JSON: what is needed to route one is read, everything else stays text.

use crate::{
    depth::{MAX_DEPTH, is_too_deep},
    error::RpcError,
    json,
    object::{ObjectFlaw, object},
    splice::{Edit, splice},
};
use longhaul_core::Json;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// One message of a peer, borrowing from the bytes it came in.
#[derive(Debug, Clone)]
pub enum Message<'a> {
    /// Wants an answer.
    Request(Request<'a>),
    /// Wants none.
    Notification(Notification<'a>),
    /// Answers a request of ours.
    Response(Response<'a>),
}

/// A call that wants an answer.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// To be echoed in the answer.
    pub id: RequestId<'a>,
    /// The method's name, not yet looked up.
    pub method: Cow<'a, str>,
    /// An object, if present.
    pub params: Option<&'a RawValue>,
}

/// A message that wants no answer.
#[derive(Debug, Clone)]
pub struct Notification<'a> {
    /// The method's name, not yet looked up.
    pub method: Cow<'a, str>,
    /// An object, if present.
    pub params: Option<&'a RawValue>,
}

/// The answer to a request of ours.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    /// The request's id; absent if the peer could not read it.
    pub id: Option<RequestId<'a>>,
    /// The `result` member, or the `error` member.
    pub outcome: Result<&'a RawValue, &'a RawValue>,
}

/// A message that cannot be processed, and all that is needed to say so.
#[derive(Debug, Clone)]
pub struct Refusal<'a> {
    /// The message's id, if it could be made out; an answer without one is id-less.
    pub id: Option<RequestId<'a>>,
    /// What is wrong.
    pub error: RpcError,
}

impl Refusal<'_> {
    /// Appends the error response.
    pub fn write(&self, out: &mut String) {
        self.error.write_response(out, self.id);
    }
}

/// A request's id: a string or an integer (L-20), kept as the text it came in so that it is echoed byte for byte.
#[derive(Debug, Clone, Copy)]
pub struct RequestId<'a>(&'a str);

impl<'a> RequestId<'a> {
    /// Takes `raw` for an id; `None` unless it is a string or an integer.
    pub fn from_raw(raw: &'a RawValue) -> Option<Self> {
        let text = raw.get();
        let digits = text.strip_prefix('-').unwrap_or(text);
        let legal = text.starts_with('"') || digits.bytes().all(|byte| byte.is_ascii_digit());
        legal.then_some(Self(text))
    }

    /// The id as JSON text.
    pub fn as_json(self) -> &'a str {
        self.0
    }

    /// The same text for every spelling of one id (`"a"` and `"\u0061"`), to serve as a map's key.
    pub fn canonical(self) -> Cow<'a, str> {
        if !self.0.contains('\\') {
            return Cow::Borrowed(self.0);
        }
        let respelled = serde_json::from_str::<String>(self.0).map(|text| {
            let mut out = String::with_capacity(self.0.len());
            json::push_string(&mut out, &text);
            Cow::Owned(out)
        });
        respelled.unwrap_or(Cow::Borrowed(self.0))
    }
}

impl PartialEq for RequestId<'_> {
    /// Ids are equal if they mean the same; `1` and `"1"` do not.
    fn eq(&self, other: &RequestId<'_>) -> bool {
        self.0 == other.0 || self.canonical() == other.canonical()
    }
}

impl Eq for RequestId<'_> {}

object! {
    struct Draft {
        jsonrpc = "jsonrpc",
        id = "id",
        method = "method",
        params = "params",
        result = "result",
        error = "error",
    }
}

impl<'a> Message<'a> {
    /// Reads one message. Nesting beyond [`MAX_DEPTH`], batches, and duplicates of the members of JSON-RPC are refused;
    /// unknown members are ignored.
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
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Refusal<'a>> {
        let mut draft = Draft::default();
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(flaw) => {
                // The id often stands before the damage.
                let sound = std::str::from_utf8(&bytes[..flaw.valid_up_to()]).unwrap_or_default();
                let _ = draft.fill(sound);
                let at = flaw.valid_up_to();
                return Err(draft.refuse(RpcError::parse(format!("Not UTF-8 at byte {at}"))));
            }
        };
        if text.trim_start().starts_with('[') {
            return Err(draft.refuse(RpcError::invalid_request(
                "Batches are not supported: send each message by itself",
            )));
        }
        match draft.fill(text) {
            Ok(()) if is_too_deep(bytes) => Err(draft.refuse(RpcError::invalid_request(format!(
                "Nested deeper than {MAX_DEPTH} levels"
            )))),
            Ok(()) => draft.finish(),
            Err(flaw) => Err(draft.refuse_flaw(flaw)),
        }
    }
}

impl<'a> Draft<'a> {
    fn refuse(&self, error: RpcError) -> Refusal<'a> {
        Refusal {
            id: self.id.and_then(RequestId::from_raw),
            error,
        }
    }

    fn refuse_flaw(mut self, flaw: ObjectFlaw) -> Refusal<'a> {
        match flaw {
            ObjectFlaw::Syntax(error) => self.refuse(RpcError::parse(format!("Not JSON: {error}"))),
            ObjectFlaw::NotAnObject => self.refuse(RpcError::invalid_request("A message must be a JSON object")),
            ObjectFlaw::Duplicate(key) => {
                if key == "id" {
                    self.id = None;
                }
                self.refuse(RpcError::invalid_request(format!("The member {key} occurs twice")))
            }
        }
    }

    fn finish(self) -> Result<Message<'a>, Refusal<'a>> {
        self.sort().map_err(|why| self.refuse(RpcError::invalid_request(why)))
    }

    fn sort(&self) -> Result<Message<'a>, &'static str> {
        if self.jsonrpc.and_then(json::string).as_deref() != Some("2.0") {
            return Err("jsonrpc must be \"2.0\"");
        }
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => self.call(method),
            (None, Some(result), None) => self.response(Ok(result)),
            (None, None, Some(error)) => self.response(Err(error)),
            (None, None, None) => Err("A message needs a method, a result or an error"),
            _ => Err("A message has one of method, result and error, not several"),
        }
    }

    fn call(&self, method: &'a RawValue) -> Result<Message<'a>, &'static str> {
        let method = json::string(method).ok_or("method must be a string")?;
        let params = self.params;
        if params.is_some_and(|params| !json::is_object(params)) {
            return Err("params must be an object");
        }
        Ok(match self.id()? {
            Some(id) => Message::Request(Request { id, method, params }),
            None => Message::Notification(Notification { method, params }),
        })
    }

    fn response(&self, outcome: Result<&'a RawValue, &'a RawValue>) -> Result<Message<'a>, &'static str> {
        // A peer that could not read our id answers with null, or with none at all.
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

/// Appends `{"jsonrpc":"2.0","id":…,"result":…}`; `result` appends the result.
pub fn write_result(out: &mut String, id: RequestId<'_>, result: impl FnOnce(&mut String)) {
    out.push_str(r#"{"jsonrpc":"2.0","id":"#);
    out.push_str(id.as_json());
    out.push_str(r#","result":"#);
    result(out);
    out.push('}');
}

/// Appends the response whose result is `result` after `edits`, or −32603 if it is no object: that can be sent to nobody.
pub(crate) fn write_spliced(out: &mut String, id: RequestId<'_>, result: &Json, edits: &[Edit<'_>]) {
    let start = out.len();
    let mut sound = Ok(());
    write_result(out, id, |out| sound = splice(out, result.as_str(), edits));
    if sound.is_err() {
        out.truncate(start);
        RpcError::internal("The result is not a JSON object").write_response(out, Some(id));
    }
}

/// Appends a notification; `params` appends its params, an object.
pub fn write_notification(out: &mut String, method: &str, params: impl FnOnce(&mut String)) {
    out.push_str(r#"{"jsonrpc":"2.0","method":"#);
    json::push_string(out, method);
    out.push_str(r#","params":"#);
    params(out);
    out.push('}');
}

/// Appends a request with the string `id`; `params` appends its params, an object.
pub fn write_request(out: &mut String, id: &str, method: &str, params: impl FnOnce(&mut String)) {
    out.push_str(r#"{"jsonrpc":"2.0","id":"#);
    json::push_string(out, id);
    out.push_str(r#","method":"#);
    json::push_string(out, method);
    out.push_str(r#","params":"#);
    params(out);
    out.push('}');
}

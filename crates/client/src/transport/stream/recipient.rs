//! Whom a message of a stream is for.

use crate::{
    error::excerpt,
    transport::{
        batch::is_meant_as_batch,
        stream::unreadable::{Outline, number_of},
    },
};
use longhaul_wire::{Message, Method, Rejection, jsonrpc::Notification};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The JSON-RPC error of a server that cannot read a message.
const PARSE_ERROR: i32 = -32700;
/// The JSON-RPC error of a server that does not know a method.
const METHOD_NOT_FOUND: i32 = -32601;

#[derive(Debug)]
pub(crate) enum Recipient {
    /// The response to this request.
    Response(u64),
    /// Another message; it belongs to this request, if to any.
    Request(Option<u64>),
    /// A request, with its id if that is a number: the server's, or one of ours that it prints.
    Asked(Option<u64>),
    /// What may be an answer, and cannot be read or does not name its request.
    Unclear(Unclear),
    /// A line for people, or an answer to a request that is not ours.
    Noise,
}

#[derive(Debug)]
pub(crate) struct Unclear {
    /// The number that its id may stand for.
    pub(crate) id: Option<u64>,
    /// Whether it is no answer unless a request of this id is open: a program's own objects have ids, too.
    pub(crate) needs_id: bool,
    /// Whether it is the answer to a notification: servers may not answer one, and some do.
    pub(crate) of_notification: OfNotification,
    /// What is wrong.
    pub(crate) why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfNotification {
    No,
    Possibly,
    /// Of a server that does not know a method: requests have ids.
    Probably,
}

#[derive(Deserialize)]
struct Failure {
    code: i32,
}

/// Whether no id of ours, which are whole numbers from 1, can have become this text or number.
fn cannot_be_ours(id: &str) -> bool {
    match id.trim_matches('"').parse::<f64>() {
        Ok(number) => !(0.0..1e15).contains(&number),
        Err(_) => id.starts_with('"'),
    }
}

/// The number of a request: some servers make a string of it.
fn number(id: &str) -> Option<u64> {
    let text = id.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    text.unwrap_or(id).parse().ok()
}

/// Whom a message is for.
///
/// # Errors
/// It is no message.
pub(crate) fn recipient(message: &[u8]) -> Result<Recipient, Rejection<'_>> {
    Ok(match Message::parse(message)? {
        Message::Response(response) => {
            let Some(id) = response.id else {
                let said = response.outcome.err().map(RawValue::get).unwrap_or_default();
                let code = serde_json::from_str(said).map(|Failure { code }| code);
                return Ok(Recipient::Unclear(Unclear {
                    id: None,
                    needs_id: false,
                    of_notification: match code {
                        Ok(METHOD_NOT_FOUND) => OfNotification::Probably,
                        Ok(code) if code != PARSE_ERROR => OfNotification::Possibly,
                        // What was sent could not be read.
                        _ => OfNotification::No,
                    },
                    why: "it answered a request without its id".to_owned(),
                }));
            };
            match number(id.as_json()) {
                Some(id) => Recipient::Response(id),
                None if cannot_be_ours(id.as_json()) => Recipient::Noise,
                None => Recipient::Unclear(Unclear {
                    id: number_of(id.as_json().as_bytes()),
                    needs_id: true,
                    of_notification: OfNotification::No,
                    why: format!("it answered with an id that no request has: {}", excerpt(id.as_json())),
                }),
            }
        }
        Message::Notification(notification) => Recipient::Request(request_of(&notification)),
        Message::Request(request) => Recipient::Asked(number(request.id.as_json())),
    })
}

/// Whose a line is that is no message.
pub(crate) fn of_unreadable(message: &[u8], rejection: &Rejection<'_>) -> Recipient {
    let shown = || excerpt(&String::from_utf8_lossy(message)).into_owned();
    if message.contains(&0) {
        return of_wide(message);
    }
    match Outline::of(message) {
        None if is_meant_as_batch(message) => match Outline::of(&message.trim_ascii_start()[1..]) {
            Some(outline) if outline.is_response() => Recipient::Unclear(Unclear {
                id: outline.id.and_then(number_of),
                needs_id: !outline.may_be_anyones(),
                of_notification: OfNotification::No,
                why: format!("its batch of answers cannot be read: {}: {}", rejection.error, shown()),
            }),
            _ => Recipient::Noise,
        },
        None => Recipient::Noise,
        Some(outline) if outline.is_response() => {
            let (is_json, why) = match serde_json::from_slice::<&RawValue>(message) {
                Err(error) => (false, format!("its answer is no JSON: {error}")),
                Ok(_) => (true, format!("its answer cannot be read: {}", rejection.error)),
            };
            Recipient::Unclear(Unclear {
                id: outline.id.and_then(number_of),
                needs_id: !outline.may_be_anyones(),
                of_notification: if is_json {
                    OfNotification::Possibly
                } else {
                    OfNotification::No
                },
                why: format!("{why}: {}", shown()),
            })
        }
        // An unreadable message goes to the one who reports it.
        Some(_) => Recipient::Request(None),
    }
}

/// Whose a line is in UTF-16, which has such a byte beside each character of ASCII.
fn of_wide(line: &[u8]) -> Recipient {
    let narrow: Vec<u8> = line.iter().copied().filter(|byte| *byte != 0 && *byte < 0x80).collect();
    match Outline::of(&narrow) {
        Some(outline) if outline.is_response() => Recipient::Unclear(Unclear {
            id: outline.id.and_then(number_of),
            needs_id: !outline.may_be_anyones(),
            of_notification: OfNotification::No,
            why: "its answer is in UTF-16, and MCP is in UTF-8".to_owned(),
        }),
        _ => Recipient::Noise,
    }
}

/// The request that a notification belongs to: by its progress token, which is the request's id, or by its subscription.
fn request_of(notification: &Notification<'_>) -> Option<u64> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(rename = "progressToken", borrow)]
        progress_token: Option<&'a RawValue>,
        #[serde(rename = "_meta", borrow)]
        meta: Option<Meta<'a>>,
    }
    #[derive(Deserialize)]
    struct Meta<'a> {
        #[serde(rename = "io.modelcontextprotocol/subscriptionId", borrow)]
        subscription: Option<&'a RawValue>,
    }
    let params: Params<'_> = serde_json::from_str(notification.raw_params()?.get()).ok()?;
    let id = if notification.method == Method::Progress.as_str() {
        params.progress_token?
    } else {
        params.meta?.subscription?
    };
    number(id.get())
}

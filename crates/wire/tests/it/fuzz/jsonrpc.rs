//! Any bytes as a message.

use super::CHANCES;
use crate::hostile::process;
use longhaul_wire::{
    AdmissionRules, Headers, Message, MessageTransport, Rejection, Request, RequestId, RpcError, SessionState, Version,
    admit,
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

#[test]
fn envelope() {
    bolero::check!(name = "envelope")
        .with_iterations(CHANCES)
        .for_each(|bytes: &[u8]| {
            process(bytes);
            read(bytes);
        });
}

/// The members of a message, found by other means than ours. Refuses duplicates.
#[derive(Deserialize)]
struct Seen<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

fn read(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).ok();
    let is_json = text.is_some_and(|text| serde_json::from_str::<&RawValue>(text).is_ok());
    // Fewer texts: names and bare numbers must also be representable.
    let is_readable = text.is_some_and(|text| serde_json::from_str::<Value>(text).is_ok());
    // Without the filter, a list would do for an object.
    let object = text.filter(|text| text.trim_start().starts_with('{'));
    let seen = object.and_then(|text| serde_json::from_str::<Seen<'_>>(text).ok());
    match Message::parse(bytes) {
        Err(Rejection { id, error }) => {
            match error.code() {
                -32700 => assert!(!is_readable),
                code => assert_eq!(code, -32600),
            }
            assert_eq!(error.status(), 400);
            check_error(&error, id);
            // JSON whose id could be an id is refused by its id.
            if let Some(Seen { id: Some(seen), .. }) = seen
                && is_id(seen)
            {
                assert_eq!(id.map(RequestId::as_json), Some(seen.get()));
            }
        }
        Ok(message) => {
            assert!(is_json);
            let seen = seen.unwrap();
            match message {
                Message::Request(request) => {
                    assert_eq!(Some(request.id.as_json()), seen.id.map(RawValue::get));
                    assert_eq!(request.raw_params().map(RawValue::get), seen.params.map(RawValue::get));
                    knock(&request);
                }
                Message::Notification(notification) => {
                    assert!(seen.id.is_none());
                    assert_eq!(
                        notification.raw_params().map(RawValue::get),
                        seen.params.map(RawValue::get)
                    );
                }
                Message::Response(response) => {
                    let (Ok(body) | Err(body)) = response.outcome;
                    assert!(text.unwrap().contains(body.get()));
                }
            }
        }
    }
}

fn is_id(raw: &RawValue) -> bool {
    let value: Option<Value> = serde_json::from_str(raw.get()).ok();
    value.is_some_and(|id| id.is_string() || id.is_i64() || id.is_u64())
}

/// Sends each message by every way in.
fn knock(request: &Request<'_>) {
    let rules = AdmissionRules {
        strict_headers: false,
        serves: |_| true,
    };
    let bare = Headers::default;
    let fitting = Headers {
        protocol_version: Some(b"2026-07-28"),
        method: Some(request.method.as_bytes()),
        ..bare()
    };
    let http = |headers, session| MessageTransport::Http {
        headers,
        session,
        sessionless: true,
    };
    for transport in [
        http(bare(), SessionState::None),
        http(fitting, SessionState::None),
        http(bare(), SessionState::Live(Version::V2025_11_25)),
        http(bare(), SessionState::Gone),
        MessageTransport::Stdio { initialized: None },
        MessageTransport::Stdio {
            initialized: Some(Version::V2025_06_18),
        },
    ] {
        match admit(request, &transport, &rules) {
            Ok(admitted) => assert!(admitted.method.exists_in(admitted.era.generation())),
            Err(error) => {
                assert!([200, 400, 404].contains(&error.status()), "{error}");
                check_error(&error, Some(request.id));
            }
        }
    }
}

/// What an error says is JSON, and carries the id as it came.
fn check_error(error: &RpcError, id: Option<RequestId<'_>>) {
    let mut out = String::new();
    error.write_response(&mut out, id);
    let seen: Seen<'_> = serde_json::from_str(&out).unwrap_or_else(|flaw| panic!("{flaw}: {out}"));
    assert_eq!(seen.id.map(RawValue::get), id.map(RequestId::as_json));
    // An id may be half a surrogate, which JSON allows and no tree holds.
    let odd = id
        .map(RequestId::as_json)
        .filter(|id| serde_json::from_str::<Value>(id).is_err());
    let readable = odd.map_or(out.clone(), |odd| out.replacen(odd, "0", 1));
    let value: Value = serde_json::from_str(&readable).unwrap();
    assert_eq!(value["jsonrpc"], "2.0");
    assert_eq!(value["error"]["code"], error.code());
}

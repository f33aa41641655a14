//! Hiding secrets in what is shown of messages.

use longhaul_core::{MASK, Masking, is_secret_name, masked_session};
use parking_lot::Mutex;
use serde_json::Value;
use std::borrow::Cow;

const SESSION_ID: &str = "mcp-session-id";
/// A shorter value is in too many texts to be hidden wherever it is.
const SHORTEST_ECHO: usize = 4;

/// Hides secrets, also where the server tells one that was sent.
#[derive(Default)]
pub(super) struct Mask {
    /// What was hidden in what was sent: the longest first, since it may contain another one.
    sent: Mutex<Vec<String>>,
}

impl Mask {
    /// The value of a header that is sent.
    pub(super) fn header<'a>(&self, name: &str, value: &'a str) -> Cow<'a, str> {
        if name == SESSION_ID {
            return Cow::Owned(masked_session(value));
        }
        let mut hiding = Masking::default();
        let shown = match is_secret_name(name) {
            true => {
                // `Bearer` and such are no secrets.
                let secret = value.rsplit(' ').next().unwrap_or(value);
                hiding.hidden.push(secret.to_owned());
                Cow::Borrowed(MASK)
            }
            false => hiding.text(value),
        };
        self.keep(hiding.hidden);
        shown
    }

    /// A message that is sent, byte by byte unless there is a secret in it.
    pub(super) fn sent<'a>(&self, message: &'a str) -> Cow<'a, str> {
        let mut hiding = self.hiding();
        let shown = hiding.message(message);
        if hiding.hidden.is_empty() {
            return shown;
        }
        self.keep(hiding.hidden);
        // It may also stand where nothing tells that it is a secret.
        self.hiding().message(message)
    }

    /// The same of one that was received.
    pub(super) fn received<'a>(&self, message: &'a str) -> Cow<'a, str> {
        self.hiding().message(message)
    }

    /// A text that tells what was received, without the secrets in it.
    pub(super) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.hiding().text(text)
    }

    /// The same of a value.
    pub(super) fn value(&self, mut value: Value) -> Value {
        self.hiding().value(&mut value);
        value
    }

    fn hiding(&self) -> Masking {
        Masking {
            echoes: self.sent.lock().clone(),
            ..Masking::default()
        }
    }

    fn keep(&self, hidden: Vec<String>) {
        let mut sent = self.sent.lock();
        for secret in hidden {
            if secret.chars().count() >= SHORTEST_ECHO && !sent.contains(&secret) {
                sent.push(secret);
            }
        }
        sent.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(message: &str) -> Cow<'_, str> {
        Mask::default().sent(message).into_owned().into()
    }

    fn header(name: &str, value: &str) -> String {
        Mask::default().header(name, value).into_owned()
    }

    #[test]
    fn secrets_are_hidden_and_everything_else_is_shown_as_it_came() {
        let hidden =
            message(r#"{"params":{"arguments":{"api_key":"k","a":[{"Password":5}]},"_meta":{"progressToken":7}}}"#);
        assert_eq!(
            serde_json::from_str::<Value>(&hidden).unwrap(),
            serde_json::json!({"params": {"arguments": {"api_key": "***", "a": [{"Password": "***"}]}, "_meta": {"progressToken": 7}}})
        );
        let hidden = message(
            r#"{"credentials":{"user":"u","more":{"value":5}},"tokens":["t"],"maxTokens":9,"secret":[["s"],true],"passwords":{"bob":"p"},"apiKeys":"k","secrets":"s","usage":{"tokens":12}}"#,
        );
        assert_eq!(
            serde_json::from_str::<Value>(&hidden).unwrap(),
            serde_json::json!({"credentials": {"user": "***", "more": {"value": "***"}}, "tokens": ["***"], "maxTokens": 9, "secret": [["***"], true], "passwords": {"bob": "***"}, "apiKeys": "***", "secrets": "***", "usage": {"tokens": 12}})
        );
        for untouched in [
            r#"{ "n": 1.0, "token": {"type": "string"}, "_meta": {"progressToken": "p"} }"#,
            "not JSON",
            "a token of = and --token",
        ] {
            assert_eq!(message(untouched), untouched);
        }
        assert_eq!(header("authorization", "Bearer x"), "***");
        assert_eq!(header("mcp-param-api-key", "x"), "***");
        assert_eq!(header("mcp-session-id", "0123456789"), "01234567…");
        assert_eq!(header("mcp-method", "tools/list"), "tools/list");
    }

    #[test]
    fn what_was_hidden_is_hidden_where_the_server_tells_it() {
        let mask = Mask::default();
        mask.header("authorization", "Bearer abcdef");
        let shown = mask.sent(r#"{"client_secret":"twofold","x":"twofold and abcdef"}"#);
        assert_eq!(shown, r#"{"client_secret":"***","x":"*** and ***"}"#);
        mask.sent(r#"{"arguments":{"password":"hunter2","pin":1234,"otp":"1","url":"https://u:hunter2+@h"}}"#);
        let shown =
            mask.received(r#"{"text":"1: hunter2, hunter2+ and abcdef","n":1234,"m":12345,"list":["hunter2"]}"#);
        assert_eq!(
            serde_json::from_str::<Value>(&shown).unwrap(),
            serde_json::json!({"text": "1: ***, *** and ***", "n": "***", "m": 12345, "list": ["***"]})
        );
        assert_eq!(mask.text("failed: hunter2"), "failed: ***");
        assert_eq!(mask.received(r#"{ "n": 1.0 }"#), r#"{ "n": 1.0 }"#);
    }
}

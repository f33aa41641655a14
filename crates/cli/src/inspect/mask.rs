//! Hiding secrets in what is shown.

use serde_json::Value;
use std::borrow::Cow;

/// Shown in place of a secret.
const MASK: &str = "***";
/// The letters of a session id that are shown.
const SHOWN: usize = 8;
/// How the names of secrets end, in lower case and without `-` and `_`.
const SECRETS: [&str; 9] = [
    "authorization",
    "cookie",
    "token",
    "secret",
    "password",
    "passphrase",
    "apikey",
    "accesskey",
    "privatekey",
];
/// No secret, although its name ends like one.
const PROGRESS_TOKEN: &str = "progresstoken";
const SESSION_ID: &str = "mcp-session-id";

/// The value of a header.
pub(super) fn header<'a>(name: &str, value: &'a str) -> Cow<'a, str> {
    match name {
        SESSION_ID => Cow::Owned(session(value)),
        _ if is_secret(name) => Cow::Borrowed(MASK),
        _ => Cow::Borrowed(value),
    }
}

/// The beginning of a session id, which tells sessions apart and opens none.
pub(super) fn session(id: &str) -> String {
    let shown: String = id.chars().take(SHOWN).collect();
    format!("{shown}…")
}

/// The message, byte by byte unless there is a secret in it.
pub(super) fn message(text: &str) -> Cow<'_, str> {
    // What cannot be read is shown, to find out what is wrong with it.
    let Ok(mut value) = serde_json::from_str::<Value>(text) else {
        return Cow::Borrowed(text);
    };
    match hide(&mut value) {
        true => Cow::Owned(value.to_string()),
        false => Cow::Borrowed(text),
    }
}

/// Whether there was something to hide.
fn hide(value: &mut Value) -> bool {
    let mut found = false;
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                if (value.is_string() || value.is_number()) && is_secret(name) {
                    *value = MASK.into();
                    found = true;
                } else {
                    found |= hide(value);
                }
            }
        }
        Value::Array(values) => {
            for value in values {
                found |= hide(value);
            }
        }
        _ => {}
    }
    found
}

fn is_secret(name: &str) -> bool {
    let name: String = name
        .chars()
        .filter(|char| !"-_".contains(*char))
        .collect::<String>()
        .to_lowercase();
    name != PROGRESS_TOKEN && SECRETS.iter().any(|secret| name.ends_with(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_everything_else_is_shown_as_it_came() {
        let hidden =
            message(r#"{"params":{"arguments":{"api_key":"k","a":[{"Password":5}]},"_meta":{"progressToken":7}}}"#);
        assert_eq!(
            serde_json::from_str::<Value>(&hidden).unwrap(),
            serde_json::json!({"params": {"arguments": {"api_key": "***", "a": [{"Password": "***"}]}, "_meta": {"progressToken": 7}}})
        );
        for untouched in [
            r#"{ "n": 1.0, "token": {"type": "string"}, "_meta": {"progressToken": "p"} }"#,
            "not JSON",
        ] {
            assert_eq!(message(untouched), untouched);
        }
        assert_eq!(header("authorization", "Bearer x"), "***");
        assert_eq!(header("mcp-param-api-key", "x"), "***");
        assert_eq!(header("mcp-session-id", "0123456789"), "01234567…");
        assert_eq!(header("mcp-method", "tools/list"), "tools/list");
    }
}

//! Hiding secrets in what is shown.

use serde_json::Value;
use std::borrow::Cow;

/// Shown in place of a secret.
const MASK: &str = "***";
/// The letters of a session id that are shown.
const SHOWN: usize = 8;
/// How the names of secrets end, in lower case and without `-` and `_`.
const SECRETS: [&str; 12] = [
    "authorization",
    "cookie",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "credential",
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
        _ => text(value),
    }
}

/// The beginning of a session id, which tells sessions apart and opens none.
pub(super) fn session(id: &str) -> String {
    let shown: String = id.chars().take(SHOWN).collect();
    format!("{shown}…")
}

/// The message, byte by byte unless there is a secret in it.
pub(super) fn message(message: &str) -> Cow<'_, str> {
    // What cannot be read is shown, to find out what is wrong with it.
    let Ok(mut value) = serde_json::from_str::<Value>(message) else {
        return text(message);
    };
    match hide(&mut value) {
        true => Cow::Owned(value.to_string()),
        false => Cow::Borrowed(message),
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
        Value::String(shown) => {
            if let Cow::Owned(hidden) = text(shown) {
                *shown = hidden;
                found = true;
            }
        }
        _ => {}
    }
    found
}

/// A text without the secrets in it: those of JSON in it, and what follows `Bearer`, `token=` or `--token`.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    if text.trim_start().starts_with(['{', '['])
        && let Ok(mut value) = serde_json::from_str::<Value>(text)
    {
        return match hide(&mut value) {
            true => Cow::Owned(format!("{value:#}")),
            false => Cow::Borrowed(text),
        };
    }
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(start) = secret_in(rest) {
        let (before, secret) = rest.split_at(start);
        let quote = secret.chars().next().filter(|first| "\"'".contains(*first));
        let secret = &secret[quote.map_or(0, char::len_utf8)..];
        let ends = |char: char| match quote {
            Some(quote) => char == quote,
            None => char.is_whitespace() || "&;,\"'<>)`".contains(char),
        };
        shown.push_str(before);
        shown.extend(quote);
        shown.push_str(MASK);
        rest = &secret[secret.find(ends).unwrap_or(secret.len())..];
    }
    match shown.is_empty() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(shown + rest),
    }
}

/// Where the first secret of a text begins.
fn secret_in(text: &str) -> Option<usize> {
    let is_name = |char: char| char.is_ascii_alphanumeric() || "-_".contains(char);
    text.match_indices(['=', ' ']).find_map(|(place, sign)| {
        let before = &text[..place];
        let name = &before[before.trim_end_matches(is_name).len()..];
        let is_introduced = match sign {
            "=" => is_secret(name),
            _ => name.eq_ignore_ascii_case("bearer") || (name.starts_with('-') && is_secret(name)),
        };
        let secret = &text[place + 1..];
        let is_there = secret.starts_with(|first: char| !first.is_whitespace() && (sign == "=" || first != '-'));
        (is_introduced && is_there).then_some(place + 1)
    })
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
    fn secrets_in_a_text_are_hidden() {
        for (shown, hidden) in [
            ("a Bearer S3CRET, b", "a Bearer ***, b"),
            ("https://h/?api_key=S3CRET&n=1", "https://h/?api_key=***&n=1"),
            (
                "sh -c 'x' --api-key=S3CRET --token S3CRET end",
                "sh -c 'x' --api-key=*** --token *** end",
            ),
            ("--password 'S3 CRET' b", "--password '***' b"),
            ("DB_PASSWD=S3CRET MY_TOKEN=S3CRET", "DB_PASSWD=*** MY_TOKEN=***"),
        ] {
            assert_eq!(text(shown), hidden);
            let message = message(&serde_json::json!({"content": [{"text": shown}]}).to_string()).into_owned();
            assert!(!message.contains("S3"), "{message}");
        }
        let environment = serde_json::json!({"MY_TOKEN": "S3CRET", "passwd": "S3CRET", "PATH": "/bin"});
        let shown = text(&environment.to_string()).into_owned();
        assert!(!shown.contains("S3CRET") && shown.contains("/bin"), "{shown}");
    }
}

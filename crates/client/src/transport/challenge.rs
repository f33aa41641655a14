//! `WWW-Authenticate`: what a server says of a refusal.

use crate::error::excerpt;

/// Why a server refuses, in its words: `error_description`.
pub(crate) fn reason(challenge: Option<&str>) -> Option<String> {
    let reason = parameter(challenge?, "error_description")?;
    let reason = excerpt(reason.trim()).replace(char::is_control, " ");
    (!reason.is_empty()).then_some(reason)
}

/// Whether it says where to log in (RFC 9728).
#[cfg(feature = "login")]
pub(crate) fn names_issuers(challenge: Option<&str>) -> bool {
    challenge.is_some_and(|challenge| parameter(challenge, "resource_metadata").is_some())
}

/// The value of a parameter of a challenge (RFC 9110, section 11.6.1).
fn parameter(challenge: &str, wanted: &str) -> Option<String> {
    let mut rest = challenge;
    while let Some(first) = rest.chars().next() {
        let (name, behind) = split_token(rest);
        if name.is_empty() {
            rest = match first {
                '"' => quoted(&rest[1..]).1,
                _ => &rest[first.len_utf8()..],
            };
            continue;
        }
        rest = behind.trim_start();
        let Some(value) = rest.strip_prefix('=') else { continue };
        let value = value.trim_start();
        let text;
        (text, rest) = match value.strip_prefix('"') {
            Some(inner) => quoted(inner),
            None => {
                let (token, behind) = split_token(value);
                (token.to_owned(), behind)
            }
        };
        if name.eq_ignore_ascii_case(wanted) {
            return Some(text);
        }
    }
    None
}

fn split_token(text: &str) -> (&str, &str) {
    let is_token = |char: char| char.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(char);
    text.split_at(text.find(|char| !is_token(char)).unwrap_or(text.len()))
}

/// A quoted string behind its first quote, and what follows it.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((place, char)) = chars.next() {
        match char {
            '"' => return (value, &text[place + 1..]),
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            char => value.push(char),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_refusal_is_found() {
        for (challenge, expected) in [
            (
                r#"Bearer error="invalid_token", error_description="it has expired""#,
                Some("it has expired"),
            ),
            (r#"Bearer Error_Description = "a \"b\", c", x=y"#, Some("a \"b\", c")),
            ("Bearer error_description=short, scope=\"a\"", Some("short")),
            (
                r#"Basic abc==, Bearer x="error_description=\"no\"", error_description="yes"#,
                Some("yes"),
            ),
            (r#"Bearer realm="error_description=no""#, None),
            ("Bearer error_description=\" \n\"", None),
            ("Bearer error_description=\"a\nb\"", Some("a b")),
            ("Bearer ä=\"1\", error_description=\"ü\"", Some("ü")),
            ("Bearer", None),
            ("", None),
        ] {
            assert_eq!(reason(Some(challenge)).as_deref(), expected, "{challenge}");
        }
        let long = format!("Bearer error_description={}", "x".repeat(5000));
        assert!(reason(Some(&long)).is_some_and(|reason| reason.len() < 300));
    }
}

//! The question that a person is asked about a call. Its arguments are those of whoever calls, so none of them can look like a part of the question.

use super::{
    number,
    template::{Template, TemplatePart},
};
use longhaul_core::{is_hidden, shorten};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, fmt::Write};

/// How much of one value is shown, in characters.
const SHOWN: usize = 200;
/// The longest question, in bytes.
const LONGEST: usize = 8 * 1024;
/// What may stand beside letters and digits in a text without quotes.
const PLAIN: &str = "_-./:,+@%=~#";

impl Template {
    /// The question about a call with these arguments, and with `defaults` for those that are left out; nothing stands in the place of what is absent or null.
    ///
    /// A text stands without quotes if it is one word of letters and digits of ASCII and some signs. Any other is quoted, and what would not be seen in it,
    /// or would change what is seen, is escaped. Of a long value the beginning is shown, with its length. Arrays and objects are their JSON.
    ///
    /// ```
    /// let template = longhaul_command::Template::parse("Deploy {tag} to {env}?").unwrap();
    /// let defaults = [("env".to_owned(), "production".into())].into();
    /// assert_eq!(template.question_of(r#"{"tag":"v1.2"}"#, &defaults), "Deploy v1.2 to production?");
    /// let forged = template.question_of(r#"{"tag":"v1 to a test\n\nApproved by ops:"}"#, &defaults);
    /// assert_eq!(forged, r#"Deploy "v1 to a test\n\nApproved by ops:" to production?"#);
    /// ```
    pub fn question_of(&self, arguments: &str, defaults: &BTreeMap<String, Value>) -> String {
        let arguments: Map<String, Value> = serde_json::from_str(arguments).unwrap_or_default();
        let mut question = String::new();
        for part in self.parts() {
            match part {
                TemplatePart::Literal(text) => question.push_str(text),
                TemplatePart::Placeholder(name) => {
                    if let Some(value) = arguments.get(name).or_else(|| defaults.get(name)) {
                        question.push_str(&shown(value));
                    }
                }
            }
        }
        shorten(&question, LONGEST).into_owned()
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if is_plain(text) => text.clone(),
        Value::String(text) => cut(text, '"', |text, char| match char {
            '"' | '\\' => text.extend(['\\', char]),
            _ => push_seen(text, char),
        }),
        Value::Bool(flag) => flag.to_string(),
        // JSON has one kind of numbers.
        Value::Number(number) => number::as_integer(&number.to_string()).unwrap_or_else(|| number.to_string()),
        // What a control character is there is escaped already.
        Value::Array(_) | Value::Object(_) => cut(&value.to_string(), '`', push_seen),
    }
}

fn is_plain(text: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || PLAIN.contains(char);
    (1..=SHOWN).contains(&text.len()) && text.chars().all(is_plain)
}

/// The beginning of a text between two `quote`s, and how long it is if that is not all.
fn cut(text: &str, quote: char, push: impl Fn(&mut String, char)) -> String {
    let mut shown = String::from(quote);
    let mut chars = text.chars();
    for char in chars.by_ref().take(SHOWN) {
        push(&mut shown, char);
    }
    match chars.count() {
        0 => shown.push(quote),
        more => {
            // Writing to a string cannot fail.
            let _ = write!(shown, "…{quote} ({} characters)", SHOWN + more);
        }
    }
    shown
}

/// Appends a character as a reader sees it.
fn push_seen(text: &mut String, char: char) {
    match char {
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        ' ' => text.push(' '),
        // So that no value ends another kind of quotes than its own.
        '`' => text.push_str("\\u{60}"),
        _ if is_hidden(char) || char.is_whitespace() || is_invisible(char) => {
            let _ = write!(text, "\\u{{{:x}}}", u32::from(char));
        }
        _ => text.push(char),
    }
}

/// Characters without a shape of their own.
fn is_invisible(char: char) -> bool {
    matches!(
        char,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn question(value: Value) -> String {
        let template = Template::parse("Deploy {tag}?").unwrap();
        template.question_of(&json!({ "tag": value }).to_string(), &BTreeMap::new())
    }

    #[test]
    fn what_is_no_plain_word_is_quoted() {
        for (value, shown) in [
            (json!("v1.2-rc.3"), "v1.2-rc.3"),
            (json!("origin/main"), "origin/main"),
            (json!(""), r#""""#),
            (json!("a b"), r#""a b""#),
            (json!("a\" to test"), r#""a\" to test""#),
            (json!("a\\"), r#""a\\""#),
            (
                json!("a\u{202e}b\u{200b}c\u{a0}\u{85}"),
                r#""a\u{202e}b\u{200b}c\u{a0}\u{85}""#,
            ),
            (json!("Zoë"), "\"Zoë\""),
            (json!(5.0), "5"),
            (json!(true), "true"),
            (json!(null), ""),
            (json!(["a", {"b": "x\ny`"}]), r#"`["a",{"b":"x\ny\u{60}"}]`"#),
        ] {
            assert_eq!(question(value), format!("Deploy {shown}?"));
        }
    }

    #[test]
    fn a_long_value_is_cut_and_says_so() {
        let long = "ü".repeat(1_000);
        let expected = format!("Deploy \"{}…\" (1000 characters)?", "ü".repeat(SHOWN));
        assert_eq!(question(json!(long)), expected);
        assert!(question(json!("v".repeat(201))).starts_with("Deploy \"vvv"));
    }

    proptest! {
        /// Taken out of its quotes, no value leaves anything behind that the question does not have by itself.
        #[test]
        fn no_value_looks_like_a_part_of_the_question(value in any::<String>()) {
            let question = question(json!(value));
            prop_assert!(!question.contains(is_hidden) && !question.contains(is_invisible));
            prop_assert!(question.len() < 3_000);
            let inner = question.strip_prefix("Deploy ").and_then(|rest| rest.strip_suffix('?')).unwrap();
            if let Some(quoted) = inner.strip_prefix('"') {
                let mut escaped = false;
                let end = quoted.find(|char| {
                    let ends = char == '"' && !escaped;
                    escaped = char == '\\' && !escaped;
                    ends
                });
                let rest = &quoted[end.unwrap() + 1..];
                prop_assert!(rest.is_empty() || rest.starts_with(" ("), "{}", rest);
            } else {
                prop_assert!(is_plain(inner));
            }
        }
    }
}

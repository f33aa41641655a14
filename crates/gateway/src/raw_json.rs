//! Values within JSON text, as they are written: a number that no Rust type holds stays what it is.

use longhaul_core::Json;
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::HashMap};

/// The members of an object; `None` for another value. Of several with one name the last counts.
pub(crate) fn members(text: &str) -> Option<HashMap<Cow<'_, str>, &RawValue>> {
    serde_json::from_str(text).ok()
}

/// The value at a JSON pointer (RFC 6901).
pub(crate) fn at<'a>(text: &'a str, pointer: &str) -> Option<&'a str> {
    if pointer.is_empty() {
        return Some(text.trim());
    }
    let mut value = text;
    for token in pointer.strip_prefix('/')?.split('/') {
        let token = token.replace("~1", "/").replace("~0", "~");
        value = match members(value) {
            Some(members) => members.get(token.as_str())?.get(),
            None => {
                let elements: Vec<&RawValue> = serde_json::from_str(value).ok()?;
                let is_index = token == "0" || !token.starts_with(['0', '+']);
                elements.get(token.parse::<usize>().ok().filter(|_| is_index)?)?.get()
            }
        };
    }
    Some(value)
}

/// A text, or a number or a boolean as it is written.
pub(crate) fn scalar(value: &str) -> Option<String> {
    match value.as_bytes().first()? {
        b'"' => serde_json::from_str(value).ok(),
        b'{' | b'[' | b'n' => None,
        _ => Some(value.to_owned()),
    }
}

/// The text of a value, if it is one.
pub(crate) fn text(value: &str) -> Option<String> {
    value.starts_with('"').then(|| scalar(value)).flatten()
}

/// An object of these members, whose values are JSON.
pub(crate) fn object<'a>(members: impl IntoIterator<Item = (&'a str, &'a str)>) -> Json {
    let mut out = String::from("{");
    for (name, value) in members {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&serde_json::Value::from(name).to_string());
        out.push(':');
        out.push_str(value);
    }
    out.push('}');
    Json::trusted(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn numbers_stay_as_they_are_written() {
        let text = r#"{"a":[{"n":12345678901234567890123}, 1.10, 1E400],"a/b~c":-0}"#;
        assert_eq!(at(text, "/a/0/n"), Some("12345678901234567890123"));
        assert_eq!((at(text, "/a/1"), at(text, "/a/2")), (Some("1.10"), Some("1E400")));
        assert_eq!(at(text, "/a~1b~0c").and_then(scalar).as_deref(), Some("-0"));
        let expected = r#"{"n":1E400,"a\"":[]}"#;
        assert_eq!(object([("n", "1E400"), ("a\"", "[]")]).as_str(), expected);
    }

    fn document() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<i32>().prop_map(Value::from), "[a/~0]{0,2}".prop_map(Value::from)];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::hash_map("[a/~01]{0,2}", inner, 0..4).prop_map(|members| json!(members)),
            ]
        })
    }

    proptest! {
        #[test]
        fn pointers_lead_where_they_lead_in_a_value(document in document(), pointer in "(/(a|/|~0|~1|0|1|01|-){0,2}){0,3}") {
            let text = document.to_string();
            let found = at(&text, &pointer).map(|found| serde_json::from_str::<Value>(found).unwrap());
            prop_assert_eq!(found.as_ref(), document.pointer(&pointer));
        }
    }
}

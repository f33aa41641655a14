//! Hides what the schema of a tool marks as secret: what JSON Schema calls `"writeOnly": true`, or gives the `"format": "password"`.

use longhaul_core::{Json, ParsedJson};
use serde_json::{Value, json, value::RawValue};
use std::collections::BTreeMap;

/// What stands in its place.
const HIDDEN: &str = "(hidden)";
/// Steps into a value and its schema. A schema may come from an upstream: one that takes more hides the value.
const MOST_STEPS: usize = 100_000;
/// Steps into each other: a parsed value is no deeper than 128.
const DEEPEST: usize = 256;

/// Hides the secret parts of a value. Whether there were any.
///
/// A part is found by `properties`, `items`, `prefixItems`, `additionalProperties`, `allOf`, `anyOf`, `oneOf`, and references within the schema.
pub(crate) fn mask(value: &mut Value, schema: &Value) -> bool {
    let mut masking = Masker {
        root: schema,
        left: MOST_STEPS,
    };
    let found = masking.mask(value, schema, 0);
    if masking.left == 0 {
        *value = HIDDEN.into();
    }
    found
}

/// Hides the secret parts of a tool's result. A text may repeat any of them, so with one of them all content is hidden.
pub(crate) fn mask_result(result: &mut Value, schema: &Value) -> bool {
    let is_masked = (result.get_mut("structuredContent")).is_some_and(|content| mask(content, schema));
    if is_masked && let Some(content) = result.get_mut("content") {
        *content = json!([{"type": "text", "text": HIDDEN}]);
    }
    is_masked
}

/// A text without what `hides` takes out of its value; `None` if that takes nothing. The numbers that are left are as they are written.
pub(crate) fn masked_text(text: &str, hides: impl FnOnce(&mut Value) -> bool) -> Option<Json> {
    let mut value = ParsedJson::of(text).as_value().clone();
    hides(&mut value).then(|| Json::trusted(as_written(text, &value)))
}

/// `value`, which was read from `text` and has lost some parts since, with the numbers of that. Of several members with one name the last counts: the others may be secret.
fn as_written(text: &str, value: &Value) -> String {
    let part = |raw: Option<&&RawValue>, value: &Value| {
        raw.map_or_else(|| value.to_string(), |raw| as_written(raw.get(), value))
    };
    match value {
        Value::Null | Value::Number(_) => text.trim().to_owned(),
        Value::Object(members) => {
            let raw: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
            let members = members
                .iter()
                .map(|(name, member)| format!("{}:{}", Value::from(name.as_str()), part(raw.get(name), member)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            let raw: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            let items = items.iter().enumerate().map(|(nth, item)| part(raw.get(nth), item));
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        }
        Value::Bool(_) | Value::String(_) => value.to_string(),
    }
}

struct Masker<'a> {
    root: &'a Value,
    left: usize,
}

impl<'a> Masker<'a> {
    fn mask(&mut self, value: &mut Value, schema: &'a Value, depth: usize) -> bool {
        if value.is_null() || !schema.is_object() {
            return false;
        }
        self.left = match depth < DEEPEST {
            true => self.left.saturating_sub(1),
            false => 0,
        };
        if self.left == 0 {
            return true;
        }
        let depth = depth + 1;
        if schema["writeOnly"] == true || schema["format"] == "password" {
            *value = HIDDEN.into();
            return true;
        }
        let mut found = false;
        let root = self.root;
        if let Some(pointer) = schema["$ref"]
            .as_str()
            .and_then(|reference| reference.strip_prefix('#'))
            && let Some(target) = root.pointer(pointer).filter(|target| !std::ptr::eq(*target, schema))
        {
            found |= self.mask(value, target, depth);
        }
        for combined in ["allOf", "anyOf", "oneOf"] {
            for schema in schema[combined].as_array().into_iter().flatten() {
                found |= self.mask(value, schema, depth);
            }
        }
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let of_name = schema["properties"].get(name);
                    found |= self.mask(member, of_name.unwrap_or(&schema["additionalProperties"]), depth);
                }
            }
            Value::Array(items) => {
                for (nth, item) in items.iter_mut().enumerate() {
                    let of_place = schema["prefixItems"].get(nth);
                    found |= self.mask(item, of_place.unwrap_or(&schema["items"]), depth);
                }
            }
            _ => {}
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_has_its_numbers_as_they_are_written() {
        let schema = json!({"properties": {"token": {"writeOnly": true}}});
        let hides = |value: &mut Value| mask_result(value, &schema);
        let text = r#"{"content": [1e400, {"n": 5}], "n": [1e400, 1.10, null, true],
            "structuredContent": {"token": "s1", "token": ["s2"], "id": 12345678901234567890123, "b": {"c": "s1", "c": null}}}"#;
        let expected = format!(
            r#"{{"content":[{{"type":"text","text":"{HIDDEN}"}}],"n":[1e400,1.10,null,true],"structuredContent":{{"b":{{"c":null}},"id":12345678901234567890123,"token":"{HIDDEN}"}}}}"#
        );
        assert_eq!(masked_text(text, hides).unwrap().as_str(), expected);
        assert!(masked_text(r#"{"structuredContent": {"id": 1}}"#, hides).is_none());
    }

    #[test]
    fn marked_parts_are_hidden_wherever_they_stand() {
        let schema = json!({
            "properties": {
                "user": {"type": "string"},
                "token": {"type": "string", "writeOnly": true},
                "hosts": {"items": {"$ref": "#/$defs/host"}},
                "either": {"anyOf": [{"properties": {"pin": {"format": "password"}}}, {"type": "string"}]},
            },
            "additionalProperties": {"writeOnly": true},
            "$defs": {"host": {"properties": {"name": {}, "key": {"writeOnly": true}, "next": {"$ref": "#/$defs/host"}}}},
        });
        let mut value = json!({
            "user": "me", "token": "s1", "extra": {"deep": "s2"},
            "hosts": [{"name": "a", "key": "s3", "next": {"name": "b", "key": ["s4"]}}],
            "either": {"pin": 5, "other": 6},
        });
        assert!(mask(&mut value, &schema));
        let expected = json!({
            "user": "me", "token": HIDDEN, "extra": HIDDEN,
            "hosts": [{"name": "a", "key": HIDDEN, "next": {"name": "b", "key": HIDDEN}}],
            "either": {"pin": HIDDEN, "other": 6},
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn nothing_else_is_touched() {
        for schema in [
            json!({}),
            json!(true),
            json!({"$ref": "#"}),
            json!({"$ref": "#/$defs/none"}),
            json!({"properties": {"a": {"$ref": "https://example.com/schema"}}}),
        ] {
            let mut value = json!({"a": [1, {"b": null}]});
            assert!(!mask(&mut value, &schema), "{schema}");
            assert_eq!(value, json!({"a": [1, {"b": null}]}));
        }
    }

    #[test]
    fn a_schema_without_an_end_hides_everything() {
        let schema = json!({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {
            "a": {"allOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/b"}]},
            "b": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]},
        }});
        let mut value = json!({"a": 1});
        assert!(mask(&mut value, &schema));
        assert_eq!(value, HIDDEN);
    }

    #[test]
    fn a_text_that_may_repeat_a_secret_is_hidden_with_it() {
        let schema = json!({"properties": {"key": {"writeOnly": true}}});
        let result = |text: &str, content: Value| json!({"content": [{"type": "text", "text": text}], "structuredContent": content});
        let mut secret = result("key is s1", json!({"key": "s1", "id": 7}));
        assert!(mask_result(&mut secret, &schema));
        assert_eq!(secret, result(HIDDEN, json!({"key": HIDDEN, "id": 7})));
        let mut open = result("id is 7", json!({"id": 7}));
        assert!(!mask_result(&mut open, &schema));
        assert_eq!(open["content"][0]["text"], "id is 7");
    }
}

//! Entries of an upstream's list as the schema has them. Clients refuse a whole list for one entry that is not.

use crate::raw_json;
use longhaul_core::Json;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The kinds of values of members that entries may have.
const TEXTS: [&str; 3] = ["title", "description", "mimeType"];
const OBJECTS: [&str; 4] = ["outputSchema", "annotations", "execution", "_meta"];
const ARRAYS: [&str; 2] = ["icons", "arguments"];
const INPUT_SCHEMA: &str = "inputSchema";
const TYPE: (&str, &str) = ("type", r#""object""#);

/// The entry without members that no entry may have so, and with the schema of its arguments if it is a tool; and what was wrong. `None` if nothing is.
pub(crate) fn mended(listed: &Json, is_tool: bool) -> Option<(Json, String)> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(listed.as_str()).ok()?;
    let mut wrong: Vec<&str> = members
        .iter()
        .filter(|(name, value)| !fits(name, value.get()))
        .map(|(name, _)| name.as_str())
        .collect();
    let schema = members.get(INPUT_SCHEMA).map(|schema| schema.get());
    let schema = is_tool.then(|| mended_schema(schema)).flatten();
    if schema.is_some() {
        wrong.push(INPUT_SCHEMA);
    }
    if wrong.is_empty() {
        return None;
    }
    let kept = members.iter().map(|(name, value)| (name.as_str(), value.get()));
    let kept = kept.filter(|(name, _)| !wrong.contains(name));
    let schema = schema.as_ref().map(|schema| (INPUT_SCHEMA, schema.as_str()));
    Some((raw_json::object(kept.chain(schema)), wrong.join(", ")))
}

fn fits(name: &str, value: &str) -> bool {
    match name {
        // It is looked at by itself.
        INPUT_SCHEMA => true,
        _ if TEXTS.contains(&name) => value.starts_with('"'),
        _ if OBJECTS.contains(&name) => value.starts_with('{'),
        _ if ARRAYS.contains(&name) => value.starts_with('['),
        _ => value != "null",
    }
}

/// The schema of a tool's arguments, whose type must be `object`. `None` if it is.
fn mended_schema(schema: Option<&str>) -> Option<Json> {
    let members: BTreeMap<String, &RawValue> = schema
        .and_then(|schema| serde_json::from_str(schema).ok())
        .unwrap_or_default();
    match members.get(TYPE.0).map(|of| of.get()) {
        Some(of) if of == TYPE.1 => None,
        Some(_) => Some(raw_json::object([TYPE])),
        None => {
            let members = members.iter().map(|(name, value)| (name.as_str(), value.get()));
            Some(raw_json::object([TYPE].into_iter().chain(members)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_would_refuse_is_mended_and_nothing_else() {
        let mended = |entry: &str, is_tool| mended(&Json::trusted(entry.to_owned()), is_tool);
        let sound = r#"{"name":"a","title":"A","inputSchema":{"type":"object"},"x":1E400}"#;
        assert_eq!(mended(sound, true), None);
        assert_eq!(mended(r#"{"name":"p","arguments":[]}"#, false), None);
        let cases = [
            (
                r#"{"name":"a"}"#,
                r#"{"name":"a","inputSchema":{"type":"object"}}"#,
                "inputSchema",
            ),
            (
                r#"{"inputSchema":null,"name":"a"}"#,
                r#"{"name":"a","inputSchema":{"type":"object"}}"#,
                "inputSchema",
            ),
            (
                r#"{"inputSchema":[],"name":"a"}"#,
                r#"{"name":"a","inputSchema":{"type":"object"}}"#,
                "inputSchema",
            ),
            (
                r#"{"name":"a","inputSchema":{"properties":{"n":{"maximum":1E400}}}}"#,
                r#"{"name":"a","inputSchema":{"type":"object","properties":{"n":{"maximum":1E400}}}}"#,
                "inputSchema",
            ),
            (
                r#"{"name":"a","title":null,"icons":{},"inputSchema":{"type":"object"}}"#,
                r#"{"inputSchema":{"type":"object"},"name":"a"}"#,
                "icons, title",
            ),
        ];
        for (entry, expected, wrong) in cases {
            let found = mended(entry, true).unwrap();
            assert_eq!((found.0.as_str(), found.1.as_str()), (expected, wrong), "{entry}");
        }
    }
}

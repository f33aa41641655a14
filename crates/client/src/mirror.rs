//! Arguments that a modern tool wants to see in headers too (T-29).

use http::{HeaderMap, HeaderName, HeaderValue};
use longhaul_wire::header::encode_value;
use serde_json::{Map, Value};

/// Where an annotated argument stands, and the header that mirrors it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mirror {
    header: HeaderName,
    path: Vec<String>,
}

/// An annotation that breaks the rules; the tool that has it may not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("x-mcp-header at `{place}` {flaw}")]
pub(crate) struct InvalidMirror {
    place: String,
    flaw: &'static str,
}

const KEYWORD: &str = "x-mcp-header";

/// Every annotation in a tool's input schema.
pub(crate) fn collect(schema: &Value) -> Result<Vec<Mirror>, InvalidMirror> {
    let mut mirrors = Vec::new();
    walk(schema, &mut Vec::new(), &mut mirrors)?;
    Ok(mirrors)
}

fn walk(schema: &Value, path: &mut Vec<String>, mirrors: &mut Vec<Mirror>) -> Result<(), InvalidMirror> {
    let Some(members) = schema.as_object() else {
        return Ok(());
    };
    let invalid = |path: &[String], flaw| {
        Err(InvalidMirror {
            place: path.join("."),
            flaw,
        })
    };
    if let Some(name) = members.get(KEYWORD) {
        let name = name.as_str().filter(|name| !name.is_empty());
        let Some(header) = name.and_then(|name| HeaderName::try_from(format!("mcp-param-{name}")).ok()) else {
            return invalid(path, "is not a header name");
        };
        if !matches!(
            members.get("type").and_then(Value::as_str),
            Some("integer" | "string" | "boolean")
        ) {
            return invalid(path, "is not at an integer, a string or a boolean");
        }
        if mirrors.iter().any(|mirror| mirror.header == header) {
            return invalid(path, "names a header for the second time");
        }
        mirrors.push(Mirror {
            header,
            path: path.clone(),
        });
    }
    for (key, member) in members {
        if key != "properties" {
            if mentions(member) {
                return invalid(path, "is not reached through `properties` alone");
            }
            continue;
        }
        for (name, property) in member.as_object().into_iter().flatten() {
            path.push(name.clone());
            walk(property, path, mirrors)?;
            path.pop();
        }
    }
    Ok(())
}

fn mentions(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.contains_key(KEYWORD) || members.values().any(mentions),
        Value::Array(elements) => elements.iter().any(mentions),
        _ => false,
    }
}

/// The headers for `arguments`; absent and null arguments have none.
pub(crate) fn headers(mirrors: &[Mirror], arguments: &Map<String, Value>) -> HeaderMap {
    mirrors
        .iter()
        .filter_map(|mirror| Some((mirror.header.clone(), mirror.value(arguments)?)))
        .collect()
}

impl Mirror {
    fn value(&self, arguments: &Map<String, Value>) -> Option<HeaderValue> {
        let (first, rest) = self.path.split_first()?;
        let argument = rest
            .iter()
            .try_fold(arguments.get(first)?, |value, name| value.get(name))?;
        let text = match argument {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        HeaderValue::from_str(&encode_value(&text)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn annotated_arguments_become_headers() {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "depth": {"type": "integer", "x-mcp-header": "Depth"},
            "job": {"type": "object", "properties": {"urgent": {"type": "boolean", "x-mcp-header": "Urgent"}}},
            "absent": {"type": "string", "x-mcp-header": "Absent"},
            "plain": {"type": "string"},
        }});
        let arguments = json!({"region": "größe", "depth": 3, "job": {"urgent": true}, "absent": null, "plain": "x"});
        let headers = headers(&collect(&schema).unwrap(), arguments.as_object().unwrap());
        assert_eq!(headers.len(), 3);
        assert_eq!(headers["mcp-param-region"], "=?base64?Z3LDtsOfZQ==?=");
        assert_eq!(headers["mcp-param-depth"], "3");
        assert_eq!(headers["mcp-param-urgent"], "true");
    }

    #[test]
    fn bad_annotations_are_noticed() {
        let one = |property: Value| collect(&json!({"type": "object", "properties": {"a": property}}));
        for bad in [
            json!({"type": "string", "x-mcp-header": ""}),
            json!({"type": "string", "x-mcp-header": "a b"}),
            json!({"type": "string", "x-mcp-header": 5}),
            json!({"type": "number", "x-mcp-header": "A"}),
            json!({"x-mcp-header": "A"}),
            json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}),
            json!({"anyOf": [{"type": "string", "x-mcp-header": "A"}]}),
        ] {
            assert!(one(bad.clone()).is_err(), "{bad}");
        }
        let twice = json!({"properties": {"a": {"type": "string", "x-mcp-header": "X"}, "b": {"type": "string", "x-mcp-header": "x"}}});
        assert!(collect(&twice).is_err());
    }
}

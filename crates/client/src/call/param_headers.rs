//! The headers that repeat arguments of a modern tool (`x-mcp-header`).

use http::{HeaderMap, HeaderName, HeaderValue};
use longhaul_wire::ParamHeaders;
use serde_json::{Map, Value};

/// Builds the headers for `arguments`. Absent and null arguments have none.
pub(crate) fn build(annotated: &ParamHeaders, arguments: &Map<String, Value>) -> HeaderMap {
    let line = |(name, value)| {
        let name = HeaderName::try_from(name).ok()?;
        Some((name, HeaderValue::try_from(value).ok()?))
    };
    annotated.values(arguments).filter_map(line).collect()
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
        let headers = build(&ParamHeaders::of(&schema).unwrap(), arguments.as_object().unwrap());
        assert_eq!(headers.len(), 3);
        assert_eq!(headers["mcp-param-region"], "=?base64?Z3LDtsOfZQ==?=");
        assert_eq!(headers["mcp-param-depth"], "3");
        assert_eq!(headers["mcp-param-urgent"], "true");
    }
}

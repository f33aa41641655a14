//! Arguments mirrored in headers.

use longhaul_wire::{AnnotationError, Headers, ParamHeaders};
use proptest::prelude::*;
use serde_json::{Value, json, value::RawValue};

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "depth": {"type": "integer", "x-mcp-header": "Depth"},
        "job": {"type": "object", "properties": {
            "urgent": {"type": "boolean", "x-mcp-header": "Urgent"},
            "region": {"type": "string", "x-mcp-header": "Job-Region"},
        }},
        "plain": {"type": "string"},
        // An argument may be called so, and data may hold it.
        "x-mcp-header": {"type": "object", "default": {"x-mcp-header": 1}, "enum": [{"x-mcp-header": 2}]},
    }})
}

fn mirrored() -> ParamHeaders {
    ParamHeaders::of(&schema()).unwrap()
}

fn check(lines: &[(&str, &str)], arguments: &str) -> Result<(), String> {
    let lines = lines.iter().map(|(name, value)| (*name, value.as_bytes()));
    let headers = Headers::collect(lines).unwrap();
    let raw: &RawValue = serde_json::from_str(arguments).unwrap();
    mirrored().check(&headers, Some(raw)).map_err(|error| {
        assert_eq!((error.code(), error.status()), (-32020, 400));
        error.message().to_owned()
    })
}

fn arguments() -> impl Strategy<Value = Value> {
    let text = || proptest::option::of(any::<String>());
    let depth = proptest::option::of(-9_007_199_254_740_991i64..=9_007_199_254_740_991);
    (text(), depth, proptest::option::of(any::<bool>()), text()).prop_map(|(region, depth, urgent, inner)| {
        // `None` is null here; leaving out is covered below.
        json!({"region": region, "depth": depth, "job": {"urgent": urgent, "region": inner}, "plain": "x"})
    })
}

proptest! {
    /// What a client of ours mirrors, a server of ours accepts; and leaving any of it out, or changing it, is noticed.
    #[test]
    fn what_is_mirrored_is_accepted_and_what_is_not_is_noticed(arguments in arguments(), nth in any::<prop::sample::Index>()) {
        let mirrored = mirrored();
        let lines: Vec<(&str, String)> = mirrored.values(arguments.as_object().unwrap()).collect();
        let text = arguments.to_string();
        let check = |lines: &[(&str, String)]| {
            let lines: Vec<_> = lines.iter().map(|(name, value)| (*name, value.as_str())).collect();
            check(&lines, &text)
        };
        prop_assert_eq!(check(&lines), Ok(()));
        if lines.is_empty() {
            return Ok(());
        }
        let nth = nth.index(lines.len());
        let mut less = lines.clone();
        let (name, _) = less.remove(nth);
        let missing = check(&less).unwrap_err();
        prop_assert!(missing.contains(name) && missing.contains("is missing"), "{}", missing);
        let mut other = lines;
        other[nth].1 = format!("x{}", other[nth].1.replace("=?", "x"));
        let changed = check(&other).unwrap_err();
        prop_assert!(changed.contains(name) && changed.contains("does not equal"), "{}", changed);
    }

    #[test]
    fn no_header_and_no_arguments_panic(
        value in proptest::collection::vec(any::<u8>(), 0..20),
        arguments in prop_oneof![Just(r#"{"region":"a"}"#), Just("[]"), Just("7"), Just(r#"{"job":[]}"#), Just(r#"{"depth":1e999}"#)],
    ) {
        for name in ["Mcp-Param-Region", "Mcp-Param-Depth", "mcp-param-", "mcp-param"] {
            let headers = Headers::collect([(name, value.as_slice())]).unwrap();
            let _ = mirrored().check(&headers, Some(serde_json::from_str(arguments).unwrap()));
            let _ = mirrored().check(&headers, None);
        }
    }
}

#[test]
fn headers_are_compared_by_value() {
    let region = |value| check(&[("MCP-PARAM-REGION", value)], r#"{"region":"Hello"}"#);
    for same in ["Hello", "  Hello\t", "=?base64?SGVsbG8=?="] {
        assert_eq!(region(same), Ok(()), "{same}");
    }
    for (other, says) in [
        ("hello", "does not equal"),
        ("SGVsbG8=", "does not equal"),
        ("=?base64?SGVsbG8?=", "not base64"),
        ("=?base64?SGVs!!!bG8=?=", "not base64"),
        ("=?BASE64?SGVsbG8=?=", "does not equal"),
        ("H\u{e9}llo", "not ASCII"),
    ] {
        assert!(region(other).unwrap_err().contains(says), "{other}");
    }
    // Without the whole wrapper a value is literal.
    for literal in ["SGVsbG8=", "=?base64?SGVsbG8="] {
        let body = json!({"region": literal}).to_string();
        assert_eq!(check(&[("Mcp-Param-Region", literal)], &body), Ok(()));
    }
}

#[test]
fn integers_are_compared_by_value() {
    let depth = |header: &str, body: &str| check(&[("Mcp-Param-Depth", header)], &format!(r#"{{"depth":{body}}}"#));
    for (header, body) in [
        ("42", "42"),
        ("42.0", "42"),
        ("42", "42.0"),
        ("4.2e1", "42"),
        ("-7", "-7"),
        ("0", "-0"),
        ("9007199254740991", "9007199254740991"),
        ("1.5", "1.50"),
    ] {
        assert_eq!(depth(header, body), Ok(()), "{header} {body}");
    }
    for (header, body) in [
        ("42", "43"),
        ("", "0"),
        ("+42", "42"),
        ("0x2a", "42"),
        ("042", "42"),
        ("NaN", "0"),
        ("inf", "1"),
        ("9007199254740992", "9007199254740993"),
        ("true", "1"),
        ("42", "\"x\""),
    ] {
        assert!(depth(header, body).is_err(), "{header} {body}");
    }
    // Written as the decimal it is, whatever the arguments call it.
    let written = |depth: Value| {
        let arguments = json!({"depth": depth});
        let mirrored = mirrored();
        let mut lines = mirrored.values(arguments.as_object().unwrap());
        lines.next().map(|(_, value)| value)
    };
    assert_eq!(written(json!(42.0)).as_deref(), Some("42"));
    assert_eq!(written(json!(-7)).as_deref(), Some("-7"));
    assert_eq!(
        written(json!(9_007_199_254_740_991i64)).as_deref(),
        Some("9007199254740991")
    );
    // A string argument where an integer belongs is the arguments' affair, as long as the header says the same.
    assert_eq!(depth("42", r#""42""#), Ok(()));
}

#[test]
fn absent_and_null_arguments_have_no_header() {
    for nothing in [
        "{}",
        r#"{"region":null,"job":null}"#,
        r#"{"job":{}}"#,
        r#"{"job":5}"#,
        "[]",
        r#"{"plain":"x","y":{"urgent":true}}"#,
    ] {
        assert_eq!(
            check(&[("Mcp-Param-Unknown", "is ignored"), ("Accept", "x")], nothing),
            Ok(())
        );
        for header in ["Mcp-Param-Region", "Mcp-Param-Urgent"] {
            let said = check(&[(header, "true")], nothing).unwrap_err();
            assert!(said.contains("is not there"), "{said}");
        }
    }
    let urgent = r#"{"job":{"urgent":true}}"#;
    assert_eq!(check(&[("Mcp-Param-Urgent", "true")], urgent), Ok(()));
    assert!(check(&[("Mcp-Param-Urgent", "True")], urgent).is_err());
    assert!(check(&[], urgent).unwrap_err().contains("params.arguments.job.urgent"));
    // What no header can carry is left to the check of the arguments, unless a header claims to.
    assert_eq!(check(&[], r#"{"region":{"a":1}}"#), Ok(()));
    assert!(check(&[("Mcp-Param-Region", "{\"a\":1}")], r#"{"region":{"a":1}}"#).is_err());
    assert!(mirrored().check(&Headers::default(), None).is_ok());
    assert!(ParamHeaders::default().check(&Headers::default(), None).is_ok());
}

/// Two readers of the same request must not see two values.
#[test]
fn repeated_members_are_refused_where_they_matter() {
    let region = ("Mcp-Param-Region", "a");
    let said = check(&[region, ("mcp-param-region", "a")], r#"{"region":"a"}"#).unwrap_err();
    assert!(said.contains("more than once"), "{said}");
    for twice in [
        r#"{"region":"a","region":"b"}"#,
        r#"{"region":"b","r\u0065gion":"a"}"#,
        r#"{"region":"a","job":{"region":"a","region":"b"}}"#,
    ] {
        let said = check(&[region, ("Mcp-Param-Job-Region", "a")], twice).unwrap_err();
        assert!(said.contains("occurs twice"), "{twice}: {said}");
    }
    assert_eq!(check(&[region], r#"{"region":"a","plain":1,"plain":2}"#), Ok(()));
    let unknown = ("Mcp-Param-Unknown", "a");
    assert_eq!(check(&[unknown, unknown], "{}"), Ok(()));
}

#[test]
fn bad_annotations_are_named() {
    use AnnotationError::{NotAToken, NotPrimitive, Repeated, Unreachable};
    let one = |property: Value| ParamHeaders::of(&json!({"type": "object", "properties": {"a": property}})).map(drop);
    let annotated = json!({"type": "string", "x-mcp-header": "A"});
    for (bad, flaw) in [
        (json!({"type": "string", "x-mcp-header": ""}), NotAToken),
        (json!({"type": "string", "x-mcp-header": "a b"}), NotAToken),
        (json!({"type": "string", "x-mcp-header": "a\r\nb"}), NotAToken),
        (json!({"type": "string", "x-mcp-header": "a:b"}), NotAToken),
        (json!({"type": "string", "x-mcp-header": "\u{e9}"}), NotAToken),
        (json!({"type": "string", "x-mcp-header": 5}), NotAToken),
        (json!({"type": "number", "x-mcp-header": "A"}), NotPrimitive),
        (json!({"type": ["string", "null"], "x-mcp-header": "A"}), NotPrimitive),
        (json!({"type": "object", "x-mcp-header": "A"}), NotPrimitive),
        (json!({"x-mcp-header": "A"}), NotPrimitive),
        (json!({"type": "array", "items": annotated}), Unreachable),
        (json!({"type": "array", "prefixItems": [annotated]}), Unreachable),
        (json!({"anyOf": [{"type": "integer"}, annotated]}), Unreachable),
        (json!({"if": {"properties": {"b": annotated}}}), Unreachable),
        (json!({"additionalProperties": annotated}), Unreachable),
        (json!({"$defs": {"x": {"properties": {"b": annotated}}}}), Unreachable),
        (json!({"patternProperties": {"^x": annotated}}), Unreachable),
        (json!({"not": annotated}), Unreachable),
        // Names are not keywords.
        (json!({"items": {"properties": {"default": annotated}}}), Unreachable),
        (json!({"$defs": {"enum": annotated}}), Unreachable),
    ] {
        let error = one(bad.clone()).unwrap_err();
        assert_eq!((error.error, error.path.as_str()), (flaw, "a"), "{bad}");
    }
    let twice = json!({"properties": {"a": {"type": "string", "x-mcp-header": "X"},
        "b": {"properties": {"c": {"type": "string", "x-mcp-header": "x"}}}}});
    let error = ParamHeaders::of(&twice).unwrap_err();
    assert_eq!((error.error, error.path.as_str()), (Repeated, "b.c"));
    assert_eq!(
        error.to_string(),
        "x-mcp-header at `b.c` names a header that another argument names already"
    );
    assert!(one(json!({"items": {"properties": {"x-mcp-header": {"type": "string"}}}})).is_ok());
    assert!(one(json!({"$defs": {"x-mcp-header": {"type": "string"}}})).is_ok());
    assert!(ParamHeaders::of(&json!({"type": "object"})).unwrap().is_empty());
    assert!(ParamHeaders::of(&json!(true)).unwrap().is_empty());
}

//! Forms: what is one, what fits it, and in which words the rest is refused.

use crate::schema;
use longhaul_wire::{FieldKind, Form, FormChoice, FormField, TextFormat};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn with(field: &Value) -> String {
    json!({"type": "object", "properties": {"f": field}}).to_string()
}

fn field(schema: &Value) -> FormField {
    Form::parse(&with(schema)).unwrap().fields.remove(0)
}

fn refusal(schema: &str) -> String {
    Form::parse(schema).unwrap_err().to_string()
}

/// Every kind of field, as MCP writes it.
fn every_kind() -> Value {
    json!({"type": "object", "properties": {
        "text": {"type": "string", "minLength": 2, "maxLength": 3, "title": "Text", "description": "what", "default": "ab"},
        "code": {"type": "string", "pattern": "^[a-z]+$"},
        "mail": {"type": "string", "format": "email"},
        "page": {"type": "string", "format": "uri"},
        "day": {"type": "string", "format": "date"},
        "time": {"type": "string", "format": "date-time"},
        "number": {"type": "number", "minimum": 0.5, "default": 1},
        "whole": {"type": "integer", "maximum": 9},
        "sure": {"type": "boolean", "default": true},
        "one": {"type": "string", "enum": ["a", "b"], "default": "b"},
        "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "b"}]},
        "named": {"type": "string", "enum": ["a"], "enumNames": ["A"]},
        "any": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "default": ["a"]},
        "any_titled": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "maxItems": 1},
    }, "required": ["text", "any"], "additionalProperties": false})
}

#[test]
fn a_form_of_every_kind_is_read_and_written_as_mcp_has_it() {
    let schema = every_kind();
    let form = Form::parse(&schema.to_string()).unwrap();
    assert_eq!(serde_json::to_value(&form).unwrap(), schema);
    assert_eq!(Form::parse(&serde_json::to_string(&form).unwrap()).unwrap(), form);
    for revision in ["25", "26"] {
        let request = form.request("Which?");
        let mut message = json!({"jsonrpc": "2.0", "id": 1});
        message
            .as_object_mut()
            .unwrap()
            .extend(request.as_object().unwrap().clone());
        schema::check(&format!("{revision}:msg:ElicitRequest"), &message);
    }
    assert_eq!(
        Value::from(form.defaults()),
        json!({"text": "ab", "number": 1, "sure": true, "one": "b", "any": ["a"]})
    );
    assert!(form.requires_values() && form.is_closed);
}

/// A server may write them in any order, and the user sees them in the author's.
#[test]
fn fields_keep_their_order() {
    let form =
        Form::parse(r#"{"properties":{"z":{"type":"boolean"},"a":{"type":"integer"},"k":{"type":"string"}}}"#).unwrap();
    let names: Vec<&str> = form.fields.iter().map(|field| &*field.name).collect();
    assert_eq!(names, ["z", "a", "k"]);
    let text = serde_json::to_string(&form).unwrap();
    assert_eq!(Form::parse(&text).unwrap(), form, "{text}");
}

/// What SDKs write besides, without changing which values fit.
#[test]
fn what_changes_nothing_is_left_out() {
    let plain = FormField::new("f", FieldKind::Integer);
    for same in [
        json!({"type": "integer", "format": "int32", "examples": [1], "x-order": 3, "$comment": "c"}),
        json!({"type": ["integer", "null"], "default": null}),
        json!({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": null}),
    ] {
        assert_eq!(field(&same), plain, "{same}");
    }
    let titled = json!({"anyOf": [{"type": "integer", "title": "in"}, {"type": "null"}], "title": "F", "default": 3});
    let titled = field(&titled);
    assert_eq!((titled.label(), &titled.default), ("F", &Some(json!(3))));
    assert_eq!(
        field(&json!({"enum": ["a"]})).kind,
        field(&json!({"type": "string", "enum": ["a"]})).kind
    );
    assert_eq!(
        field(&json!({"type": "string", "format": "hostname"})).kind,
        FieldKind::TEXT
    );
    for empty in [
        "{}",
        r#"{"type":"object"}"#,
        r#"{"type":"object","properties":{},"title":"Model","$schema":"https://json-schema.org/draft/2020-12/schema"}"#,
    ] {
        assert_eq!(Form::parse(empty).unwrap(), Form::default(), "{empty}");
    }
    for params in ["{}", r#"{"message":"?","requestedSchema":null}"#] {
        assert_eq!(Form::of_params(params), None);
    }
}

#[test]
fn what_mcp_does_not_have_is_refused_by_name() {
    for (schema, named) in [
        (json!({"$ref": "#/$defs/a"}), "`$ref`"),
        (json!({"type": "string", "$recursiveRef": "#"}), "`$recursiveRef`"),
        (json!({"type": "string", "$dynamicRef": "#a"}), "`$dynamicRef`"),
        (json!({"allOf": [{"type": "string"}]}), "`allOf`"),
        (json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}), "`anyOf`"),
        (json!({"anyOf": [{"$ref": "#"}, {"type": "null"}]}), "`$ref`"),
        (json!({"type": "integer", "exclusiveMinimum": 0}), "`exclusiveMinimum`"),
        (json!({"type": "number", "multipleOf": 0.5}), "`multipleOf`"),
        (json!({"type": "boolean", "minimum": 0}), "`minimum`"),
        (json!({"type": "string", "enum": ["a"], "minLength": 1}), "`minLength`"),
        (json!({"type": "string", "enum": ["a", 2]}), "`enum`"),
        (json!({"type": "string", "enum": []}), "no choices"),
        (
            json!({"type": "string", "oneOf": [{"const": "a"}, {"type": "string"}]}),
            "`oneOf`",
        ),
        (json!({"type": "string", "pattern": 5}), "`pattern`"),
        (json!({"type": "string", "pattern": "(?=a)"}), "look-around"),
        (json!({"type": "string", "pattern": "a{1000}{1000}"}), "memory"),
        (json!({"type": "string", "minLength": -1}), "`minLength`"),
        (json!({"type": "integer", "minimum": "1"}), "`minimum`"),
        (json!({"type": "object", "properties": {}}), "its type is object"),
        (json!({"type": ["string", "integer"]}), "its type must be"),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            "list must be one of choices",
        ),
        (json!({"type": "array", "items": {"$ref": "#"}}), "`$ref`"),
        (
            json!({"type": "integer", "default": "3"}),
            "its default must be a whole number",
        ),
        (json!(true), "must be an object"),
    ] {
        let refused = refusal(&with(&schema));
        let starts = refused.starts_with("the form is invalid: `f`: ");
        assert!(starts && refused.contains(named), "{schema}: {refused}");
    }
    for (schema, named) in [
        (r#"{"type":"string"}"#, "its type is \"string\""),
        ("[]", "that of an object"),
        ("{", "not JSON"),
        (r#"{"properties":5}"#, "`properties` must be an object"),
        (r#"{"required":5}"#, "`required` must be a list"),
        (r#"{"required":["a"]}"#, "`a`: it is required"),
        (
            r#"{"additionalProperties":{}}"#,
            "`additionalProperties` must be true or false",
        ),
        (r##"{"$ref":"#"}"##, "`$ref`"),
        (r#"{"$defs":{}}"#, "`$defs`"),
        (
            r#"{"properties":{"a":{"type":"string"},"a":{"type":"string"}}}"#,
            "`a`: the form has it twice",
        ),
    ] {
        let refused = refusal(schema);
        assert!(
            refused.starts_with("the form is invalid: ") && refused.contains(named),
            "{schema}: {refused}"
        );
    }
}

/// Whoever writes it, a form is read in little time and memory.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures time")]
fn a_large_form_is_refused_at_once() {
    let begun = Instant::now();
    let many = |count: usize, field: &Value| {
        let fields = (0..count).map(|nth| (format!("f{nth}"), field.clone()));
        json!({"properties": Value::Object(fields.collect())}).to_string()
    };
    let deep = format!(
        r#"{{"properties":{{"f":{}1{}}}}}"#,
        r#"{"items":"#.repeat(5_000),
        "}".repeat(5_000)
    );
    let texts: Vec<String> = (0..1_001).map(|nth| nth.to_string()).collect();
    for (schema, named) in [
        (many(101, &json!({"type": "string"})), "more than 100 fields"),
        (
            many(17, &json!({"type": "string", "pattern": "a{9}{9}{9}"})),
            "more than 16 patterns",
        ),
        (
            with(&json!({"type": "string", "enum": texts})),
            "more than 1000 choices",
        ),
        (with(&json!({"type": "string", "title": "a".repeat(300_000)})), "bytes"),
        (deep, "cannot be read"),
    ] {
        let refused = refusal(&schema);
        assert!(refused.contains(named) && refused.len() < 300, "{refused}");
    }
    let form = Form::parse(&with(&json!({"type": "string", "pattern": "^(a|b|ab)*c$"}))).unwrap();
    let long = json!({"f": "ab".repeat(500_000)});
    assert!(form.check(long.as_object().unwrap()).is_err());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn values_that_fit_are_taken_and_others_are_not() {
    for (schema, fits, others) in [
        (json!({"type": "boolean"}), json!([true]), json!(["true", 1, null])),
        (
            json!({"type": "integer", "minimum": 1, "maximum": 3}),
            json!([1, 3, 2.0]),
            json!([0, 4, 1.5, "1", null, true]),
        ),
        (
            json!({"type": "integer", "minimum": 9_007_199_254_740_993_u64}),
            json!([9_007_199_254_740_993_u64]),
            json!([9_007_199_254_740_992_u64]),
        ),
        (
            json!({"type": "number", "maximum": 0.5}),
            json!([0.5, -3]),
            json!([0.51, 1, "0"]),
        ),
        (
            json!({"type": "string", "minLength": 2, "maxLength": 3}),
            json!(["ab", "öäü"]),
            json!(["a", "abcd", 12]),
        ),
        (
            json!({"type": "string", "pattern": "^\\d+$"}),
            json!(["12"]),
            json!(["", "1a", "٣"]),
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!(["a"]),
            json!(["c", ["a"]]),
        ),
        (
            json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {"enum": ["a", "b"]}}),
            json!([["a"], ["b", "a"]]),
            json!([[], ["a", "b", "a"], ["c"], "a"]),
        ),
    ] {
        let field = field(&schema);
        for value in fits.as_array().unwrap() {
            assert_eq!(field.problem(Some(value)), None, "{schema}: {value}");
        }
        for value in others.as_array().unwrap() {
            assert!(field.problem(Some(value)).is_some(), "{schema}: {value}");
        }
    }
    for format in TextFormat::ALL {
        let field = field(&json!({"type": "string", "format": format.name()}));
        let expected = format!("{}, such as {}", format.in_words(), format.example());
        assert_eq!(field.expected(), expected);
        assert_eq!(field.problem(Some(&format.example().into())), None);
        let problem = field.problem(Some(&"next week".into())).unwrap();
        assert_eq!(problem, format!("does not fit; it must be {expected}"));
    }
}

#[test]
fn every_mistake_names_its_field_and_what_would_be_right() {
    let form = Form::parse(&every_kind().to_string()).unwrap();
    let mistakes = |content: Value| form.check(content.as_object().unwrap()).unwrap_err().to_string();
    assert_eq!(
        mistakes(json!({"text": "a", "whole": 10, "secret": 1})),
        "`text` does not fit; it must be a text of 2 to 3 characters; `whole` does not fit; it must be a whole number of at most 9; \
         `any` is missing; it must be a list of at least 1: a, b; `secret` is no field of the form"
    );
    let all_wrong = form.fields.iter().map(|field| (field.name.clone(), Value::Null));
    let named = form.check(&all_wrong.collect()).unwrap_err();
    assert_eq!(named.0.len(), 5);
    assert_eq!(
        form.check(json!({"text": "ab", "any": ["a"]}).as_object().unwrap()),
        Ok(())
    );
    let open = Form::parse(&with(&json!({"type": "boolean"}))).unwrap();
    assert_eq!(open.check(json!({"other": 1}).as_object().unwrap()), Ok(()));
}

#[test]
fn fields_are_said_in_words() {
    for (schema, expected, limits) in [
        (
            json!({"type": "integer", "minimum": 1}),
            "a whole number of at least 1",
            "at least 1",
        ),
        (
            json!({"type": "number", "minimum": 1, "maximum": 2}),
            "a number from 1 to 2",
            "1 to 2",
        ),
        (
            json!({"type": "string", "maxLength": 1}),
            "a text of at most 1 character",
            "at most 1 character",
        ),
        (
            json!({"type": "string", "pattern": "^a"}),
            "a text that matches `^a`",
            "",
        ),
        (json!({"type": "string", "enum": ["a"]}), "a", ""),
        (
            json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}),
            "one of a, b",
            "",
        ),
        (
            json!({"type": "array", "items": {"enum": ["a", "b"]}}),
            "a list of any of a, b",
            "",
        ),
        (
            json!({"type": "array", "maxItems": 2, "items": {"enum": ["a"]}}),
            "a list of at most 2: a",
            "how many: at most 2",
        ),
    ] {
        let field = field(&schema);
        assert_eq!(
            (&*field.expected(), &*field.limits().unwrap_or_default()),
            (expected, limits),
            "{schema}"
        );
    }
    let texts: Vec<String> = (0..30).map(|nth| format!("c{nth}")).collect();
    let expected = field(&json!({"type": "string", "enum": texts})).expected();
    assert!(expected.ends_with("c19 and 10 more"), "{expected}");
    let choice = FormChoice {
        value: "a".to_owned(),
        title: None,
    };
    assert_eq!(choice.label(), "a");
}

//! Tools and their arguments.

use crate::support::{Script, tool};
use longhaul_core::Json;
use longhaul_runtime::{ArgumentError, Catalog, Duplicate, Tool, ToolError, ToolSettings};
use serde_json::{Value, json};

fn with_schema(input_schema: Value) -> Result<Tool, ToolError> {
    Tool::new(ToolSettings {
        input_schema,
        ..tool("hash", Script::new().0)
    })
}

#[tokio::main(flavor = "current_thread")]
async fn check(tool: &Tool, arguments: &str) -> Result<(), ArgumentError> {
    tool.check(&Json::trusted(arguments)).await
}

#[test]
fn an_argument_error_says_what_and_where_without_the_value() {
    let tool = with_schema(json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "pattern": "^/"},
            "depth": {"type": "integer", "minimum": 1},
        },
        "required": ["path"],
        "additionalProperties": false,
    }))
    .unwrap();
    assert_eq!(check(&tool, r#"{"path":"/etc","depth":2}"#), Ok(()));
    let long = "s3cret".repeat(10_000);
    let wrong = check(&tool, &json!({"path": long, "depth": 0, "colour": "red"}).to_string()).unwrap_err();
    for part in ["hash", "- path: ", "- depth: ", "minimum", "'colour'", "^/"] {
        assert!(wrong.0.contains(part), "{part} in {wrong}");
    }
    assert!(!wrong.0.contains("s3cret"), "values may be long or secret");
    let missing = check(&tool, "{}").unwrap_err();
    assert!(
        missing.0.contains("- arguments: \"path\" is a required property"),
        "{missing}"
    );
    assert!(check(&tool, "[]").is_err() && check(&tool, "{").is_err());
}

/// However much is wrong, and however long its names are, the answer says what, how much more, and no more.
#[test]
fn an_argument_error_is_bounded() {
    let closed =
        with_schema(json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false}));
    let any = with_schema(json!({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 3}));
    let typed =
        with_schema(json!({"type": "object", "patternProperties": {"": false}, "propertyNames": {"maxLength": 1}}));
    let alternatives =
        with_schema(json!({"anyOf": [{"additionalProperties": false}, {"additionalProperties": {"type": "string"}}]}));
    let many: serde_json::Map<String, Value> = (0..5_000).map(|n| (format!("property{n}"), json!(n))).collect();
    let long: serde_json::Map<String, Value> = (0..20)
        .map(|n| (format!("{n}{}", "é".repeat(20_000)), json!(n)))
        .collect();
    for tool in [closed, any, typed, alternatives] {
        let tool = tool.unwrap();
        for arguments in [&many, &long] {
            let said = check(&tool, &json!(arguments).to_string()).unwrap_err().0;
            assert!(said.len() < 3_000, "{} bytes", said.len());
        }
    }
    let closed =
        with_schema(json!({"type": "object", "additionalProperties": false, "properties": {"a": {}}})).unwrap();
    let said = check(&closed, &json!(many).to_string()).unwrap_err().0;
    assert!(
        said.contains("'property0'") && said.contains("and 4995 more were unexpected"),
        "{said}"
    );
    let typed = with_schema(json!({"type": "object", "additionalProperties": {"type": "string"}})).unwrap();
    let seven: serde_json::Map<String, Value> = (0..7).map(|n| (format!("p{n}"), json!(n))).collect();
    let said = check(&typed, &json!(seven).to_string()).unwrap_err().0;
    assert_eq!(said.lines().count(), 7, "{said}");
    assert!(said.ends_with("\nand 2 more"), "{said}");
}

/// An option of an enum is what arguments most often do not fit, and a tool without arguments is given some now and then.
#[test]
fn an_argument_error_names_the_alternatives() {
    let tool = with_schema(json!({
        "type": "object",
        "properties": {
            "none": {"type": "object", "additionalProperties": false},
            "never": false,
            "mode": {"anyOf": [{"$ref": "#/$defs/mode"}, {"type": "null"}]},
            "way": {"oneOf": [{"const": "up"}, {"type": "object", "properties": {"by": {"type": "integer"}}}]},
        },
        "$defs": {"mode": {"enum": ["exact", "rough"]}},
    }))
    .unwrap();
    let told = |arguments: Value| check(&tool, &arguments.to_string()).unwrap_err().0;
    let one = |arguments: Value| told(arguments).replace("The arguments do not fit hash:\n- ", "");
    let wanted = "mode: value is not one of \"exact\" or \"rough\"";
    assert_eq!(one(json!({"mode": "s3cret"})), wanted);
    let wanted = "none: it takes no properties: leave them out";
    assert_eq!(one(json!({"none": {"a": 1}})), wanted);
    assert_eq!(one(json!({"never": 1})), "never: it is not allowed: leave it out");
    let ways = one(json!({"way": {"by": "s3cret"}}));
    assert!(ways.starts_with("way: none of the alternatives fits: "), "{ways}");
    assert!(
        ways.contains("\"up\" was expected") && ways.contains("by: value is not of type"),
        "{ways}"
    );
}

#[test]
fn an_argument_that_programs_cannot_hold_is_named() {
    let tool = with_schema(json!({"type": "object"})).unwrap();
    for (value, problem) in [(r#""x\udc00y""#, "surrogate"), ("1e999", "number out of range")] {
        let error = check(&tool, &format!(r#"{{"good": 1, "bad": [{value}]}}"#))
            .unwrap_err()
            .0;
        assert!(error.starts_with("bad: ") && error.contains(problem), "{error}");
    }
}

#[test]
fn schemas_that_do_not_compile_or_have_external_references_are_refused() {
    for schema in [
        json!({"type": "objekt"}),
        json!({"$ref": "https://example.com/schema.json"}),
        json!({"properties": {"password": {"pattern": r"(?=.*\d).{8,}"}}}),
    ] {
        let refused = with_schema(schema).err().expect("it cannot be used");
        assert!(refused.to_string().starts_with("the input schema is not usable: "));
    }
}

/// Also where the check runs on another thread.
#[test]
fn large_arguments_are_checked_as_small_ones() {
    let tool = with_schema(json!({
        "type": "object",
        "properties": {"text": {"type": "string", "pattern": "^[a-z]*$"}},
    }))
    .unwrap();
    let long = "a".repeat(300_000);
    assert_eq!(check(&tool, &json!({"text": long}).to_string()), Ok(()));
    let wrong = check(&tool, &json!({"text": format!("{long}?")}).to_string()).unwrap_err();
    assert!(wrong.0.contains("- text: ") && wrong.0.len() < 1_000, "{wrong}");
    let unreadable = check(&tool, &format!(r#"{{"text": "{long}", "bad": 1e999}}"#)).unwrap_err();
    assert!(unreadable.0.starts_with("bad: "), "{unreadable}");
}

#[test]
fn names_are_unique_and_order_is_kept() {
    let named = |name: &str| Tool::new(tool(name, Script::new().0)).unwrap();
    let catalog = Catalog::new(["b", "a", "c"].map(named)).unwrap();
    let snapshot = catalog.snapshot();
    let names: Vec<&str> = snapshot.tools.keys().map(|name| &**name).collect();
    assert_eq!(names, ["b", "a", "c"]);
    assert_eq!(&**catalog.tool("a").unwrap().name(), "a");
    assert!(catalog.tool("d").is_none());
    let twice = Catalog::new(["a", "b", "a"].map(named)).err();
    assert_eq!(twice, Some(Duplicate("a".into())));
}

/// Equal definitions are one, whatever else is changed; another way to run or to retry is another.
#[test]
fn a_definition_is_known_by_what_it_runs() {
    let spec = |change: fn(&mut ToolSettings)| {
        let mut settings = tool("hash", Script::new().0);
        change(&mut settings);
        Tool::new(settings).unwrap().spec().id.clone()
    };
    let same = spec(|_| ());
    assert_eq!(spec(|settings| settings.description = "better".to_owned()), same);
    assert_eq!(spec(|settings| settings.deadline = Some(1)), same);
    assert_ne!(spec(|settings| settings.kind = "other".into()), same);
    assert_ne!(spec(|settings| settings.retry.attempts = 2), same);
    assert_ne!(
        spec(|settings| settings.definition = longhaul_core::Json::trusted("{}")),
        same
    );
}

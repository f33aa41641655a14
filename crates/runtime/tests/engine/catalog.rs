//! Tools and their arguments.

use crate::support::{Script, tool};
use longhaul_runtime::{Catalog, Duplicate, Tool, ToolError, ToolSettings};
use serde_json::{Value, json};

fn with_schema(input_schema: Value) -> Result<Tool, ToolError> {
    Tool::new(ToolSettings {
        input_schema,
        ..tool("hash", Script::new().0)
    })
}

#[test]
fn wrong_arguments_are_told_what_and_where_and_not_repeated() {
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
    assert_eq!(tool.check(r#"{"path":"/etc","depth":2}"#), Ok(()));
    let long = "s3cret".repeat(10_000);
    let wrong = tool
        .check(&json!({"path": long, "depth": 0, "colour": "red"}).to_string())
        .unwrap_err();
    for part in ["hash", "- path: ", "- depth: ", "minimum", "'colour'", "^/"] {
        assert!(wrong.0.contains(part), "{part} in {wrong}");
    }
    assert!(!wrong.0.contains("s3cret"), "values may be long or secret");
    let missing = tool.check("{}").unwrap_err();
    assert!(
        missing.0.contains("- arguments: \"path\" is a required property"),
        "{missing}"
    );
    assert!(tool.check("[]").is_err() && tool.check("{").is_err());
}

/// X-06: an option of an enum is what arguments most often do not fit, and a tool without arguments is given some now and then.
#[test]
fn what_would_fit_is_told_of_alternatives() {
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
    let told = |arguments: Value| tool.check(&arguments.to_string()).unwrap_err().0;
    let one = |arguments: Value| told(arguments).replace("The arguments do not fit hash:\n- ", "");
    assert_eq!(
        one(json!({"mode": "s3cret"})),
        "mode: value is not one of \"exact\" or \"rough\""
    );
    assert_eq!(
        one(json!({"none": {"a": 1}})),
        "none: it takes no properties: leave them out"
    );
    assert_eq!(one(json!({"never": 1})), "never: it is not allowed: leave it out");
    let ways = one(json!({"way": {"by": "s3cret"}}));
    assert!(ways.starts_with("way: none of the alternatives fits: "), "{ways}");
    assert!(
        ways.contains("\"up\" was expected") && ways.contains("by: value is not of type"),
        "{ways}"
    );
}

#[test]
fn schemas_that_do_not_compile_or_look_elsewhere_are_refused() {
    for schema in [
        json!({"type": "objekt"}),
        json!({"$ref": "https://example.com/schema.json"}),
    ] {
        let refused = with_schema(schema).err().expect("it cannot be used");
        assert!(refused.to_string().starts_with("the input schema is not usable: "));
    }
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

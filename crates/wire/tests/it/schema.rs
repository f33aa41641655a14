//! Validation by discriminator: each message against the one definition it claims to be, never against a union (C-40).

use jsonschema::Validator;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
};

static SCHEMAS: LazyLock<HashMap<&'static str, Value>> = LazyLock::new(|| {
    let read = |text| serde_json::from_str(text).unwrap();
    HashMap::from([
        ("25", read(include_str!("../schemas/mcp-2025-11-25.schema.json"))),
        ("26", read(include_str!("../schemas/mcp-2026-07-28.schema.json"))),
        ("x", read(include_str!("../schemas/ext-tasks-draft.schema.json"))),
    ])
});

/// Compiling takes longer than checking.
static COMPILED: LazyLock<Mutex<Compiled>> = LazyLock::new(Mutex::default);

/// By schema and definition.
type Compiled = HashMap<(String, String), Arc<Validator>>;

fn validator(schema: &str, definition: &str) -> Arc<Validator> {
    let compile = || {
        let defs = &SCHEMAS[schema]["$defs"];
        assert!(defs.get(definition).is_some(), "{schema} defines no {definition}");
        let root = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$ref": format!("#/$defs/{definition}"),
            "$defs": defs,
        });
        Arc::new(jsonschema::draft202012::new(&root).unwrap())
    };
    let mut compiled = COMPILED.lock().unwrap();
    let key = (schema.to_owned(), definition.to_owned());
    Arc::clone(compiled.entry(key).or_insert_with(compile))
}

/// Everything wrong with `value` as the `definition` of a schema (`25`, `26`, `x`).
pub(crate) fn flaws(schema: &str, definition: &str, value: &Value) -> Vec<String> {
    validator(schema, definition)
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

/// Checks a message against a line's tag, such as `25:res:CallToolResult`.
pub(crate) fn check(tag: &str, message: &Value) {
    let [schema, part, definition] = tag.split(':').collect::<Vec<_>>()[..] else {
        panic!("{tag}")
    };
    let value = match part {
        "msg" => message,
        "res" => &message["result"],
        "par" => &message["params"],
        other => panic!("{other}"),
    };
    let flaws = flaws(schema, definition, value);
    assert!(flaws.is_empty(), "{tag}: {flaws:#?}\n{message:#}");
}

#[test]
fn the_validator_sees_what_is_wrong() {
    // A null where a member should be left out (C-26), and a task that claims to be complete when created (C-05).
    let task = json!({"taskId":"t","status":"working","statusMessage":null,"createdAt":"","lastUpdatedAt":"","ttl":1});
    assert_eq!(flaws("25", "Task", &task).len(), 1);
    let created =
        json!({"resultType":"complete","taskId":"t","status":"working","createdAt":"","lastUpdatedAt":"","ttlMs":1});
    assert_eq!(flaws("x", "CreateTaskResult", &created).len(), 1);
}

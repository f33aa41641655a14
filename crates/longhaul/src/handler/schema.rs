//! JSON Schemas (2020-12) of the arguments and results of tools: derived from types, and checked before they are listed.

use longhaul_wire::ParamHeaders;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// The schema of values of `T` as they are deserialized.
pub(crate) fn of_input<T: JsonSchema>() -> Value {
    generate::<T>(SchemaSettings::draft2020_12())
}

/// The schema of values of `T` as they are serialized.
pub(crate) fn of_output<T: JsonSchema>() -> Value {
    generate::<T>(SchemaSettings::draft2020_12().for_serialize())
}

/// As [`of_input`], without references, for types whose fields are read one by one.
pub(crate) fn inlined<T: JsonSchema>() -> Value {
    generate::<T>(SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true))
}

fn generate<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let settings = settings.with(|settings| settings.meta_schema = None);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(root) = schema.as_object_mut() {
        // The name of a Rust type tells a model nothing.
        root.remove("title");
    }
    schema
}

/// The schema of no arguments.
pub(crate) fn no_arguments() -> Value {
    json!({"type": "object", "additionalProperties": false})
}

/// Checks that the schema describes an object, and that its header annotations are valid.
///
/// # Errors
/// What is wrong and what to do instead.
pub(crate) fn check_arguments(schema: &mut Value) -> Result<(), String> {
    let Some(root) = schema.as_object_mut() else {
        return Err(not_an_object("anything"));
    };
    if !root.contains_key("type") && is_choice_of_objects(root) {
        root.insert("type".to_owned(), "object".into());
    }
    match root.get("type") {
        Some(Value::String(kind)) if kind == "object" => {}
        Some(other) => return Err(not_an_object(&other.to_string())),
        None => return Err(not_an_object("anything")),
    }
    // Clients must drop a tool with invalid annotations.
    ParamHeaders::of(schema).map(drop).map_err(|wrong| wrong.to_string())
}

fn not_an_object(found: &str) -> String {
    format!(
        "its arguments must be an object, and its schema has the type {found}: let the function take a struct that derives Deserialize and \
         JsonSchema, or give an object schema with `.input_schema(…)`"
    )
}

/// An enum with data: one of several objects.
fn is_choice_of_objects(root: &Map<String, Value>) -> bool {
    let choices = root
        .get("oneOf")
        .or_else(|| root.get("anyOf"))
        .and_then(Value::as_array);
    choices.is_some_and(|choices| choices.iter().all(|choice| choice["type"] == "object"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Args {
        #[schemars(extend("x-mcp-header" = "Region"))]
        region: String,
        count: Option<u8>,
    }

    #[test]
    fn a_struct_becomes_an_object_schema() {
        let mut schema = of_input::<Args>();
        assert_eq!(check_arguments(&mut schema), Ok(()));
        assert_eq!(schema["required"], json!(["region"]));
        assert_eq!(
            schema["properties"]["region"],
            json!({"type": "string", "x-mcp-header": "Region"})
        );
        assert!(schema.get("title").is_none() && schema.get("$schema").is_none());
    }

    /// The error says what to do.
    #[test]
    fn arguments_that_are_not_objects_are_refused() {
        for mut schema in [
            of_input::<String>(),
            of_input::<Value>(),
            of_input::<Vec<u8>>(),
            Value::Null,
        ] {
            let wrong = check_arguments(&mut schema).unwrap_err();
            assert!(
                wrong.contains("must be an object") && wrong.contains(".input_schema("),
                "{wrong}"
            );
        }
    }

    #[test]
    fn an_enum_with_data_is_an_object_too() {
        #[derive(Deserialize, JsonSchema)]
        #[serde(tag = "kind")]
        #[expect(dead_code, reason = "only its schema is used")]
        enum FileOperation {
            Copy { from: String },
            Delete { path: String },
        }
        let mut schema = of_input::<FileOperation>();
        assert_eq!(check_arguments(&mut schema), Ok(()));
        assert_eq!(schema["type"], "object");
    }

    #[test]
    fn invalid_header_annotations_are_refused() {
        let with = |kind: &str| json!({"type": "object", "properties": {"a": {"type": kind, "x-mcp-header": "A"}}});
        assert_eq!(check_arguments(&mut with("string")), Ok(()));
        let wrong = check_arguments(&mut with("number")).unwrap_err();
        assert!(
            wrong.contains("`a`") && wrong.contains("`integer`, `string` or `boolean` alone"),
            "{wrong}"
        );
    }
}

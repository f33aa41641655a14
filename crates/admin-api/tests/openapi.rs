//! The schemas of the OpenAPI document are those of the types. With `LONGHAUL_WRITE_OPENAPI=1` the test writes them into it.

use longhaul_admin_api::*;
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, transform::transform_subschemas};
use serde_json::{Map, Value};
use std::{fs, path::PathBuf};

const ASKS_TO_WRITE: &str = "LONGHAUL_WRITE_OPENAPI";

/// What is left out when it has no value is never null, and needs no default to be told.
fn as_it_is_written(schema: &mut Schema) {
    let required: Vec<Value> = schema
        .get("required")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, member) in properties.into_iter().flatten() {
        let Some(member) = member.as_object_mut() else { continue };
        member.remove("default");
        if !required.contains(&name.as_str().into()) {
            never_null(member);
        }
    }
    transform_subschemas(&mut as_it_is_written, schema);
}

fn never_null(member: &mut Map<String, Value>) {
    if let Some(Value::Array(kinds)) = member.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [kind] = &kinds[..] {
            let kind = kind.clone();
            member.insert("type".to_owned(), kind);
        }
    }
    if let Some(Value::Array(branches)) = member.remove("anyOf") {
        for branch in branches.iter().filter(|branch| branch["type"] != "null") {
            member.extend(branch.as_object().cloned().unwrap_or_default());
        }
    }
}

/// Adds a type and what it refers to.
fn add<T: JsonSchema>(generator: &mut SchemaGenerator) {
    let _ = generator.subschema_for::<T>();
}

fn schemas() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.with_transform(as_it_is_written).into_generator();
    for add in [
        add::<TaskPage>,
        add::<TaskDetails>,
        add::<JournalPart>,
        add::<LogPart>,
        add::<ArtifactsView>,
        add::<ToolView>,
        add::<SchedulePage>,
        add::<UpstreamView>,
        add::<NodesView>,
        add::<StatsView>,
        add::<PrincipalsView>,
        add::<ProblemsView>,
        add::<AuditLines<AuditLine>>,
        add::<ActionReport>,
        add::<UpstreamPause>,
        add::<DrainReport>,
        add::<BulkPreview>,
        add::<BulkReport>,
        add::<CallBody>,
        add::<ResetBody>,
        add::<AnswerBody>,
        add::<ErrorBody>,
    ] {
        add(&mut generator);
    }
    generator.take_definitions(true)
}

#[test]
fn the_document_has_the_schemas_of_the_types() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../admin/assets/openapi.json");
    let text = fs::read_to_string(&path).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    let schemas = Value::Object(schemas());
    if std::env::var_os(ASKS_TO_WRITE).is_some() {
        document["components"]["schemas"] = schemas;
        let mut text = Vec::new();
        let format = serde_json::ser::PrettyFormatter::with_indent(b" ");
        let mut serializer = serde_json::Serializer::with_formatter(&mut text, format);
        serde::Serialize::serialize(&document, &mut serializer).unwrap();
        text.push(b'\n');
        fs::write(&path, text).unwrap();
        return;
    }
    assert_eq!(
        document["components"]["schemas"], schemas,
        "the schemas are not those of the types: run this test with {ASKS_TO_WRITE}=1"
    );
    let text = document.to_string();
    let refers = text.split(r##""#/components/schemas/"##).skip(1);
    for name in refers.filter_map(|rest| rest.split('"').next()) {
        assert!(schemas.get(name).is_some(), "no type is called {name}");
    }
}

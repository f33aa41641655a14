//! JSON Schemas of tools: written in the file, or beside it.

use crate::config::{
    paths::Environment,
    section::{Entry, Section},
};
use longhaul_json_schema::{Schema, SchemaAuthor, text_len};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The schema of a tool's arguments: that of `input` and `optional`, or that of the file `input_schema`.
/// `None` after a problem.
pub(crate) fn input(section: &Section<'_>, environment: &Environment) -> Option<Value> {
    let inline = section.get("input");
    let optional = section.get("optional");
    let in_file = section.get("input_schema");
    let schema = match (inline, in_file) {
        (Some(_), Some(in_file)) => {
            in_file.report("give either `input` or `input_schema`, not both".to_owned());
            None
        }
        (None, Some(in_file)) => {
            if let Some(optional) = &optional {
                let message = "`optional` goes with `input`; a schema file says itself what is required";
                optional.report(message.to_owned());
            }
            let schema = input_from_file(&in_file, environment)?;
            optional.is_none().then_some(schema)
        }
        (inline, None) => inline_input(inline.as_ref(), optional.as_ref()),
    };
    let schema = schema.map(without_requiring_defaults)?;
    check_defaults(section, &schema);
    Some(schema)
}

/// The schema of a tool's structured output, if it has one.
pub(crate) fn output(entry: &Entry<'_>, environment: &Environment) -> Option<Value> {
    from_file(entry, environment)
}

/// The names in a schema's `properties`.
pub(crate) fn property_names(schema: &Value) -> BTreeSet<&str> {
    schema["properties"]
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .map(String::as_str)
        .collect()
}

/// The names in a schema's `properties` that are not in its `required`.
pub(crate) fn optional_names(schema: &Value) -> BTreeSet<String> {
    let required: BTreeSet<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    property_names(schema)
        .difference(&required)
        .map(|name| (*name).to_owned())
        .collect()
}

/// What the server gives for a property that a caller leaves out, if the schema says so.
pub(crate) fn default<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let property = &schema["properties"][name];
    property
        .get("default")
        .or_else(|| resolve(schema, property).get("default"))
}

/// The properties that have a default, with it.
pub(crate) fn defaults(schema: &Value) -> BTreeMap<String, Value> {
    let names = property_names(schema).into_iter();
    names
        .filter_map(|name| Some((name.to_owned(), default(schema, name)?.clone())))
        .collect()
}

/// Whether a property is a boolean, or null.
pub(crate) fn is_boolean(schema: &Value, name: &str) -> bool {
    types(resolve(schema, &schema["properties"][name])) == ["boolean"]
}

/// Whether operators do not see a property.
pub(crate) fn is_hidden(schema: &Value, name: &str) -> bool {
    let own = &schema["properties"][name];
    let hides = |schema: &Value| schema["writeOnly"] == true || schema["format"] == "password";
    hides(own) || hides(resolve(schema, own))
}

/// Whether a command may get no value for a property: it is left out and has no default, or it is null.
pub(crate) fn may_be_absent(schema: &Value, name: &str) -> bool {
    let property = resolve(schema, &schema["properties"][name]);
    let accepts_null = match (&property["type"], &property["enum"]) {
        (Value::Array(types), _) => types.contains(&json!("null")),
        (Value::Null, Value::Array(choices)) => choices.contains(&Value::Null),
        (Value::Null, _) => true,
        _ => false,
    };
    optional_names(schema).contains(name) && (default(schema, name).is_none_or(Value::is_null) || accepts_null)
}

/// Where a property is declared: in `input`, else at the file with the schema. With the key of that place.
pub(crate) fn declaration<'a>(section: &Section<'a>, name: &str) -> Option<(&'static str, Entry<'a>)> {
    let inline = section
        .get("input")
        .and_then(|input| input.pairs("a table of JSON Schemas"));
    match inline {
        Some(pairs) => pairs
            .into_iter()
            .find(|(property, _)| *property == name)
            .map(|(_, entry)| ("input", entry)),
        None => section.get("input_schema").map(|entry| ("input_schema", entry)),
    }
}

/// A property with a default is not required: the server gives it.
fn without_requiring_defaults(mut schema: Value) -> Value {
    let defaults = defaults(&schema);
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name.as_str().is_none_or(|name| !defaults.contains_key(name)));
    }
    schema
}

/// Reports defaults that their own schemas refuse.
fn check_defaults(section: &Section<'_>, schema: &Value) {
    let defaults = defaults(schema);
    if defaults.is_empty() {
        return;
    }
    // Without what the schema says of all properties together.
    let kept = ["$schema", "$defs", "definitions", "properties"];
    let kept = kept
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), schema.get(key)?.clone())));
    let Ok(each) = Schema::with_formats(&Value::Object(kept.collect()), SchemaAuthor::Own, true) else {
        return;
    };
    for (name, default) in defaults {
        let given = json!({ &*name: default });
        let checked = each.check_now(&given, text_len(&given), |found| {
            found.next().map(|first| first.to_string())
        });
        if let Some(Err(Some(violation))) = checked
            && let Some((key, entry)) = declaration(section, &name)
        {
            entry.report(format!(
                "`{key}`: `{name}`: its default is refused by its own schema: {violation}"
            ));
        }
    }
}

/// How the value of a property can be passed on a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Not at all.
    Object,
    /// One argument per element.
    Array,
    /// Not at all, since its elements are objects or arrays; an empty one is no argument.
    ArrayOfObjects,
    /// A text or a number, or whatever the schema does not say.
    Other,
}

/// What the values of a property are, as far as its schema says so in plain words.
pub(crate) fn kind(input_schema: &Value, name: &str) -> Kind {
    let property = resolve(input_schema, &input_schema["properties"][name]);
    match &*types(property) {
        ["object"] => Kind::Object,
        ["array"] => match &*types(resolve(input_schema, &property["items"])) {
            ["object" | "array"] => Kind::ArrayOfObjects,
            _ => Kind::Array,
        },
        _ => Kind::Other,
    }
}

/// Whether the schema says that a property is a number, and lets it be below 0. With `elements`, those of an array count, too.
pub(crate) fn may_be_negative(input_schema: &Value, name: &str, elements: bool) -> bool {
    let property = resolve(input_schema, &input_schema["properties"][name]);
    is_negative_number(property) || (elements && is_negative_number(resolve(input_schema, &property["items"])))
}

fn is_negative_number(schema: &Value) -> bool {
    let types = types(schema);
    if !types.iter().any(|kind| ["integer", "number"].contains(kind)) {
        return false;
    }
    if let Some(choices) = schema["enum"].as_array() {
        return choices
            .iter()
            .any(|choice| choice.as_f64().is_some_and(|choice| choice < 0.0));
    }
    if let Some(only) = schema["const"].as_f64() {
        return only < 0.0;
    }
    let largest_excluded = if types.contains(&"number") { 0.0 } else { -1.0 };
    let has_minimum = schema["minimum"].as_f64().is_some_and(|least| least >= 0.0);
    let has_exclusive_minimum = schema["exclusiveMinimum"]
        .as_f64()
        .is_some_and(|bound| bound >= largest_excluded);
    !has_minimum && !has_exclusive_minimum
}

/// The types a schema names, null aside.
pub(crate) fn types(schema: &Value) -> Vec<&str> {
    let one = schema["type"].as_str().into_iter();
    let several = schema["type"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    one.chain(several).filter(|kind| *kind != "null").collect()
}

/// Follows a reference within the schema.
pub(crate) fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    /// Nobody writes longer chains of references.
    const MOST_STEPS: usize = 8;
    let mut schema = schema;
    for _ in 0..MOST_STEPS {
        let reference = schema["$ref"]
            .as_str()
            .and_then(|reference| reference.strip_prefix('#'));
        match reference.and_then(|pointer| root.pointer(pointer)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

/// An optional argument may be null as well as absent: models send either.
fn allow_null(schema: &mut Value) {
    match &mut schema["type"] {
        Value::String(name) => {
            let name = std::mem::take(name);
            schema["type"] = json!([name, "null"]);
        }
        Value::Array(names) if !names.contains(&json!("null")) => names.push(json!("null")),
        _ => {}
    }
    if let Some(choices) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        choices.push(Value::Null);
    }
    // `schema["type"]` of a mutable value has inserted null.
    if schema["type"].is_null() {
        schema.as_object_mut().map(|members| members.remove("type"));
    }
}

fn inline_input(input: Option<&Entry<'_>>, optional: Option<&Entry<'_>>) -> Option<Value> {
    let pairs = match input {
        Some(input) => input.pairs("a table of JSON Schemas such as { path = { type = \"string\" } }")?,
        None => Vec::new(),
    };
    let mut properties = Map::new();
    for (name, entry) in &pairs {
        let mut schema = entry.json();
        if schema.as_ref().is_some_and(|schema| !schema.is_object()) {
            entry.report(format!(
                "`input.{name}` must be a JSON Schema such as {{ type = \"string\" }}"
            ));
            schema = None;
        }
        // A property that was reported keeps its name, so that later problems are reported, too.
        properties.insert((*name).to_owned(), schema.unwrap_or_else(|| json!({})));
    }

    let optional = optional
        .and_then(|optional| known_properties(optional, &properties.keys().map(String::as_str).collect()))
        .unwrap_or_default();
    for name in &optional {
        properties.get_mut(name).map(allow_null);
    }
    let required: Vec<&String> = properties.keys().filter(|name| !optional.contains(*name)).collect();
    let mut schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });

    while let Err(problem) = check(&schema) {
        let culprit = pairs
            .iter()
            .find(|(name, _)| problem.property.as_deref() == Some(*name));
        let message = format!("`input` is not a JSON Schema: {}", problem.message);
        let Some((name, entry)) = culprit else {
            input.iter().for_each(|input| input.report(message.clone()));
            return None;
        };
        entry.report(message);
        // If it was replaced already, the loop would not end.
        let property = &mut schema["properties"][*name];
        if *property == json!({}) {
            return None;
        }
        *property = json!({});
    }
    Some(schema)
}

/// The strings of an array that names properties; reports those that are no properties.
pub(crate) fn known_properties(entry: &Entry<'_>, properties: &BTreeSet<&str>) -> Option<BTreeSet<String>> {
    let texts = entry.texts()?;
    let mut all_known = true;
    for (element, name) in texts.iter().filter(|(_, name)| !properties.contains(name)) {
        let hint = crate::output::nearest::suggestion(name, properties.iter().copied());
        let hint = hint.unwrap_or_else(|| "the tool has no properties".to_owned());
        element.report(format!(
            "`{}` names the property `{name}`, which the input does not have; {hint}",
            entry.key()
        ));
        all_known = false;
    }
    all_known.then(|| texts.into_iter().map(|(_, name)| name.to_owned()).collect())
}

fn input_from_file(entry: &Entry<'_>, environment: &Environment) -> Option<Value> {
    let schema = from_file(entry, environment)?;
    if schema["type"] != "object" {
        entry.report("`input_schema`: the schema of arguments must say \"type\": \"object\"".to_owned());
        return None;
    }
    Some(schema)
}

fn from_file(entry: &Entry<'_>, environment: &Environment) -> Option<Value> {
    let key = entry.key();
    let report = |message: String| entry.report(format!("`{key}`: {message}"));

    let path = environment.resolve(entry.text()?, entry.file().folder());
    let path = path.map_err(|error| report(error.to_string())).ok()?;
    let shown = path.display();
    let text = longhaul_private_dir::read_named_text(&path);
    let text = text
        .map_err(|error| report(format!("{shown} cannot be read: {error}")))
        .ok()?;
    let schema: Value = serde_json::from_str(&text)
        .map_err(|error| report(format!("{shown} is not JSON: {error}")))
        .ok()?;
    if !schema.is_object() {
        report(format!("{shown} must hold a JSON object"));
        return None;
    }
    match check(&schema) {
        Ok(()) => Some(schema),
        Err(problem) => {
            report(format!("{shown} is not a JSON Schema: {}", problem.message));
            None
        }
    }
}

/// Why a schema cannot be used.
struct SchemaProblem {
    message: String,
    /// The property it lies in, if it lies in one.
    property: Option<String>,
}

/// Whether the schema can be used.
fn check(schema: &Value) -> Result<(), SchemaProblem> {
    let compiled = Schema::with_formats(schema, SchemaAuthor::Own, true);
    compiled.map(drop).map_err(|error| SchemaProblem {
        message: error.to_string(),
        property: property_of(&error.place),
    })
}

/// The property that a JSON pointer into an argument schema leads to.
fn property_of(place: &str) -> Option<String> {
    let name = place.strip_prefix("/properties/")?.split('/').next()?;
    Some(name.replace("~1", "/").replace("~0", "~"))
}

//! The pages of the admin API, made of its OpenAPI document.

use super::{Page, SiteError};
use harness::workspace;
use serde_json::{Map, Value};
use std::{fmt::Write as _, fs};

const DOCUMENT: &str = "crates/admin/assets/openapi.json";

/// One page for the paths and one for the objects.
pub(super) fn pages() -> Result<[Page; 2], SiteError> {
    let path = workspace::root().join(DOCUMENT);
    let text = fs::read_to_string(&path).map_err(super::at(&path))?;
    let api: Value = serde_json::from_str(&text)?;
    let page = |path: &str, text| Page {
        path: path.to_owned(),
        text,
    };
    Ok([
        page("http-api.md", paths(&api)),
        page("http-api-objects.md", objects(&api)),
    ])
}

fn paths(api: &Value) -> String {
    let mut text = format!(
        "# HTTP API\n\nThe API of the admin address, which is also at `/api/openapi.json` of a server. {} What it takes and returns: [objects](http-api-objects.md).\n",
        string(&api["info"]["description"])
    );
    for (path, methods) in members(&api["paths"]) {
        for (method, operation) in members(methods) {
            let _ = write!(
                text,
                "\n## {} `{path}`\n\n{}. {}\n\n",
                method.to_uppercase(),
                string(&operation["summary"]),
                string(&operation["description"])
            );
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let (name, description) = (string(&parameter["name"]), string(&parameter["description"]));
                let _ = writeln!(text, "- `{name}` in the {}: {description}", string(&parameter["in"]));
            }
            let body = &operation["requestBody"];
            if body.is_object() {
                let _ = writeln!(
                    text,
                    "- the body: {}{}",
                    kind(content(body)),
                    in_parentheses(&fields(content(body)))
                );
            }
            let (shared, own): (Vec<_>, Vec<_>) =
                members(&operation["responses"]).partition(|(_, response)| response["$ref"].is_string());
            for (status, response) in own {
                let schema = content(response);
                let returned = match schema.is_null() {
                    true => String::new(),
                    false => format!(": {}{}", kind(schema), in_parentheses(&fields(schema))),
                };
                let _ = writeln!(text, "- **{status}** {}{returned}", string(&response["description"]));
            }
            // They refer to one response, the error.
            let errors: Vec<_> = shared.into_iter().map(|(status, _)| status.as_str()).collect();
            let _ = writeln!(text, "- {} [`Error`](http-api-objects.md#error)", errors.join(", "));
        }
    }
    text
}

fn objects(api: &Value) -> String {
    let mut text = "# Objects of the HTTP API\n\nWhat the [HTTP API](http-api.md) takes and returns.\n".to_owned();
    for (name, schema) in members(&api["components"]["schemas"]) {
        let _ = write!(text, "\n## `{name}`\n\n{}\n\n", string(&schema["description"]));
        let parts = schema["allOf"].as_array().into_iter().flatten();
        for part in std::iter::once(schema).chain(parts) {
            if part["$ref"].is_string() {
                let _ = writeln!(text, "- all of {}", kind(part));
            }
            for (member, schema) in members(&part["properties"]) {
                let described = string(&schema["description"]);
                let described = if described.is_empty() {
                    String::new()
                } else {
                    format!(". {described}")
                };
                let _ = writeln!(text, "- `{member}`: {}{described}", kind(schema));
            }
        }
    }
    text
}

/// What a schema describes, in a few words.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[`{name}`](http-api-objects.md#{})", name.to_lowercase());
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
        return values.join(", ");
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => format!("array of {}", kind_of_items(&schema["items"])),
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().map(string).collect::<Vec<_>>().join(" or "),
        _ => "any JSON".to_owned(),
    }
}

fn kind_of_items(items: &Value) -> String {
    format!("{}{}", kind(items), in_parentheses(&fields(items)))
}

/// The members of an object that has no name.
fn fields(schema: &Value) -> String {
    let named = members(&schema["properties"]).map(|(name, schema)| format!("`{name}`: {}", kind(schema)));
    named.collect::<Vec<_>>().join(", ")
}

fn in_parentheses(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(" ({text})")
    }
}

/// The schema of a body, of whatever type it is.
fn content(body: &Value) -> &Value {
    members(&body["content"])
        .next()
        .map_or(&Value::Null, |(_, content)| &content["schema"])
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

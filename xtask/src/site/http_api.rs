//! The pages of the admin API, made of its OpenAPI document.

use super::{Page, SiteError};
use harness::workspace;
use serde_json::{Map, Value};
use std::{collections::BTreeSet, fmt::Write as _, fs};

const DOCUMENT: &str = "crates/admin/assets/openapi.json";

/// The names of the objects that the paths below [`TASKS`] take and return, with what these consist of. They have a page of their own.
type TaskObjects = BTreeSet<String>;

const TASKS: &str = "/api/tasks";

/// One page for the paths, one for the objects of tasks, and one for the others.
pub(super) fn pages() -> Result<[Page; 3], SiteError> {
    let path = workspace::root().join(DOCUMENT);
    let text = fs::read_to_string(&path).map_err(super::at(&path))?;
    let api: Value = serde_json::from_str(&text)?;
    let page = |path: &str, text| Page {
        path: path.to_owned(),
        text,
    };
    let of_tasks = task_objects(&api);
    let objects_of = |path: &str, title: &str, is_of_tasks: bool| {
        let schemas = members(&api["components"]["schemas"]);
        let schemas = schemas.filter(|(name, _)| of_tasks.contains(*name) == is_of_tasks);
        page(path, objects(title, schemas, &of_tasks))
    };
    Ok([
        page("http-api.md", paths(&api, &of_tasks)),
        objects_of("http-api-tasks.md", "Tasks in the HTTP API", true),
        objects_of("http-api-objects.md", "Other objects of the HTTP API", false),
    ])
}

fn task_objects(api: &Value) -> TaskObjects {
    let mut found = TaskObjects::new();
    let mut unread: Vec<&Value> = members(&api["paths"])
        .filter(|(path, _)| path.starts_with(TASKS))
        .map(|(_, methods)| methods)
        .collect();
    while let Some(value) = unread.pop() {
        if let Some(name) = name_of(value)
            && found.insert(name.to_owned())
        {
            unread.push(&api["components"]["schemas"][name]);
        }
        unread.extend(value.as_array().into_iter().flatten());
        unread.extend(members(value).map(|(_, member)| member));
    }
    found
}

/// The name of the object that a schema refers to.
fn name_of(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/components/schemas/")
}

fn paths(api: &Value, of_tasks: &TaskObjects) -> String {
    let mut text = format!(
        "# HTTP API\n\nThe API of the admin address, which is also at `/api/openapi.json` of a server. {} What it takes and returns: [tasks](http-api-tasks.md), [other objects](http-api-objects.md).\n",
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
                    kind(content(body), of_tasks),
                    in_parentheses(&fields(content(body), of_tasks))
                );
            }
            let (shared, own): (Vec<_>, Vec<_>) =
                members(&operation["responses"]).partition(|(_, response)| response["$ref"].is_string());
            for (status, response) in own {
                let schema = content(response);
                let returned = match schema.is_null() {
                    true => String::new(),
                    false => format!(
                        ": {}{}",
                        kind(schema, of_tasks),
                        in_parentheses(&fields(schema, of_tasks))
                    ),
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

fn objects<'a>(title: &str, schemas: impl Iterator<Item = (&'a String, &'a Value)>, of_tasks: &TaskObjects) -> String {
    let mut text = format!("# {title}\n\nWhat the [HTTP API](http-api.md) takes and returns.\n");
    for (name, schema) in schemas {
        let _ = write!(text, "\n## `{name}`\n\n{}\n\n", string(&schema["description"]));
        let parts = schema["allOf"].as_array().into_iter().flatten();
        for part in std::iter::once(schema).chain(parts) {
            if part["$ref"].is_string() {
                let _ = writeln!(text, "- all of {}", kind(part, of_tasks));
            }
            for (member, schema) in members(&part["properties"]) {
                let described = string(&schema["description"]);
                let described = if described.is_empty() {
                    String::new()
                } else {
                    format!(". {described}")
                };
                let _ = writeln!(text, "- `{member}`: {}{described}", kind(schema, of_tasks));
            }
        }
    }
    text
}

/// What a schema describes, in a few words.
fn kind(schema: &Value, of_tasks: &TaskObjects) -> String {
    if let Some(name) = name_of(schema) {
        let page = if of_tasks.contains(name) { "tasks" } else { "objects" };
        return format!("[`{name}`](http-api-{page}.md#{})", name.to_lowercase());
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
        return values.join(", ");
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => format!("array of {}", kind_of_items(&schema["items"], of_tasks)),
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().map(string).collect::<Vec<_>>().join(" or "),
        _ => "any JSON".to_owned(),
    }
}

fn kind_of_items(items: &Value, of_tasks: &TaskObjects) -> String {
    format!("{}{}", kind(items, of_tasks), in_parentheses(&fields(items, of_tasks)))
}

/// The members of an object that has no name.
fn fields(schema: &Value, of_tasks: &TaskObjects) -> String {
    let named = members(&schema["properties"]).map(|(name, schema)| format!("`{name}`: {}", kind(schema, of_tasks)));
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

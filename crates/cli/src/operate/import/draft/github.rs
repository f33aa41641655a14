//! A workflow of GitHub with `workflow_dispatch`: a tool that starts it.

use super::{Draft, DraftedTool, Element, Property, Source, literal, property_name, text};
use serde_json::{Map, Value, json};

pub(super) fn read(source: &Source<'_>) -> Result<Draft, String> {
    let file: Value = serde_saphyr::from_str(&source.text).map_err(|error| error.to_string())?;
    // A reader of YAML 1.1 takes `on` for true.
    let triggers = [&file["on"], &file["true"]].into_iter().find(|on| !on.is_null());
    let triggers = triggers.ok_or("it has no `on`, as a workflow of GitHub does")?;
    let named: Vec<&str> = match triggers {
        Value::String(only) => vec![only],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        Value::Object(names) => names.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    if !named.contains(&"workflow_dispatch") {
        return Err("its `on` has no workflow_dispatch, so it cannot be started from outside".to_owned());
    }
    let title = file["name"].as_str().unwrap_or(source.stem());
    let mut tool = DraftedTool::new(source.stem(), format!("Start the workflow `{title}` on GitHub"));
    for word in ["gh", "workflow", "run", source.file_name()] {
        tool.word(word);
    }
    tool.command
        .push(Element::Group(vec!["--ref".to_owned(), "{ref}".to_owned()]));
    tool.property(Property {
        name: "ref".to_owned(),
        schema: json!({"type": "string", "description": "branch or tag whose workflow runs; the default branch if absent", "pattern": "^[A-Za-z0-9_./-]+$"}),
        is_optional: true,
    });
    let inputs = triggers["workflow_dispatch"]["inputs"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    for (name, input) in inputs.iter().filter(|(name, _)| *name != "ref") {
        let property = property(name, input.as_object().unwrap_or(&Map::new()));
        let value = format!("{}={{{}}}", literal(name), property.name);
        tool.command.push(Element::Group(vec!["-f".to_owned(), value]));
        tool.property(property);
    }
    // The folder of the repository is two above that of its workflows.
    let folder = source.folder();
    let repository = folder
        .parent()
        .and_then(std::path::Path::parent)
        .filter(|_| folder.ends_with(".github/workflows"));
    let repository = repository.unwrap_or(folder);
    tool.keys
        .push(("cwd", text::quoted(&literal(&repository.display().to_string()))));
    tool.left_out
        .push("the run itself: the task ends when GitHub has taken the order; `gh run watch` follows it".to_owned());
    tool.left_out
        .push("the login: `gh auth login` as the user of the server, or env_from = [\"GH_TOKEN\"]".to_owned());
    if inputs.contains_key("ref") {
        tool.left_out
            .push("its input `ref`: the name is taken here by the branch that the workflow is started on".to_owned());
    }
    let others = named.iter().filter(|name| **name != "workflow_dispatch");
    tool.left_out
        .extend(others.map(|other| format!("on.{other}: GitHub goes on to start the workflow by it")));
    Ok(Draft {
        tools: vec![tool],
        ..Draft::default()
    })
}

fn property(name: &str, input: &Map<String, Value>) -> Property {
    let kind = input.get("type").and_then(Value::as_str).unwrap_or("string");
    let mut schema = match (kind, input.get("options")) {
        ("choice", Some(options)) => json!({"enum": options}),
        ("boolean", _) => json!({"type": "boolean"}),
        ("number", _) => json!({"type": "number"}),
        _ => json!({"type": "string"}),
    };
    if let Some(description) = input.get("description").and_then(Value::as_str) {
        schema["description"] = description.into();
    }
    // GitHub reads `true` and 'true' alike.
    let default = input.get("default").filter(|default| !default.is_null());
    let default = default.and_then(|default| match (kind, default) {
        ("boolean", Value::String(word)) => word.parse().ok().map(Value::Bool),
        ("number", Value::String(digits)) => serde_json::from_str(digits).ok().filter(Value::is_number),
        ("string" | "choice" | "environment", Value::Bool(_) | Value::Number(_)) => Some(default.to_string().into()),
        _ => Some(default.clone()),
    });
    let is_required = input.get("required").and_then(Value::as_bool).unwrap_or_default();
    let is_optional = !is_required && default.is_none();
    if let Some(default) = default {
        schema["default"] = default;
    }
    Property {
        name: property_name(name),
        schema,
        is_optional,
    }
}

//! The text of a draft.

use super::{Draft, DraftedTool, Element, Property, Source};
use crate::mcp_servers::usable_name;
use longhaul_core::is_hidden;
use serde_json::Value;
use std::fmt::Write as _;

/// A configuration with the tools of a draft, and a comment for each thing that it leaves out.
pub(super) fn of(draft: &Draft, source: &Source<'_>) -> String {
    // The project's, not that of its settings.
    let mut folders = source.folder().iter().rev().filter_map(|name| name.to_str());
    let folder = folders.find(|name| ![".vscode", ".github", "workflows"].contains(name));
    let name = match draft.tools.as_slice() {
        [only] => &only.name,
        _ => folder.unwrap_or("jobs"),
    };
    let mut text = format!(
        "# Drafted by `longhaul import` from {}. Read the comments, then: longhaul check FILE\n",
        comment(&source.path.display().to_string())
    );
    left_out(&mut text, &draft.left_out);
    let _ = writeln!(text, "\n[server]\nname = {}", quoted(&usable_name(name)));
    for tool in &draft.tools {
        tool_section(&mut text, tool);
    }
    for schedule in &draft.schedules {
        text.push('\n');
        left_out(&mut text, &schedule.left_out);
        let (name, tool) = (quoted(&schedule.name), quoted(&schedule.tool));
        let _ = writeln!(text, "[[schedule]]\nname = {name}\ntool = {tool}");
        for (key, value) in &schedule.keys {
            let _ = writeln!(text, "{key} = {value}");
        }
    }
    text
}

fn tool_section(text: &mut String, tool: &DraftedTool) {
    text.push('\n');
    left_out(text, &tool.left_out);
    let (name, description) = (quoted(&tool.name), quoted(&tool.description));
    let _ = writeln!(text, "[[tool]]\nname = {name}\ndescription = {description}");
    let elements: Vec<String> = tool.command.iter().map(element).collect();
    let _ = writeln!(text, "command = [{}]", elements.join(", "));
    for (key, value) in &tool.keys {
        let _ = writeln!(text, "{key} = {value}");
    }
    let optional: Vec<String> = tool
        .properties
        .iter()
        .filter(|property| property.is_optional)
        .map(name_of)
        .collect();
    if !optional.is_empty() {
        let _ = writeln!(text, "optional = [{}]", optional.join(", "));
    }
    if !tool.properties.is_empty() {
        text.push_str("[tool.input]\n");
    }
    for property in &tool.properties {
        let _ = writeln!(text, "{} = {}", name_of(property), inline(&property.schema));
    }
}

fn element(element: &Element) -> String {
    match element {
        Element::Word(word) => quoted(word),
        Element::Group(words) => list(words),
        Element::Switch { property, words } => {
            format!("{{ if = {}, then = {} }}", quoted(property), list(words))
        }
    }
}

fn name_of(property: &Property) -> String {
    quoted(&property.name)
}

/// An array of texts as TOML.
pub(super) fn list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("[{}]", words.join(", "))
}

/// A text as TOML, on one line.
pub(super) fn quoted(text: &str) -> String {
    // As JSON writes it, TOML reads it. What a terminal would not show as it is, is escaped.
    let mut quoted = String::new();
    for char in Value::from(text).to_string().chars() {
        match is_hidden(char) {
            true => quoted.push_str(&format!("\\U{:08X}", u32::from(char))),
            false => quoted.push(char),
        }
    }
    quoted
}

/// JSON as TOML, on one line. Null, which TOML does not have, is left out.
pub(super) fn inline(value: &Value) -> String {
    match value {
        Value::Null => "\"\"".to_owned(),
        Value::String(text) => quoted(text),
        Value::Array(elements) => {
            let elements: Vec<String> = elements
                .iter()
                .filter(|element| !element.is_null())
                .map(inline)
                .collect();
            format!("[{}]", elements.join(", "))
        }
        Value::Object(members) => {
            let members = members.iter().filter(|(_, value)| !value.is_null());
            let members: Vec<String> = members
                .map(|(key, value)| format!("{} = {}", key_of(key), inline(value)))
                .collect();
            format!("{{ {} }}", members.join(", "))
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn key_of(key: &str) -> String {
    let is_bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    if is_bare { key.to_owned() } else { quoted(key) }
}

fn left_out(text: &mut String, things: &[String]) {
    for thing in things {
        let _ = writeln!(text, "# left out: {}", comment(thing));
    }
}

/// On one line, without what TOML forbids in a comment.
fn comment(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { ' ' } else { c }).collect()
}

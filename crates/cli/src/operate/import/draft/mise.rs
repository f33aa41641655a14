//! `mise.toml`. Its tasks are run by `mise` itself, so that their tools, variables and dependencies are as they were.

use super::{Draft, DraftedTool, Element, Property, Source, literal, property_name, text};
use regex::Regex;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// A line of a usage specification: what it declares, its names, and what else is said of it.
static USAGE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?m)^\s*(arg|flag|option)\s+"([^"]*)"(.*)$"#).ok());
/// A value in the templates of older tasks.
static TEMPLATE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"\{\{\s*(arg|option|flag)\(\s*name\s*=\s*["']([^"']+)["']([^}]*)\)\s*\}\}"#).ok());

pub(super) fn read(source: &Source<'_>) -> Result<Draft, String> {
    let file: toml::Table = source
        .text
        .parse()
        .map_err(|error: toml::de::Error| error.to_string())?;
    let tasks = file.get("tasks").and_then(toml::Value::as_table);
    let tasks = tasks.ok_or("it has no [tasks], as mise.toml does")?;
    let mut draft = Draft::default();
    for (name, task) in tasks {
        let task = match task {
            toml::Value::Table(task) => task.clone(),
            run => toml::Table::from_iter([("run".to_owned(), run.clone())]),
        };
        let is_hidden = task.get("hide").and_then(toml::Value::as_bool).unwrap_or_default();
        match is_hidden {
            true => draft.left_out.push(format!("the hidden task `{name}`")),
            false => draft.tools.push(tool(name, &task, source)),
        }
    }
    Ok(draft)
}

fn tool(name: &str, task: &toml::Table, source: &Source<'_>) -> DraftedTool {
    let words = |key: &str| task.get(key).and_then(toml::Value::as_str);
    let described = words("description").map(str::to_owned);
    let mut tool = DraftedTool::new(name, described.unwrap_or_else(|| format!("The task `{name}` of mise")));
    for word in ["mise", "run", "--yes", name] {
        tool.word(word);
    }
    let usage = words("usage").unwrap_or_default();
    for found in USAGE.iter().flat_map(|line| line.captures_iter(usage)) {
        let (kind, names, rest) = (&found[1], &found[2], &found[3]);
        Parameter::of_usage(kind, names, rest).draft(&mut tool);
    }
    let run = match task.get("run") {
        Some(toml::Value::String(line)) => line.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    for found in TEMPLATE.iter().flat_map(|template| template.captures_iter(&run)) {
        Parameter::of_template(&found[1], &found[2], &found[3]).draft(&mut tool);
    }
    tool.keys
        .push(("cwd", text::quoted(&literal(&source.folder().display().to_string()))));
    tool.allow_plain_texts("mise", |_| true);
    if let Some(question) = words("confirm") {
        tool.keys.push(("confirm", text::quoted(&literal(question))));
    }
    tool
}

/// An argument, option or flag of a task.
struct Parameter {
    name: String,
    /// How it is written on the command line, without a value; `None` for an argument, which has its place.
    option: Option<String>,
    takes_value: bool,
    is_required: bool,
    is_list: bool,
    schema: Value,
}

impl Parameter {
    fn of_usage(kind: &str, names: &str, rest: &str) -> Self {
        let (mut option, mut value) = (None, None);
        for word in names.split_whitespace() {
            match word.starts_with('-') {
                // The long one is the last.
                true => option = Some(word.trim_end_matches('…').to_owned()),
                false => value = Some(word.to_owned()),
            }
        }
        let is_argument = kind == "arg";
        let written = match (&option, &value) {
            (Some(option), _) if !is_argument => option.trim_start_matches('-').to_owned(),
            (_, Some(value)) => value.trim_matches(['<', '>', '[', ']', '.', '…']).to_owned(),
            _ => names.trim_matches(['<', '>', '[', ']']).to_owned(),
        };
        let quoted = |key: &str| {
            after(rest, key)
                .and_then(|value| value.split_once('"'))
                .map(|(value, _)| value.to_owned())
        };
        let mut schema = json!({"type": "string"});
        let choices: Vec<String> = match rest.split_once("choices") {
            Some((_, listed)) => listed.split('"').skip(1).step_by(2).map(str::to_owned).collect(),
            None => Vec::new(),
        };
        if !choices.is_empty() {
            schema = json!({"enum": choices});
        }
        if let Some(help) = quoted("help=\"") {
            schema["description"] = help.into();
        }
        let default = quoted("default=\"");
        let is_required = is_argument && !names.starts_with('[') && default.is_none();
        if let Some(default) = default {
            schema["default"] = default.into();
        }
        Self {
            name: written,
            option: option.filter(|_| !is_argument),
            takes_value: is_argument || value.is_some(),
            is_required: is_required || rest.contains("required=#true") || rest.contains("required=true"),
            is_list: names.ends_with('…')
                || names.ends_with("...")
                || rest.contains("var=#true")
                || rest.contains("var=true"),
            schema,
        }
    }

    fn of_template(kind: &str, name: &str, rest: &str) -> Self {
        let default = after(rest, "default=").map(|value| value.trim_start_matches(['"', '\'']));
        let default = default.and_then(|value| value.split(['"', '\'']).next());
        let mut schema = json!({"type": "string"});
        if let Some(default) = default {
            schema["default"] = default.into();
        }
        Self {
            name: name.to_owned(),
            option: (kind != "arg").then(|| format!("--{name}")),
            takes_value: kind != "flag",
            is_required: kind == "arg" && default.is_none(),
            is_list: rest.contains("var=true"),
            schema,
        }
    }

    fn draft(self, tool: &mut DraftedTool) {
        let name = property_name(&self.name);
        if tool.properties.iter().any(|known| known.name == name) {
            return;
        }
        let placeholder = format!("{{{name}}}");
        tool.command.push(match self.option {
            None => Element::Word(placeholder),
            Some(option) if self.takes_value => Element::Group(vec![literal(&option), placeholder]),
            Some(option) => Element::Switch {
                property: name.clone(),
                words: vec![literal(&option)],
            },
        });
        let schema = match (self.takes_value, self.is_list) {
            (false, _) => {
                let mut schema = json!({"type": "boolean", "default": false});
                schema["description"] = self.schema["description"].clone();
                schema
            }
            (true, true) => json!({"type": "array", "items": self.schema}),
            (true, false) => self.schema,
        };
        let has_default = schema.get("default").is_some();
        tool.property(Property {
            name,
            schema,
            is_optional: !self.is_required && !has_default,
        });
    }
}

/// What stands behind `key`.
fn after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split_once(key).map(|(_, after)| after)
}

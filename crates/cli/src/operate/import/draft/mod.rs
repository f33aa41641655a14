//! `longhaul import FILE`: drafts a configuration of the jobs in the file of another program.

mod github;
mod just;
mod mise;
mod systemd;
mod systemd_times;
mod text;
mod vscode;

use crate::{exit::failure::report_local, mcp_servers::usable_name, output};
use serde_json::{Value, json};
use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Why nothing was drafted.
#[derive(Debug, thiserror::Error)]
enum DraftError {
    #[error("{file}: {error}")]
    Unreadable { file: String, error: io::Error },
    #[error(
        "{0} is none of the files that tools are drafted from: tasks.json of VS Code, mise.toml, a justfile, a systemd unit (.service or .timer), a workflow of GitHub (.yml or .yaml)"
    )]
    UnknownKind(String),
    #[error("{file}: {why}")]
    Invalid { file: String, why: String },
}

/// What a file has: one tool for each job.
#[derive(Debug, Default, PartialEq)]
struct Draft {
    tools: Vec<DraftedTool>,
    schedules: Vec<DraftedSchedule>,
    /// What of the file as a whole is left out.
    left_out: Vec<String>,
}

/// A `[[tool]]`.
#[derive(Debug, Default, PartialEq)]
struct DraftedTool {
    name: String,
    description: String,
    command: Vec<Element>,
    properties: Vec<Property>,
    /// Other keys, with their values as TOML.
    keys: Vec<(&'static str, String)>,
    left_out: Vec<String>,
}

/// An element of `command`. Words are templates.
#[derive(Debug, Clone, PartialEq)]
enum Element {
    Word(String),
    /// Only there if its placeholders have values.
    Group(Vec<String>),
    /// Only there if the property is true.
    Switch {
        property: String,
        words: Vec<String>,
    },
}

/// An argument of a tool.
#[derive(Debug, Clone, PartialEq)]
struct Property {
    name: String,
    /// An object: its JSON Schema.
    schema: Value,
    is_optional: bool,
}

/// What a text may be that another program puts into a script as it is: nothing that a shell gives a meaning, and no option.
const PLAIN_TEXT: &str = "^[A-Za-z0-9_][A-Za-z0-9_./-]*$";

impl Property {
    /// Lets texts be plain only. Returns whether the property has texts; a default that is not plain is dropped.
    fn allow_plain_texts(&mut self) -> bool {
        let is_array = self.schema["type"] == "array";
        let schema = match is_array {
            true => &mut self.schema["items"],
            false => &mut self.schema,
        };
        if schema["type"] != "string" {
            return false;
        }
        schema["pattern"] = PLAIN_TEXT.into();
        let is_plain = |text: &str| {
            let is_known = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
            text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && text.chars().all(is_known)
        };
        if let (Some(default), Some(members)) = (schema["default"].as_str(), schema.as_object().cloned())
            && !is_plain(default)
        {
            let kept = members.into_iter().filter(|(key, _)| key != "default");
            *schema = Value::Object(kept.collect());
        }
        true
    }
}

/// A `[[schedule]]`.
#[derive(Debug, Default, PartialEq)]
struct DraftedSchedule {
    name: String,
    tool: String,
    keys: Vec<(&'static str, String)>,
    left_out: Vec<String>,
}

/// A file to draft from.
struct Source<'a> {
    path: &'a Path,
    text: String,
}

impl Source<'_> {
    /// The folder that the file is in.
    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    fn file_name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// The name of the file without what is behind its last dot.
    fn stem(&self) -> &str {
        self.path.file_stem().and_then(|name| name.to_str()).unwrap_or_default()
    }
}

/// Drafts the tools of `file`, and prints them.
pub(super) fn run(file: &Path, json: bool) -> ExitCode {
    match draft(file) {
        Ok((draft, text)) => {
            report(&draft, &text, file, json);
            ExitCode::SUCCESS
        }
        Err(error) => report_local(&error, true, json),
    }
}

fn draft(file: &Path) -> Result<(Draft, String), DraftError> {
    let shown = || file.display().to_string();
    let unreadable = |error| DraftError::Unreadable { file: shown(), error };
    let path: PathBuf = std::fs::canonicalize(file).map_err(unreadable)?;
    let text = longhaul_private_dir::read_named_text(&path).map_err(unreadable)?;
    let source = Source { path: &path, text };
    let read = reader(&source).ok_or_else(|| DraftError::UnknownKind(shown()))?;
    let mut draft = read(&source).map_err(|why| DraftError::Invalid { file: shown(), why })?;
    draft.name_apart();
    let text = text::of(&draft, &source);
    Ok((draft, text))
}

type Reader = fn(&Source<'_>) -> Result<Draft, String>;

fn reader(source: &Source<'_>) -> Option<Reader> {
    let extension = source.path.extension().and_then(|extension| extension.to_str());
    match (source.file_name().to_lowercase().as_str(), extension) {
        ("justfile" | ".justfile", _) | (_, Some("just")) => Some(just::read),
        (_, Some("json" | "jsonc")) => Some(vscode::read),
        (_, Some("toml")) => Some(mise::read),
        (_, Some("service" | "timer")) => Some(systemd::read),
        (_, Some("yml" | "yaml")) => Some(github::read),
        _ => None,
    }
}

fn report(draft: &Draft, text: &str, file: &Path, json: bool) {
    let left_out: Vec<&String> = draft.left_out().collect();
    if json {
        output::json_line(&json!({
            "file": file.display().to_string(),
            "tools": draft.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
            "leftOut": left_out,
            "text": text,
        }));
        return;
    }
    output::text(text);
    let (tools, left_out) = (draft.tools.len(), left_out.len());
    output::note(&format!(
        "tools drafted: {tools}; left out: {left_out}. Write the draft to a file, read its comments, then: longhaul check FILE"
    ));
}

impl Draft {
    fn left_out(&self) -> impl Iterator<Item = &String> {
        let tools = self.tools.iter().flat_map(|tool| &tool.left_out);
        let schedules = self.schedules.iter().flat_map(|schedule| &schedule.left_out);
        self.left_out.iter().chain(tools).chain(schedules)
    }

    /// Numbers tools whose names would be the same.
    fn name_apart(&mut self) {
        let mut taken = std::collections::BTreeSet::new();
        for tool in &mut self.tools {
            let wanted = tool.name.clone();
            for nth in 2.. {
                if taken.insert(tool.name.clone()) {
                    break;
                }
                tool.name = format!("{wanted}-{nth}");
            }
        }
    }
}

impl DraftedTool {
    fn new(name: &str, description: String) -> Self {
        Self {
            name: usable_name(name).trim_matches('_').to_owned(),
            description,
            ..Self::default()
        }
    }

    /// Lets texts of these arguments be plain only, because `program` puts them into scripts as they are.
    fn allow_plain_texts(&mut self, program: &str, names: impl Fn(&str) -> bool) {
        let chosen = self.properties.iter_mut().filter(|property| names(&property.name));
        let limited = chosen
            .map(Property::allow_plain_texts)
            .filter(|has_texts| *has_texts)
            .count();
        if limited > 0 {
            self.left_out.push(format!(
                "texts with other characters than letters, digits and _ . / -, since {program} may put them into a script as they are"
            ));
        }
    }

    fn word(&mut self, word: &str) {
        self.command.push(Element::Word(literal(word)));
    }

    /// Adds an argument, once.
    fn property(&mut self, property: Property) {
        if self.properties.iter().all(|known| known.name != property.name) {
            self.properties.push(property);
        }
    }
}

/// A text as a template: its braces are no placeholders.
fn literal(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// A name that can stand in a placeholder.
fn property_name(given: &str) -> String {
    usable_name(given).replace('-', "_")
}

#[cfg(test)]
mod tests;

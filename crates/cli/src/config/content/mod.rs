//! What a server has besides tools: the `[[resource]]` and `[[prompt]]` sections.

mod contained_folder;
mod prompt;
mod resource;

pub(crate) use contained_folder::ContainedFolder;
pub(crate) use prompt::{PromptArgument, PromptConfig};
pub(crate) use resource::{FOLDER_VARIABLE, ResourceConfig, ResourceSource};

use super::{
    paths::Environment,
    section::{Entry, Section},
    tool::is_tool_name,
};
use std::collections::HashMap;

/// The resources and prompts of a configuration, in the order of the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ContentConfig {
    pub(crate) resources: Vec<ResourceConfig>,
    pub(crate) prompts: Vec<PromptConfig>,
}

impl ContentConfig {
    /// Reads both kinds of sections. Those with problems are left out.
    pub(super) fn read(root: &Section<'_>, environment: &Environment) -> Self {
        let resources = sections(root.get("resource"), "resource", |section, name| {
            resource::read(section, name, environment)
        });
        let prompts = sections(root.get("prompt"), "prompt", |section, name| {
            prompt::read(section, name, environment)
        });
        let content = Self { resources, prompts };
        resource::check_uris(root, &content.resources);
        content
    }
}

/// Reads each section of a kind, with its name, which is unique.
fn sections<T>(
    entry: Option<Entry<'_>>,
    kind: &str,
    read: impl Fn(&Section<'_>, Option<String>) -> Option<T>,
) -> Vec<T> {
    let form = format!("one or more sections [[{kind}]] (with two brackets)");
    let entries = entry.and_then(|entry| entry.elements(&form)).unwrap_or_default();
    let (mut line_of_name, mut all) = (HashMap::new(), Vec::new());
    let label = format!("[[{kind}]]");
    for entry in &entries {
        if let Some(mut section) = entry.section(&label, &label) {
            let name = read_name(&mut section, kind, &mut line_of_name);
            all.extend(read(&section, name));
        }
    }
    all
}

fn read_name(section: &mut Section<'_>, kind: &str, line_of_name: &mut HashMap<String, usize>) -> Option<String> {
    let entry = section.require("name")?;
    let name = entry.text()?;
    if !is_tool_name(name) {
        entry.report(format!(
            "{name:?} cannot be the name of a {kind}: use 1 to 128 of the characters A-Z a-z 0-9 _ - . (`title` is for people)"
        ));
        return None;
    }
    section.name_as(format!("[[{kind}]] `{name}`"));
    if let Some(line) = line_of_name.get(name) {
        entry.report(format!("there is a {kind} `{name}` already, at line {line}"));
        return None;
    }
    line_of_name.insert(name.to_owned(), entry.line());
    Some(name.to_owned())
}

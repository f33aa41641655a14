//! Which files of its attempts a tool keeps for callers.

use super::schema;
use crate::config::section::{Entry, Section};
use longhaul_command::{ArtifactPattern, ArtifactSettings};
use serde_json::Value;
use std::collections::BTreeSet;

const DEFAULT_MAX: u64 = 1 << 30;
const FORM: &str =
    "true (what the command writes to the folder $LONGHAUL_ARTIFACTS) or an array of patterns such as [\"out/*.pdf\"]";

/// Reads `artifacts` and `max_artifacts`; `None` after a problem.
pub(super) fn read(section: &Section<'_>, input_schema: Option<&Value>) -> Option<Option<ArtifactSettings>> {
    let properties = input_schema.map(schema::property_names).unwrap_or_default();
    let patterns = section.optional("artifacts", |entry| read_patterns(entry, &properties));
    let max_bytes = section.get_or("max_artifacts", DEFAULT_MAX, |entry| {
        if !section.has("artifacts") {
            entry.report("`max_artifacts` has no effect: `artifacts` says which files are kept".to_owned());
        }
        entry.size()
    });
    let (patterns, max_bytes) = (patterns?, max_bytes?);
    Some(patterns.map(|patterns| ArtifactSettings { patterns, max_bytes }))
}

fn read_patterns(entry: &Entry<'_>, properties: &BTreeSet<&str>) -> Option<Vec<String>> {
    if !entry.is_array() {
        return match entry.flag_or(FORM)? {
            true => Some(Vec::new()),
            false => {
                entry.report("`artifacts` cannot be false: leave it out".to_owned());
                None
            }
        };
    }
    let texts = entry.texts()?;
    if texts.is_empty() {
        entry.report(format!("`artifacts` names no files: write {FORM}"));
        return None;
    }
    // Collected first, so that every wrong pattern is reported.
    let patterns: Vec<_> = texts
        .iter()
        .map(|(element, text)| read_pattern(element, text, properties))
        .collect();
    for (at, (element, text)) in texts.iter().enumerate() {
        if texts[..at].iter().any(|(_, before)| before == text) {
            element.warn(format!("`artifacts`: {text:?} is there twice: leave it out here"));
        }
    }
    patterns.into_iter().collect()
}

fn read_pattern(element: &Entry<'_>, text: &str, properties: &BTreeSet<&str>) -> Option<String> {
    let problem = match ArtifactPattern::parse(text) {
        Err(error) => error.to_string(),
        Ok(_) => match properties.iter().find(|name| text.contains(&format!("{{{name}}}"))) {
            Some(name) => format!(
                "placeholders are not replaced in patterns: write `*` in place of {{{name}}}, or have the command write to the folder $LONGHAUL_ARTIFACTS"
            ),
            None => return Some(text.to_owned()),
        },
    };
    element.report(format!("`artifacts`: {text:?}: {problem}"));
    None
}

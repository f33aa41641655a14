//! What a tool's command leaves: its standard output, its log, and files.

use super::{artifacts, schema};
use crate::config::{
    paths::Environment,
    section::{Entry, Section},
};
use longhaul_command::ArtifactSettings;
use regex::Regex;
use serde_json::Value;

/// What a model can take.
const DEFAULT_MAX_TEXT: u64 = 64 << 10;
/// JSON and raw output are kept whole or not at all.
const DEFAULT_MAX_WHOLE: u64 = 1 << 20;
const DEFAULT_MAX_LOG: u64 = 256 << 20;

/// What a tool says of its output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OutputSettings {
    /// The format of its standard output.
    pub(crate) format: Output,
    /// Regular expression that matches progress in a line of output: group `current`, optionally `total`.
    pub(crate) progress: Option<String>,
    /// Bytes of output kept in the result, at the end.
    pub(crate) max_output: u64,
    /// Bytes of log kept on disk.
    pub(crate) max_log: u64,
    /// Which files of its attempts are kept for callers, if any are.
    pub(crate) artifacts: Option<ArtifactSettings>,
}

/// The format of a command's standard output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Output {
    /// Text for the model.
    Text,
    /// JSON for `structuredContent`, checked against a schema if there is one.
    Json(Option<Value>),
    /// Its bytes as they are.
    Raw,
}

/// Reads what is said of the output; `None` after a problem.
pub(super) fn read(
    section: &Section<'_>,
    input_schema: Option<&Value>,
    environment: &Environment,
) -> Option<OutputSettings> {
    let format = read_format(section, environment);
    let progress = section.optional("progress", read_progress);
    let default_max_output = match &format {
        Some(Output::Text) | None => DEFAULT_MAX_TEXT,
        Some(_) => DEFAULT_MAX_WHOLE,
    };
    let max_output = section.get_or("max_output", default_max_output, Entry::size);
    let max_log = section.get_or("max_log", DEFAULT_MAX_LOG, Entry::size);
    let artifacts = artifacts::read(section, input_schema);
    Some(OutputSettings {
        format: format?,
        progress: progress?,
        max_output: max_output?,
        max_log: max_log?,
        artifacts: artifacts?,
    })
}

fn read_format(section: &Section<'_>, environment: &Environment) -> Option<Output> {
    let output = section.get_or("output", "text", |entry| {
        entry.choice(&[("text", "text"), ("json", "json"), ("raw", "raw")])
    });
    let schema_entry = section.get("output_schema");
    let schema = schema_entry.as_ref().map(|entry| schema::output(entry, environment));
    match (output?, schema) {
        ("json", None) => Some(Output::Json(None)),
        ("json", Some(schema)) => Some(Output::Json(Some(schema?))),
        ("raw", None) => Some(Output::Raw),
        (_, None) => Some(Output::Text),
        (_, Some(_)) => {
            if let Some(entry) = schema_entry {
                entry.report("`output_schema` needs output = \"json\"".to_owned());
            }
            None
        }
    }
}

fn read_progress(entry: &Entry<'_>) -> Option<String> {
    const EXAMPLE: &str = r"'(?<current>\d+)/(?<total>\d+)'";
    // The last line of the parser's message holds the reason.
    let reason = |error: &regex::Error| {
        error
            .to_string()
            .lines()
            .last()
            .unwrap_or_default()
            .replace("error: ", "")
    };
    let pattern = entry.text()?;
    let regex = Regex::new(pattern);
    let regex = regex
        .map_err(|error| entry.report(format!("`progress` is not a regular expression: {}", reason(&error))))
        .ok()?;
    if !regex.capture_names().flatten().any(|name| name == "current") {
        entry.report(format!(
            "`progress` needs a group `current`, and may have one `total`: {EXAMPLE}"
        ));
        return None;
    }
    Some(pattern.to_owned())
}

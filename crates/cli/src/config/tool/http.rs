//! `[tool.http]`: a job of an HTTP API instead of a command.

use crate::config::{
    paths::Environment,
    section::{Entry, Section},
    server::PLAIN_HTTP,
    tool::{
        job::{Names, read_states},
        schema::{self, Kind},
        secrets,
        template::unknown_property,
        values,
    },
    variables::expand_in_template,
};
use longhaul_core::Millis;
use longhaul_gateway::{HttpJob, HttpJobDefinition};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// How often the state of a job is asked for by default, in milliseconds.
const POLL: Millis = 5_000;
/// How long an answer may take by default, in milliseconds.
const REQUEST_TIMEOUT: Millis = 60_000;
/// What an answer may have by default, in bytes.
const MAX_RESPONSE: u64 = 1 << 20;
/// The keys of a tool that only a command has.
const OF_COMMANDS: [&str; 19] = [
    "command",
    "env",
    "env_from",
    "env_file",
    "cwd",
    "cwd_within",
    "stdin",
    "allow_leading_dash",
    "allow_placeholders_in_scripts",
    "output",
    "output_schema",
    "progress",
    "max_output",
    "max_log",
    "artifacts",
    "max_artifacts",
    "success",
    "timeout",
    "stop",
];

/// An HTTP job of a tool.
#[derive(Clone, PartialEq)]
pub(crate) struct HttpTool {
    pub(crate) definition: HttpJobDefinition,
    /// The templates of its headers. Secret.
    pub(crate) headers: BTreeMap<String, String>,
}

/// The entry of `command`, unless there is `http`. Reports what does not go together.
pub(super) fn command_or_http<'a>(section: &Section<'a>) -> Option<Entry<'a>> {
    if !section.has("http") {
        return match section.has("command") {
            true => section.get("command"),
            false => {
                section.require("command");
                None
            }
        };
    }
    for key in OF_COMMANDS {
        if let Some(entry) = section.get(key) {
            let what = match key {
                "command" => "a tool has one of `command` and `http`".to_owned(),
                key => format!("`{key}` is for a tool with `command`"),
            };
            entry.report(format!("{what}: leave it out"));
        }
    }
    None
}

/// Reads the section; `None` after a problem.
pub(super) fn read(
    entry: &Entry<'_>,
    tool: Option<&str>,
    input_schema: Option<&Value>,
    environment: &Environment,
) -> Option<HttpTool> {
    let section = entry.section("[tool.http]", "[tool.http] with `submit`")?;
    // Every key is read before the first `?`, so that one mistake does not hide another.
    let text = |entry: &Entry<'_>| entry.filled_text().map(str::to_owned);
    let submit = section.require("submit").and_then(|entry| text(&entry));
    let status = section.get_or("status", "Location".to_owned(), text);
    let result_from = section.optional("result_from", text);
    let cancel = section.optional("cancel", text);
    let body = section.optional("body", Entry::json);
    let headers = section.get_or("headers", BTreeMap::new(), |entry| read_headers(entry, environment));
    let idempotency_header = section.optional("idempotency_header", text);
    let states = read_states(&section, Names::Http);
    let poll = section.get_or("poll", POLL, Entry::positive_duration);
    let request_timeout = section.get_or("request_timeout", REQUEST_TIMEOUT, Entry::positive_duration);
    let max_response = section.get_or("max_response", MAX_RESPONSE, Entry::size);
    let plain_http = section.get_or("plain_http", false, |entry| entry.words(PLAIN_HTTP));
    section.finish();
    let headers = headers?;
    let definition = HttpJobDefinition {
        version: 1,
        tool: tool.unwrap_or_default().to_owned(),
        submit: submit?,
        body: body?,
        status: status?,
        result_from: result_from?,
        cancel: cancel?,
        idempotency_header: idempotency_header?,
        key_per_attempt: false,
        has_headers: !headers.is_empty(),
        plain_http: plain_http?,
        states: states?,
        poll: poll?,
        request_timeout: request_timeout?,
        max_response: max_response?,
        optional: input_schema.map(schema::optional_names).unwrap_or_default(),
        integers: input_schema.map(values::integers).unwrap_or_default(),
        defaults: input_schema.map(schema::defaults).unwrap_or_default(),
        secrets: input_schema.map(secrets::names).unwrap_or_default(),
    };
    let job = match HttpJob::new(definition.clone(), &headers) {
        Ok(job) => job,
        Err(mistakes) => {
            for mistake in mistakes {
                at(&section, entry, mistake.key).report(mistake.to_string());
            }
            return None;
        }
    };
    if let Some(schema) = input_schema {
        check_names(&section, entry, &job, schema).then_some(())?;
    }
    Some(HttpTool { definition, headers })
}

/// Where a mistake in this key is.
fn at<'a>(section: &Section<'a>, whole: &'a Entry<'a>, key: &'static str) -> Entry<'a> {
    section.get(key).unwrap_or_else(|| whole.clone())
}

/// Checks the placeholders against the input; `false` if one is wrong. Warns about properties that nothing uses.
fn check_names(section: &Section<'_>, whole: &Entry<'_>, job: &HttpJob, input_schema: &Value) -> bool {
    let known = schema::property_names(input_schema);
    let names: BTreeSet<(&'static str, &str)> = job.names().into_iter().collect();
    let mut is_sound = true;
    for (key, name) in &names {
        let problem = match schema::kind(input_schema, name) {
            _ if !known.contains(name) => unknown_property(name, &known),
            Kind::Object | Kind::ArrayOfObjects if *key != "body" => {
                format!(
                    "`{name}` holds objects or arrays, which cannot be text: put it into `body`, or make its members properties of the input"
                )
            }
            Kind::Array if *key == "headers" => format!("`{name}` is an array, which cannot stand in a header"),
            _ => continue,
        };
        is_sound = false;
        at(section, whole, key).report(format!("`{key}`: {problem}"));
    }
    let unused: Vec<&str> = known
        .into_iter()
        .filter(|name| !job.sends_all_arguments() && !names.iter().any(|(_, used)| used == name))
        .collect();
    for name in unused {
        whole.warn(format!(
            "`http`: no request uses `{name}`: write `{{{name}}}` where it belongs"
        ));
    }
    is_sound
}

/// Headers as templates. What variables of the environment hold is no template.
fn read_headers(entry: &Entry<'_>, environment: &Environment) -> Option<BTreeMap<String, String>> {
    let pairs = entry.pairs("a table such as { Authorization = \"Bearer ${TOKEN}\" }")?;
    let count = pairs.len();
    let headers: BTreeMap<_, _> = pairs
        .into_iter()
        .filter_map(|(name, entry)| {
            // The value may be secret, so no message shows it.
            let Some(value) = entry.text_if_any() else {
                entry.report(format!("`{}` must be a string; put it in quotes", entry.key()));
                return None;
            };
            let value = expand_in_template(value, |name| environment.value_of(name))
                .map_err(|why| entry.report(format!("`{}`: {why}", entry.key())))
                .ok()?;
            Some((name.to_owned(), value))
        })
        .collect();
    (headers.len() == count).then_some(headers)
}

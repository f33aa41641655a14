//! `[[schedule]]`: tasks that are started by the time.

use super::{
    section::{Entry, Section},
    tool::ToolConfig,
};
use crate::output::nearest;
use longhaul_core::{Json, Millis, Principal};
use longhaul_json_schema::{Schema as InputSchema, SchemaAuthor, text_len};
use longhaul_runtime::{CatchUp, Cron, CronError, Overlap, Recurrence, Schedule};
use serde_json::{Map, Value};
use std::{collections::HashMap, ops::RangeInclusive};

/// A tighter loop is a service, and not a schedule.
const EVERY: RangeInclusive<Millis> = 1_000..=366 * 86_400_000;
const LONGEST_JITTER: Millis = 86_400_000;
/// As that of tools.
const LONGEST_NAME: usize = 128;

/// Reads every `[[schedule]]`. Those with problems are left out. Arguments for tools of upstreams are not checked: nobody knows them yet.
pub(super) fn read_all(entry: &Entry<'_>, tools: Option<&[ToolConfig]>, has_upstreams: bool) -> Vec<Schedule> {
    let Some(entries) = entry.elements("one or more sections [[schedule]] (with two brackets)") else {
        return Vec::new();
    };
    let mut known = KnownTools {
        tools,
        has_upstreams,
        schemas: HashMap::new(),
    };
    let mut named = HashMap::new();
    let mut schedules = Vec::new();
    for entry in &entries {
        if let Some(mut section) = entry.section("[[schedule]]", "[[schedule]]") {
            let names = ReadNames::of(&mut section, &mut named);
            schedules.extend(read(&section, names, &mut known));
        }
    }
    schedules
}

/// What is known of the tools that schedules call.
struct KnownTools<'a> {
    /// Those of the file; `None` if there is a mistake in it.
    tools: Option<&'a [ToolConfig]>,
    has_upstreams: bool,
    /// Compiled once: there may be thousands of schedules.
    schemas: HashMap<&'a str, Option<InputSchema>>,
}

/// What a schedule is called, and what it calls.
struct ReadNames {
    name: Option<String>,
    tool: Option<String>,
}

impl ReadNames {
    fn of<'a>(section: &mut Section<'a>, named_before: &mut HashMap<String, Entry<'a>>) -> Self {
        let tool_entry = section.require("tool");
        let tool = tool_entry.as_ref().and_then(Entry::filled_text).map(str::to_owned);
        let named = section.get("name");
        let name = match &named {
            Some(entry) => entry.filled_text().map(str::to_owned),
            None => tool.clone(),
        };
        let Some(name) = name else {
            return Self { name: None, tool };
        };
        section.name_as(format!("[[schedule]] `{name}`"));
        let Some(entry) = named.or(tool_entry) else {
            return Self { name: None, tool };
        };
        if name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            entry.report(format!(
                "the name of a schedule has at most {LONGEST_NAME} bytes, all of which can be printed"
            ));
        }
        match named_before.get(&name) {
            Some(before) => entry.report(format!(
                "there is a schedule `{name}` already, at line {}: give one of them another `name`",
                before.line()
            )),
            None => drop(named_before.insert(name.clone(), entry)),
        }
        Self { name: Some(name), tool }
    }
}

fn read(section: &Section<'_>, names: ReadNames, known: &mut KnownTools<'_>) -> Option<Schedule> {
    let arguments_entry = section.get("arguments");
    let arguments = match &arguments_entry {
        Some(entry) => match entry.json() {
            Some(Value::Object(arguments)) => Some(arguments),
            Some(_) => {
                entry.report("`arguments` must be a table, for example { path = \"/srv\" }".to_owned());
                None
            }
            None => None,
        },
        None => Some(Map::new()),
    };
    if let (Some(name), Some(tools)) = (&names.tool, known.tools) {
        match (tools.iter().find(|tool| tool.name == *name), &arguments) {
            (Some(tool), Some(arguments)) => {
                check_secrets(section, arguments_entry.as_ref(), tool, arguments);
                known.check_arguments(section, arguments_entry.as_ref(), tool, arguments);
            }
            (None, _) if !known.has_upstreams => section.report(unknown_tool(name, tools)),
            _ => {}
        }
    }
    let recurrence = read_recurrence(section);
    let jitter = section.get_or("jitter", 0, |entry| entry.duration_in(0..=LONGEST_JITTER));
    if let (Some(Recurrence::Every(length)), Some(jitter)) = (&recurrence, jitter)
        && jitter >= *length
    {
        section.report("`jitter` must be shorter than `every`".to_owned());
    }
    let overlap = section.get_or("overlap", Overlap::default(), |entry| {
        entry.choice(&[("skip", Overlap::Skip), ("queue", Overlap::Queue)])
    });
    let catch_up = section.get_or("catch_up", CatchUp::default(), |entry| {
        entry.choice(&[("none", CatchUp::None), ("last", CatchUp::Last), ("all", CatchUp::All)])
    });
    if (catch_up, overlap) == (Some(CatchUp::All), Some(Overlap::Skip)) {
        section.report(
            "catch_up = \"all\" needs overlap = \"queue\": all but the first that is caught up would be skipped, because that one is live".to_owned(),
        );
    }
    let principal = section.get_or("as", Principal::local(), |entry| {
        Some(Principal::named(entry.filled_text()?))
    });
    section.finish();
    Some(Schedule {
        name: names.name?.into(),
        tool: names.tool?.into(),
        arguments: Json::from(Value::Object(arguments?)),
        principal: principal?,
        recurrence: recurrence?,
        jitter: jitter?,
        catch_up: catch_up?,
        overlap: overlap?,
    })
}

fn read_recurrence(section: &Section<'_>) -> Option<Recurrence> {
    let (cron, every, zone) = (section.get("cron"), section.get("every"), section.get("zone"));
    match (cron, every) {
        (Some(cron), None) => {
            let name = match &zone {
                Some(zone) => zone.filled_text(),
                None => Some("UTC"),
            };
            let parsed = Cron::parse(cron.text()?, name?);
            let cron = parsed.map_err(|error| match (&error, &zone) {
                (CronError::Zone(_), Some(zone)) => zone.report(format!("`zone`: {error}")),
                _ => cron.report(format!("`cron`: {error}")),
            });
            cron.ok().map(Recurrence::Cron)
        }
        (None, Some(every)) => {
            if let Some(zone) = zone {
                zone.report(
                    "`zone` goes with `cron`: `every` is a length of time, which is the same everywhere".to_owned(),
                );
            }
            every.duration_in(EVERY).map(Recurrence::Every)
        }
        (Some(_), Some(every)) => {
            every.report("`every` and `cron` exclude each other: leave one of them out".to_owned());
            None
        }
        (None, None) => {
            section.report("a schedule needs `cron`, as \"30 2 * * *\", or `every`, as \"15m\"".to_owned());
            None
        }
    }
}

/// A secret in the file would be in the clear.
fn check_secrets(section: &Section<'_>, entry: Option<&Entry<'_>>, tool: &ToolConfig, arguments: &Map<String, Value>) {
    for name in tool.secrets.iter().filter(|name| arguments.contains_key(*name)) {
        let message = format!(
            "`arguments`: `{name}` is secret for the tool `{}`, and would stand in this file: for schedules give that tool the value by `env_from` or `env_file`, or make another one of it that does",
            tool.name
        );
        match entry {
            Some(entry) => entry.report(message),
            None => section.report(message),
        }
    }
}

fn unknown_tool(name: &str, tools: &[ToolConfig]) -> String {
    let known = tools.iter().map(|tool| tool.name.as_str());
    match nearest::suggestion(name, known) {
        Some(hint) => format!("there is no tool `{name}` in this file; {hint}"),
        None => format!("there is no tool `{name}` in this file"),
    }
}

impl<'a> KnownTools<'a> {
    /// As the server checks them for each call.
    fn check_arguments(
        &mut self,
        section: &Section<'_>,
        entry: Option<&Entry<'_>>,
        tool: &'a ToolConfig,
        arguments: &Map<String, Value>,
    ) {
        let compile = || InputSchema::with_formats(&tool.input_schema, SchemaAuthor::Own, true).ok();
        let Some(schema) = self.schemas.entry(&tool.name).or_insert_with(compile) else {
            return;
        };
        let arguments = Value::Object(arguments.clone());
        let checked = schema.check(&arguments, text_len(&arguments), |violations| {
            let said = violations
                .take(3)
                .map(|violation| match violation.instance_path().to_string() {
                    place if place.is_empty() => violation.masked().to_string(),
                    place => format!("{}: {}", place.trim_start_matches('/'), violation.masked()),
                });
            said.collect::<Vec<_>>().join("; ")
        });
        let Ok(Err(violations)) = checked else { return };
        let message = format!("`arguments` do not fit the tool `{}`: {violations}", tool.name);
        match entry {
            Some(entry) => entry.report(message),
            None => section.report(message),
        }
    }
}

//! The `[[tool]]` sections.

mod artifacts;
mod attempt;
pub(super) mod command;
mod confirm;
mod http;
pub(super) mod job;
mod labels;
mod output;
mod process_context;
mod queueing;
mod schema;
pub(super) mod secrets;
mod template;
mod tool_warnings;
mod values;

pub(crate) use attempt::{AttemptSettings, read_retry};

use crate::config::{
    Display,
    paths::Environment,
    section::{Entry, Section},
};
use command::Stdin;
pub(crate) use confirm::ConfirmConfig;
pub(crate) use http::HttpTool;
use longhaul_command::{CommandElement, HarmlessValues};
use longhaul_core::{Millis, TaskPolicy};
use longhaul_runtime::Handoff;
use longhaul_server::FOLLOW_TOOLS;
pub(crate) use output::{Output, OutputSettings};
use process_context::ProcessContextConfig;
pub(crate) use queueing::QueueSettings;
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    path::PathBuf,
};
use template::Rules;

pub(super) use process_context::{read_cwd, read_env};

pub(crate) const DEFAULT_TASK_AFTER: Millis = 5_000;
const DEFAULT_RETENTION: Millis = 24 * 60 * 60 * 1000;
pub(crate) const MAX_CONCURRENCY: u32 = 10_000;

/// A command or an HTTP job offered as a tool.
#[derive(Clone, PartialEq)]
pub(crate) struct ToolConfig {
    /// The tool's name, unique in the file: 1 to 128 of `A-Z a-z 0-9 _ - .`.
    pub(crate) name: String,
    /// Its title and icons.
    pub(crate) display: Display,
    /// The description, for the model.
    pub(crate) description: String,
    /// The program, and its arguments. Empty only for an HTTP job.
    pub(crate) command: Vec<CommandElement>,
    /// What it does instead of running a command.
    pub(crate) http: Option<HttpTool>,
    /// Environment variables of the command, beside the inherited ones. Secret.
    pub(crate) env: BTreeMap<String, String>,
    /// The same with placeholders.
    pub(crate) env_templates: BTreeMap<String, String>,
    /// Variables of the server that the command gets.
    pub(crate) env_from: BTreeSet<String>,
    /// A file with variables, as an absolute path.
    pub(crate) env_file: Option<PathBuf>,
    /// The working directory, as an absolute path.
    pub(crate) cwd: PathBuf,
    /// Template of the working directory within `cwd`, if the caller chooses it.
    pub(crate) cwd_template: Option<String>,
    /// Its standard input.
    pub(crate) stdin: Stdin,
    /// Schema of the arguments, an object schema.
    pub(crate) input_schema: Value,
    /// Properties that a caller may leave out.
    pub(crate) optional: BTreeSet<String>,
    /// What stands for those that have a default.
    pub(crate) defaults: BTreeMap<String, Value>,
    /// Arguments that are secret.
    pub(crate) secrets: BTreeSet<String>,
    /// Properties whose value may begin with `-`.
    pub(crate) allow_leading_dash: BTreeSet<String>,
    /// Allows placeholders in scripts that interpreters run.
    pub(crate) allow_placeholders_in_scripts: bool,
    /// Properties that may stand there in any case.
    pub(crate) harmless: HarmlessValues,
    /// Properties that are integers, or arrays of them.
    pub(crate) integers: BTreeSet<String>,
    /// What its standard output is, and how much of it is kept.
    pub(crate) output: OutputSettings,
    /// Which calls become tasks.
    pub(crate) task: TaskPolicy,
    /// The question whether a call may run.
    pub(crate) confirm: Option<ConfirmConfig>,
    /// The text that a host may give its model while the task runs.
    pub(crate) immediate_response: Option<String>,
    /// How long a client without tasks waits before the hand-off, in milliseconds.
    pub(crate) handoff: Handoff,
    /// The longest time from creation to the end, in milliseconds.
    pub(crate) deadline: Option<Millis>,
    /// How long a finished task is kept, in milliseconds from its end.
    pub(crate) retention: Millis,
    /// The longest retention that a client may request, if longer.
    pub(crate) max_retention: Option<Millis>,
    /// How its attempts end, and when they are retried.
    pub(crate) attempt: AttemptSettings,
    /// Which of its calls run at once, and in which order.
    pub(crate) queue: QueueSettings,
    /// Names and templates of the labels of its tasks.
    pub(crate) labels: Vec<(String, String)>,
    /// The MCP tool annotations.
    pub(crate) annotations: Map<String, Value>,
}

/// Prints only the name, since the environment may be secret.
impl fmt::Debug for ToolConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolConfig({})", self.name)
    }
}

/// Reads every `[[tool]]`. Those with problems are left out.
pub(crate) fn read_all(entry: &Entry<'_>, environment: &Environment) -> Vec<ToolConfig> {
    let Some(entries) = entry.elements("one or more sections [[tool]] (with two brackets)") else {
        return Vec::new();
    };
    if entries.is_empty() {
        entry.report("there is no [[tool]], so there is nothing to serve".to_owned());
    }
    let mut line_of_name = HashMap::new();
    let mut tools = Vec::new();
    for entry in &entries {
        if let Some(mut section) = entry.section("[[tool]]", "[[tool]]") {
            let name = read_name(&mut section, &mut line_of_name);
            tools.extend(read(&section, name, environment).map(|tool| (entry, tool)));
        }
    }
    check_follow_tools(&tools);
    tools.into_iter().map(|(_, tool)| tool).collect()
}

/// Where a tool has `handoff`, the names of the tools that follow handed-off work are reserved. Without it a tool with such a name only ends the default.
fn check_follow_tools(tools: &[(&Entry<'_>, ToolConfig)]) {
    let is_reserved = tools.iter().any(|(_, tool)| matches!(tool.handoff, Handoff::After(_)));
    let by_default = tools.iter().any(|(_, tool)| tool.handoff == Handoff::Default);
    for (entry, tool) in tools {
        let name = &tool.name;
        match FOLLOW_TOOLS.contains(&name.as_str()) {
            true if is_reserved => entry.report(format!(
                "the server adds a tool `{name}` of its own, because a tool in this file has `handoff`: rename this one"
            )),
            true if by_default => entry.warn(format!(
                "no call is handed off to clients without tasks, since the server's own tool `{name}` is needed for that: rename this one, or set handoff = \"0s\" for all tools"
            )),
            _ => {}
        }
    }
}

/// Reads the tool's name, and reports a duplicate.
fn read_name(section: &mut Section<'_>, line_of_name: &mut HashMap<String, usize>) -> Option<String> {
    let entry = section.require("name")?;
    let name = entry.text()?;
    if !is_tool_name(name) {
        entry.report(format!(
            "{name:?} is not a tool name: use 1 to 128 of the characters A-Z a-z 0-9 _ - ."
        ));
        return None;
    }
    section.name_as(format!("[[tool]] `{name}`"));
    if let Some(line) = line_of_name.get(name) {
        entry.report(format!("there is a tool `{name}` already, at line {line}"));
        return None;
    }
    line_of_name.insert(name.to_owned(), entry.line());
    Some(name.to_owned())
}

pub(crate) fn is_tool_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// Reads one tool; `None` after a problem.
fn read(section: &Section<'_>, name: Option<String>, environment: &Environment) -> Option<ToolConfig> {
    // Every key is read before the first `?`, so that one mistake does not hide another.
    let description = section
        .require("description")
        .and_then(|entry| Some(entry.filled_text()?.to_owned()));
    let display = Display::read(section, environment);
    let input_schema = schema::input(section, environment).filter(|schema| secrets::check(section, schema));
    let allow_leading_dash = section.get_or("allow_leading_dash", BTreeSet::new(), |entry| {
        schema::known_properties(entry, &schema::property_names(input_schema.as_ref()?))
    });
    let no_dashes = BTreeSet::new();
    let rules = Rules {
        input_schema: input_schema.as_ref(),
        allow_leading_dash: allow_leading_dash.as_ref().unwrap_or(&no_dashes),
    };
    let command_entry = http::command_or_http(section);
    let http = section.optional("http", |entry| {
        http::read(entry, name.as_deref(), input_schema.as_ref(), environment)
    });
    let (program, command) = match &command_entry {
        Some(entry) => command::read(entry, &rules, environment),
        None if section.has("http") => (None, Some(Vec::new())),
        None => (None, None),
    };
    let process_context = ProcessContextConfig::read(section, &rules, environment);
    let stdin_entry = section.get("stdin");
    let stdin = match &stdin_entry {
        Some(entry) => command::read_stdin(entry, &rules),
        None => Some(Stdin::default()),
    };
    let allow_placeholders_in_scripts = section.get_or("allow_placeholders_in_scripts", false, Entry::flag);
    if let (Some(entry), Some(program)) = (&command_entry, &program) {
        process_context.warn_if_program_is_missing(entry, program, environment);
    }
    if allow_placeholders_in_scripts == Some(false) {
        let command = command_entry.as_ref().zip(command.as_deref());
        let stdin = stdin_entry.as_ref().zip(stdin.as_ref());
        check_code(section, command, stdin, &rules);
    }
    let labels = section.get_or("labels", Vec::new(), |entry| labels::read(entry, &rules));
    let task = read_task_policy(section);
    let confirm = confirm::read(section, &rules, task);
    let others = other_templates(process_context.templates(), labels.as_ref(), confirm.as_ref());
    let (command_texts, texts) = (command.as_deref(), (stdin.as_ref(), others.as_deref()));
    warn(section, &command_entry, command_texts, texts, input_schema.as_ref());
    let output = output::read(section, input_schema.as_ref(), environment);
    let immediate_response = section.optional_text("immediate_response");
    let handoff = section.optional("handoff", |entry| read_handoff(entry, task));
    let deadline = section.optional("deadline", Entry::positive_duration);
    let retention = section.get_or("retention", DEFAULT_RETENTION, Entry::retention);
    let max_retention = section.optional("max_retention", |entry| read_max_retention(entry, retention));
    let attempt = attempt::read(section, deadline.flatten());
    let queue = queueing::read(section, &rules);
    let annotations = section.get_or("annotations", Map::new(), read_annotations);
    section.finish();

    let input_schema = input_schema?;
    let (env, folder) = (process_context.env?, process_context.cwd?);
    Some(ToolConfig {
        name: name?,
        display: display?,
        description: description?,
        command: command?,
        http: http?,
        env: env.literal,
        env_templates: env.templates,
        env_from: process_context.env_from?,
        env_file: process_context.env_file?,
        cwd: folder.path,
        cwd_template: folder.template,
        stdin: stdin?,
        optional: schema::optional_names(&input_schema),
        defaults: schema::defaults(&input_schema),
        harmless: values::harmless(&input_schema),
        integers: values::integers(&input_schema),
        secrets: secrets::names(&input_schema),
        input_schema: secrets::without_marks(input_schema),
        allow_leading_dash: allow_leading_dash?,
        allow_placeholders_in_scripts: allow_placeholders_in_scripts?,
        output: output?,
        task: task?,
        confirm: confirm?,
        immediate_response: immediate_response?,
        handoff: handoff?.unwrap_or(Handoff::Default),
        deadline: deadline?,
        retention: retention?,
        max_retention: max_retention?,
        attempt: attempt?,
        queue: queue?,
        labels: labels?,
        annotations: annotations?,
    })
}

/// The templates of a tool beside its command and standard input; `None` if they could not be read.
fn other_templates<'a>(
    of_context: Option<Vec<&'a str>>,
    labels: Option<&'a Vec<(String, String)>>,
    confirm: Option<&'a Option<ConfirmConfig>>,
) -> Option<Vec<&'a str>> {
    let mut templates = of_context?;
    templates.extend(labels?.iter().map(|(_, text)| text.as_str()));
    templates.extend(confirm?.as_ref().map(|confirm| confirm.question.as_str()));
    Some(templates)
}

fn read_handoff(entry: &Entry<'_>, task: Option<TaskPolicy>) -> Option<Handoff> {
    let handoff = entry.duration().map(Handoff::of_configured);
    if task == Some(TaskPolicy::Never) && handoff != Some(Handoff::Off) {
        entry.report(
            "`handoff` tells a caller how to follow its call as a task, and task = \"never\" makes none: leave one of them out"
                .to_owned(),
        );
    }
    handoff
}

fn read_max_retention(entry: &Entry<'_>, retention: Option<Millis>) -> Option<Millis> {
    let most = entry.retention()?;
    if retention.is_some_and(|retention| most < retention) {
        entry.report(
            "`max_retention` is shorter than `retention`: it is the longest time that a client can request, and `retention` is the time without a request"
                .to_owned(),
        );
    }
    Some(most)
}

/// Warns about what the section may say and hardly means. `other_templates` are those beside the command.
fn warn(
    section: &Section<'_>,
    command_entry: &Option<Entry<'_>>,
    command: Option<&[CommandElement]>,
    (stdin, other_templates): (Option<&Stdin>, Option<&[&str]>),
    input_schema: Option<&Value>,
) {
    if let Some(env) = section.get("env") {
        tool_warnings::check_env(&env);
    }
    if let Some(schema) = input_schema {
        tool_warnings::check_schemas(section, schema);
    }
    let (Some(entry), Some(command)) = (command_entry, command) else {
        return;
    };
    tool_warnings::check_command(entry, command, input_schema);
    // All arguments are used where they are the standard input.
    let Some(Stdin::Template(stdin)) = stdin else { return };
    if let Some(entry) = section.get("stdin") {
        tool_warnings::check_stdin(&entry, command, stdin);
    }
    if let (Some(schema), Some(others)) = (input_schema, other_templates) {
        let others: Vec<&str> = [stdin.as_str()].into_iter().chain(others.iter().copied()).collect();
        tool_warnings::check_unused(section, schema, command, &others);
    }
}

/// Reports placeholders by which a caller could run code.
fn check_code(
    section: &Section<'_>,
    command: Option<(&Entry<'_>, &[CommandElement])>,
    stdin: Option<(&Entry<'_>, &Stdin)>,
    rules: &Rules<'_>,
) {
    let harmless = rules.input_schema.map(values::harmless).unwrap_or_default();
    if let Some((entry, elements)) = command {
        command::check_scripts(entry, elements, stdin, rules, &harmless);
    }
    if let Some(entry) = section.get("env") {
        process_context::check_code_variables(&entry, &harmless);
    }
}

fn read_task_policy(section: &Section<'_>) -> Option<TaskPolicy> {
    // `task_after` is allowed with any policy, so that `task` alone can be changed.
    let after = section.get_or("task_after", DEFAULT_TASK_AFTER, Entry::positive_duration);
    let policies = [
        ("never", TaskPolicy::Never),
        ("optional", TaskPolicy::Optional),
        ("after", TaskPolicy::After(after.unwrap_or(DEFAULT_TASK_AFTER))),
        ("always", TaskPolicy::Always),
    ];
    // So quick commands are answered at once.
    let by_default = TaskPolicy::After(after.unwrap_or(DEFAULT_TASK_AFTER));
    let policy = section.get_or("task", by_default, |entry| entry.choice(&policies));
    after.and(policy)
}

fn read_annotations(entry: &Entry<'_>) -> Option<Map<String, Value>> {
    let section = entry.section("`annotations`", "such as { readOnlyHint = true }")?;
    let mut annotations = Map::new();
    let mut sound = true;
    let mut take = |key: &'static str, read: fn(&Entry<'_>) -> Option<Value>| {
        if let Some(entry) = section.get(key) {
            match read(&entry) {
                Some(value) => drop(annotations.insert(key.to_owned(), value)),
                None => sound = false,
            }
        }
    };
    take("title", |entry| Some(entry.text()?.into()));
    for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
        take(hint, |entry| Some(entry.flag()?.into()));
    }
    section.finish();
    sound.then_some(annotations)
}

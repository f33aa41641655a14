//! What the API answers, for people.

use super::table::{table, table_without};
use crate::{
    ask::fields,
    output::{columns::terminal_width, json_text::one_line, plain},
};
use longhaul_admin_api::{
    AttemptView, AuditLine, EntryView, FailureView, NodeView, OutcomeView, PrincipalView, PrincipalsView, QuestionView,
    SettledQuestionView, StatsView, TaskDetails, TaskView, ToolView, UpstreamView,
};
use longhaul_core::approximate_duration;
use serde_json::value::RawValue;
use std::io::IsTerminal as _;

/// The width of what is printed. A pipe gets whole lines.
pub(super) fn width() -> usize {
    match std::io::stdout().is_terminal() {
        true => terminal_width(),
        false => usize::MAX,
    }
}

/// A text that may be absent, as a cell or a part of a line.
fn given(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or_default()
}

/// What stands in a cell without a value.
const NOTHING: &str = "-";

fn or_nothing(text: &str) -> String {
    match text {
        "" => NOTHING.to_owned(),
        text => text.to_owned(),
    }
}

/// Characters of a bar.
const BAR: usize = 10;
/// A terminal of fewer columns has no room for whole ids.
const WIDE: usize = 120;
/// Characters of an id that are shown there.
const SHORT_ID: usize = 8;
const TASK_COLUMNS: [&str; 6] = ["TASK", "TOOL", "STATE", "AGE, ENDED", "PRINCIPAL", "STATUS"];
const PRINCIPAL: usize = 4;

pub(super) fn tasks(tasks: &[TaskView], width: usize) -> String {
    let rows: Vec<[String; 6]> = tasks.iter().map(task_row).collect();
    if tasks.iter().all(|task| task.labels.is_empty()) {
        return table(TASK_COLUMNS, &rows, width);
    }
    let labelled = |([id, tool, state, age, principal, status], task): ([String; 6], &TaskView)| {
        [id, tool, state, age, principal, or_nothing(&labels(task)), status]
    };
    let rows: Vec<[String; 7]> = rows.into_iter().zip(tasks).map(labelled).collect();
    let [id, tool, state, age, principal, status] = TASK_COLUMNS;
    table([id, tool, state, age, principal, "LABELS", status], &rows, width)
}

/// As `team=infra env=prod`.
fn labels(task: &TaskView) -> String {
    let labels = task.labels.iter().map(|(name, value)| format!("{name}={value}"));
    labels.collect::<Vec<_>>().join(" ")
}

/// For a screen: on a narrow one ids have their last characters, which the commands take, too, and there is no principal.
pub(super) fn tasks_of_screen<'a>(tasks: impl Iterator<Item = &'a TaskView>, width: usize) -> String {
    let row = |task: &TaskView| {
        let mut row = task_row(task);
        let id = &task.id;
        if width < WIDE && id.len() > SHORT_ID {
            row[0] = format!("…{}", id.get(id.len() - SHORT_ID..).unwrap_or(id));
        }
        if let Some(done) = task.fraction() {
            row[5] = format!("{} {}", bar(done), row[5]).trim_end().to_owned();
        }
        row
    };
    let rows: Vec<[String; 6]> = tasks.map(row).collect();
    table_without(TASK_COLUMNS, &rows, width, &[PRINCIPAL])
}

/// How much of a task is done.
fn bar(done: f64) -> String {
    let filled = (done * BAR as f64) as usize;
    let bar = format!("{}{}", "\u{2588}".repeat(filled), "\u{2591}".repeat(BAR - filled));
    format!("{bar} {:.0} %", done * 100.0)
}

fn task_row(task: &TaskView) -> [String; 6] {
    [
        task.id.clone(),
        task.tool.clone(),
        match task.asks {
            true => "asking".to_owned(),
            false => task.state.to_string(),
        },
        match task.ended_ms_ago {
            Some(ago) => format!("{} ago", approximate_duration(ago)),
            None => approximate_duration(task.age_ms),
        },
        task.principal.clone(),
        status(task),
    ]
}

/// What it asks, or how far it is; of one that is over what was made of it, and why it has failed.
fn status(task: &TaskView) -> String {
    if let Some(question) = task.question.as_ref().filter(|question| !question.is_empty()) {
        return format!("asks: {question}");
    }
    let made = [("retried", &task.retried_as), ("reset", &task.reset_as)];
    let made = made
        .into_iter()
        .filter_map(|(how, new)| Some(format!("{how} as {}", new.as_ref()?)));
    let why = [given(&task.status), given(&task.last_line)];
    let why: Vec<&str> = why.into_iter().filter(|text| !text.is_empty()).collect();
    let parts: Vec<String> = made.chain([why.join(": ")]).filter(|text| !text.is_empty()).collect();
    parts.join("; ")
}

pub(super) fn tools(tools: &[ToolView], width: usize) -> String {
    tools_without(tools.iter(), width, &[])
}

/// For a screen: a narrow one shows what waits, and why.
pub(super) fn tools_of_screen<'a>(tools: impl Iterator<Item = &'a ToolView>, width: usize) -> String {
    tools_without(tools, width, &[9, 10, 11, 7, 4, 6])
}

fn tools_without<'a>(tools: impl Iterator<Item = &'a ToolView>, width: usize, dispensable: &[usize]) -> String {
    let row = |tool: &ToolView| {
        [
            match tool.paused {
                true => format!("{} (paused)", tool.name),
                false => tool.name.clone(),
            },
            tool.queued.to_string(),
            tool.queue_age_ms
                .map_or_else(|| NOTHING.to_owned(), approximate_duration),
            tool.running.to_string(),
            tool.suspended.to_string(),
            tool.blocked.to_string(),
            tool.asking.to_string(),
            tool.succeeded.to_string(),
            tool.failed.to_string(),
            tool.cancelled.to_string(),
            rate(tool.per_minute),
            mean(tool.mean_ms),
            last_failure(tool.last_failure.as_ref()),
        ]
    };
    let rows: Vec<[String; 13]> = tools.map(row).collect();
    let header = [
        "TOOL",
        "QUEUED",
        "FOR",
        "RUNNING",
        "SUSPENDED",
        "BLOCKED",
        "ASKING",
        "SUCCEEDED",
        "FAILED",
        "CANCELLED",
        "A MINUTE",
        "MEAN",
        "LAST FAILURE",
    ];
    table_without(header, &rows, width, dispensable)
}

pub(super) fn principals(found: &PrincipalsView, width: usize) -> String {
    let row = |principal: &PrincipalView| {
        [
            principal.principal.clone(),
            principal.queued.to_string(),
            principal.running.to_string(),
            principal.suspended.to_string(),
            principal.blocked.to_string(),
            principal.asking.to_string(),
            approximate_duration(principal.oldest_ms),
        ]
    };
    let rows: Vec<[String; 7]> = found.principals.iter().map(row).collect();
    let header = [
        "PRINCIPAL",
        "QUEUED",
        "RUNNING",
        "SUSPENDED",
        "BLOCKED",
        "ASKING",
        "OLDEST",
    ];
    let mut shown = table(header, &rows, width);
    if found.or_more {
        shown.push_str(&format!("\nthe newest {} live tasks are counted", found.counted));
    }
    shown
}

/// Of a tool or an upstream: how many of its tasks end in a minute.
fn rate(per_minute: f64) -> String {
    format!("{per_minute:.1}")
}

/// How long its tasks take.
fn mean(millis: Option<f64>) -> String {
    millis.map_or_else(|| NOTHING.to_owned(), |mean| approximate_duration(mean as u64))
}

/// When one has failed, and why.
fn last_failure(failure: Option<&FailureView>) -> String {
    match failure {
        None => NOTHING.to_owned(),
        Some(failure) => format!(
            "{} ago: {}",
            approximate_duration(failure.ms_ago),
            given(&failure.reason)
        ),
    }
}

pub(super) fn audit(lines: &[AuditLine], width: usize) -> String {
    let row = |line: &AuditLine| {
        [
            line.time.clone(),
            line.action.clone(),
            line.outcome_in_words(),
            or_nothing(&line.principal),
            or_nothing(line.about()),
            or_nothing(&line.task),
            or_nothing(line.from()),
            line.detail.clone(),
        ]
    };
    let rows: Vec<[String; 8]> = lines.iter().map(row).collect();
    let header = [
        "TIME",
        "ACTION",
        "OUTCOME",
        "PRINCIPAL",
        "ABOUT",
        "TASK",
        "FROM",
        "MORE",
    ];
    table(header, &rows, width)
}

/// How many tools an upstream has, and how many of them are paused or left out.
fn tools_of(upstream: &UpstreamView) -> String {
    let notes = [(upstream.paused_tools, "paused"), (upstream.left_out.len(), "left out")];
    let notes = notes.iter().filter(|(count, _)| *count > 0);
    let notes: Vec<String> = notes.map(|(count, how)| format!("{count} {how}")).collect();
    match notes.is_empty() {
        true => upstream.tools.to_string(),
        false => format!("{} ({})", upstream.tools, notes.join(", ")),
    }
}

pub(super) fn upstreams(upstreams: &[UpstreamView], width: usize) -> String {
    let row = |upstream: &UpstreamView| {
        [
            upstream.name.clone(),
            upstream.state.to_string(),
            tools_of(upstream),
            upstream.queued.to_string(),
            upstream.running.to_string(),
            match upstream.concurrency {
                Some(most) => format!("{} (at most {most} run)", upstream.waiting),
                None => upstream.waiting.to_string(),
            },
            upstream.asking.to_string(),
            upstream.succeeded.to_string(),
            upstream.failed.to_string(),
            upstream.cancelled.to_string(),
            rate(upstream.per_minute),
            mean(upstream.mean_ms),
            given(&upstream.reason).to_owned(),
            last_failure(upstream.last_failure.as_ref()),
        ]
    };
    if upstreams.is_empty() {
        return "this server has no upstreams".to_owned();
    }
    let rows: Vec<[String; 14]> = upstreams.iter().map(row).collect();
    let header = [
        "UPSTREAM",
        "STATE",
        "TOOLS",
        "QUEUED",
        "RUNNING",
        "WAITING",
        "ASKING",
        "SUCCEEDED",
        "FAILED",
        "CANCELLED",
        "A MINUTE",
        "MEAN",
        "WHY",
        "LAST FAILURE",
    ];
    table(header, &rows, width)
}

pub(super) fn nodes(nodes: &[NodeView], width: usize) -> String {
    let row = |node: &NodeView| {
        [
            node.node.to_string(),
            match node.answers {
                true => format!("{} (answers)", node.name),
                false => node.name.clone(),
            },
            node.role.to_string(),
            match &node.cordon {
                None => node.state.to_string(),
                Some(cordon) => format!("{}, {cordon}", node.state),
            },
            or_nothing(given(&node.address)),
            node.host.clone(),
            node.since.clone(),
            match (node.lease_ms, node.host_away_ms) {
                (Some(left), _) => approximate_duration(left),
                (None, Some(away)) => format!("away for {}", approximate_duration(away)),
                (None, None) => NOTHING.to_owned(),
            },
            node.attempts.to_string(),
            node.bound_attempts.to_string(),
        ]
    };
    let rows: Vec<[String; 10]> = nodes.iter().map(row).collect();
    let header = [
        "NODE", "NAME", "ROLE", "STATE", "ADDRESS", "HOST", "SINCE", "LEASE", "ATTEMPTS", "BOUND",
    ];
    let mut shown = table(header, &rows, width);
    for node in nodes {
        let notes = [node.outlook.as_deref(), node.events_in_words()];
        for note in notes.into_iter().flatten() {
            shown.push_str(&format!("node {}: {note}\n", node.node));
        }
    }
    shown
}

pub(super) fn stats(stats: &StatsView) -> String {
    let mut line = format!(
        "{}: {} queued, {} running, {} suspended, {} blocked; {} ask",
        stats.name, stats.queued, stats.running, stats.suspended, stats.blocked, stats.asking
    );
    if let Some(limit) = stats.max_running {
        line.push_str(&format!("; {} of {limit} slots are taken", stats.taken_slots));
    }
    if let Some(age) = stats.queue_age_ms {
        line.push_str(&format!("; the queue is {} old", approximate_duration(age)));
    }
    if stats.stopping {
        line.push_str("; it is stopping");
    }
    if stats.reads_only {
        line.push_str("; it only reads, until it is started once with --accept-restored-database");
    }
    line
}

/// Goes on in the column of the values.
const CONTINUED: &str = "\n             ";

/// The members of a task, one a line.
struct Members {
    lines: Vec<String>,
}

impl Members {
    /// Nothing, if there is no value.
    fn add(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            // Each further line is behind the column of names, so that no text of others looks like a member.
            let value = plain(value, "\n\t").replace('\n', CONTINUED);
            self.lines.push(format!("  {name:<11}{value}"));
        }
    }

    fn question(&mut self, question: &QuestionView) {
        let params = &question.params;
        let message = params["message"].as_str().unwrap_or(&question.method);
        self.add("asks", &format!("{message} ({})", question.key));
        for field in fields::of_params(params) {
            self.add("", &field);
        }
        self.add("", params["url"].as_str().unwrap_or_default());
    }

    fn settled_question(&mut self, settled: &SettledQuestionView) {
        let SettledQuestionView {
            question,
            asked_at,
            how,
            ..
        } = settled;
        let by = settled
            .by
            .as_ref()
            .map_or_else(String::new, |by| format!(" by the {by}"));
        let settled_at = given(&settled.settled_at);
        self.add("asked", &format!("{question}  {asked_at}, {how}{by} {settled_at}"));
    }

    fn attempt(&mut self, attempt: &AttemptView) {
        let exit = attempt.exit.as_ref().map_or_else(String::new, ToString::to_string);
        let line = format!(
            "{}  {}  {}  {exit}  {}",
            attempt.epoch,
            given(&attempt.began),
            given(&attempt.ended),
            given(&attempt.last_line)
        );
        self.add("attempt", line.trim_end());
    }

    fn outcome(&mut self, outcome: &OutcomeView) {
        match &*outcome.kind {
            "result" => self.json("result", outcome.result.as_deref()),
            "error" => self.add("error", given(&outcome.message)),
            _ => {}
        }
    }

    fn node(&mut self, node: &NodeView) {
        let outlook = match given(&node.outlook) {
            "" => String::new(),
            outlook => format!("; it is dead: {outlook}"),
        };
        let NodeView {
            name,
            node: number,
            host,
            address,
            ..
        } = node;
        let line = format!("{name} {} (node {number}, host {host}){outlook}", given(address));
        self.add("runs at", line.trim());
    }

    /// JSON as it is written.
    fn json(&mut self, name: &str, json: Option<&RawValue>) {
        self.add(name, &json.map_or_else(String::new, |json| one_line(json.get())));
    }
}

pub(super) fn task(details: &TaskDetails) -> String {
    let task = &details.task;
    let mut members = Members {
        lines: vec![format!("{} {}", task.tool, task.state)],
    };
    members.add("id", &task.id);
    members.add("status", given(&task.status));
    members.add("last line", given(&task.last_line));
    if let Some(node) = &details.runs_at {
        members.node(node);
    }
    members.add("waits for", given(&details.waits_for));
    members.add("principal", &plain(&task.principal, ""));
    members.add("labels", &plain(&labels(task), ""));
    members.add("created", &task.created_at);
    members.add("changed", &task.updated_at);
    members.add("ended", given(&task.ended_at));
    members.add("age", &approximate_duration(task.age_ms));
    members.add("deadline", given(&details.deadline_at));
    members.add("goes on", given(&details.resumes_at));
    members.add("kept until", given(&details.deleted_at));
    members.add("started by", given(&task.parent));
    members.add("retry of", given(&details.retry_of));
    members.add("made again", given(&task.retried_as));
    members.add("related", &plain(&details.related_task_ids.join(" "), ""));
    if let Some(client) = &details.client {
        let words = format!("{} {}", given(&client.name), given(&client.version));
        members.add("client", plain(&words, "").trim());
    }
    if !task.announced {
        members.add("plain call", "no client knows its id");
    }
    if let Some(blocked) = &task.blocked {
        members.add("blocked", &format!("{}: {}", blocked.reason, blocked.message));
    }
    members.json("arguments", details.arguments.as_deref());
    details.questions.iter().for_each(|question| members.question(question));
    (details.settled_questions.iter()).for_each(|question| members.settled_question(question));
    details.attempts.iter().for_each(|attempt| members.attempt(attempt));
    for entry in &details.journal {
        members.add("journal", &self::entry(entry));
    }
    for child in &details.children {
        members.add("child", &format!("{} {} {}", child.id, child.tool, child.state));
    }
    if let Some(outcome) = &details.outcome {
        members.outcome(outcome);
    }
    members.lines.join("\n")
}

/// An entry of a journal in one line.
pub(super) fn entry(entry: &EntryView) -> String {
    let EntryView {
        position,
        kind,
        name,
        status,
        ..
    } = entry;
    let took = entry.took_ms.map_or_else(String::new, approximate_duration);
    format!("{position} {kind} {name}  {took}  {status}")
}

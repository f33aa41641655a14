//! What the API answers, for people.

use super::table::{table, table_without};
use crate::{fields, json_text::one_line, output::plain, tasks::terminal_width};
use longhaul_core::{ParsedJson, approximate_duration};
use serde_json::Value;
use std::io::IsTerminal as _;

/// The width of what is printed. A pipe gets whole lines.
pub(super) fn width() -> usize {
    match std::io::stdout().is_terminal() {
        true => terminal_width(),
        false => usize::MAX,
    }
}

/// The text of a member, or nothing.
pub(super) fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

pub(super) fn tasks(tasks: &[Value], width: usize) -> String {
    let rows: Vec<[String; 6]> = tasks.iter().map(task_row).collect();
    table(TASK_COLUMNS, &rows, width)
}

/// For a screen: on a narrow one ids have their last characters, which the commands take, too, and there is no principal.
pub(super) fn tasks_of_screen(tasks: &[Value], width: usize) -> String {
    let row = |task: &Value| {
        let mut row = task_row(task);
        let id = text(task, "id");
        if width < WIDE && id.len() > SHORT_ID {
            row[0] = format!("…{}", id.get(id.len() - SHORT_ID..).unwrap_or(id));
        }
        if let Some(bar) = bar(task) {
            let status = std::mem::take(&mut row[5]);
            row[5] = format!("{bar} {status}").trim_end().to_owned();
        }
        row
    };
    let rows: Vec<[String; 6]> = tasks.iter().map(row).collect();
    table_without(TASK_COLUMNS, &rows, width, &[PRINCIPAL])
}

/// How much of a live task is done, if it says so.
fn bar(task: &Value) -> Option<String> {
    let progress = Some(&task["progress"]).filter(|_| task["endedAt"].is_null())?;
    let (current, total) = (progress["current"].as_f64()?, progress["total"].as_f64()?);
    if total <= 0.0 {
        return None;
    }
    let done = (current / total).clamp(0.0, 1.0);
    let filled = (done * BAR as f64) as usize;
    let bar = format!("{}{}", "\u{2588}".repeat(filled), "\u{2591}".repeat(BAR - filled));
    Some(format!("{bar} {:.0} %", done * 100.0))
}

/// Characters of a bar.
const BAR: usize = 10;
/// A terminal of fewer columns has no room for whole ids.
const WIDE: usize = 120;
/// Characters of an id that are shown there.
const SHORT_ID: usize = 8;
const TASK_COLUMNS: [&str; 6] = ["TASK", "TOOL", "STATE", "AGE, ENDED", "PRINCIPAL", "STATUS"];
const PRINCIPAL: usize = 4;

fn task_row(task: &Value) -> [String; 6] {
    let state = text(task, "state");
    [
        text(task, "id").to_owned(),
        text(task, "tool").to_owned(),
        match task["asks"] == true {
            true => "asking".to_owned(),
            false => state.to_owned(),
        },
        match task["endedMsAgo"].as_u64() {
            Some(ago) => format!("{} ago", approximate_duration(ago)),
            None => approximate_duration(task["ageMs"].as_u64().unwrap_or_default()),
        },
        text(task, "principal").to_owned(),
        status(task),
    ]
}

/// What it asks, or how far it is; of one that is over what was made of it, and why it has failed.
fn status(task: &Value) -> String {
    let question = text(task, "question");
    if !question.is_empty() {
        return format!("asks: {question}");
    }
    let made = [("retried", "retriedAs"), ("reset", "resetAs")];
    let made = made.iter().filter(|(_, member)| !text(task, member).is_empty());
    let made = made.map(|(how, member)| format!("{how} as {}", text(task, member)));
    let why = ["status", "lastLine"].map(|member| text(task, member)).into_iter();
    let why: Vec<&str> = why.filter(|text| !text.is_empty()).collect();
    let parts: Vec<String> = made.chain([why.join(": ")]).filter(|text| !text.is_empty()).collect();
    parts.join("; ")
}

pub(super) fn tools(tools: &[Value], width: usize) -> String {
    tools_without(tools, width, &[])
}

/// For a screen: a narrow one shows what waits, and why.
pub(super) fn tools_of_screen(tools: &[Value], width: usize) -> String {
    tools_without(tools, width, &[9, 10, 11, 7, 4, 6])
}

fn tools_without(tools: &[Value], width: usize, dispensable: &[usize]) -> String {
    let row = |tool: &Value| {
        let count = |member: &str| tool[member].as_u64().unwrap_or_default().to_string();
        [
            match tool["paused"] == true {
                true => format!("{} (paused)", text(tool, "name")),
                false => text(tool, "name").to_owned(),
            },
            count("queued"),
            tool["queueAgeMs"]
                .as_u64()
                .map_or_else(|| "-".to_owned(), approximate_duration),
            count("running"),
            count("suspended"),
            count("blocked"),
            count("asking"),
            count("succeeded"),
            count("failed"),
            count("cancelled"),
            rate(tool),
            mean(tool),
            last_failure(tool),
        ]
    };
    let rows: Vec<[String; 13]> = tools.iter().map(row).collect();
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

pub(super) fn principals(found: &Value, width: usize) -> String {
    let row = |principal: &Value| {
        let count = |member: &str| principal[member].as_u64().unwrap_or_default().to_string();
        [
            text(principal, "principal").to_owned(),
            count("queued"),
            count("running"),
            count("suspended"),
            count("blocked"),
            count("asking"),
            approximate_duration(principal["oldestMs"].as_u64().unwrap_or_default()),
        ]
    };
    let rows: Vec<[String; 7]> = list(found, "principals").iter().map(row).collect();
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
    if found["orMore"] == true {
        shown.push_str(&format!("\nthe newest {} live tasks are counted", found["counted"]));
    }
    shown
}

/// Of a tool or an upstream: how many of its tasks end in a minute.
fn rate(of: &Value) -> String {
    format!("{:.1}", of["perMinute"].as_f64().unwrap_or_default())
}

/// How long its tasks take.
fn mean(of: &Value) -> String {
    let mean = of["meanMs"].as_f64();
    mean.map_or_else(|| "-".to_owned(), |mean| approximate_duration(mean as u64))
}

/// When one has failed, and why.
fn last_failure(of: &Value) -> String {
    let failure = &of["lastFailure"];
    match failure["msAgo"].as_u64() {
        None => "-".to_owned(),
        Some(ago) => format!("{} ago: {}", approximate_duration(ago), text(failure, "reason")),
    }
}

pub(super) fn audit(lines: &[Value], width: usize) -> String {
    let row = |line: &Value| {
        let first_of = |members: &[&str]| {
            let mut found = members.iter().map(|member| text(line, member));
            found.find(|text| !text.is_empty()).unwrap_or("-").to_owned()
        };
        [
            text(line, "time").to_owned(),
            text(line, "action").to_owned(),
            match line["code"].as_i64() {
                Some(code) => format!("{} ({code})", text(line, "outcome")),
                None => text(line, "outcome").to_owned(),
            },
            first_of(&["principal"]),
            first_of(&["tool", "resource", "prompt", "method"]),
            first_of(&["task"]),
            first_of(&["client", "address"]),
            text(line, "detail").to_owned(),
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
fn tools_of(upstream: &Value) -> String {
    let tools = upstream["tools"].as_u64().unwrap_or_default();
    let paused = upstream["pausedTools"].as_u64().filter(|paused| *paused > 0);
    let left_out = upstream["leftOut"].as_object().map(serde_json::Map::len);
    let notes = [
        paused.map(|paused| format!("{paused} paused")),
        left_out.map(|left_out| format!("{left_out} left out")),
    ];
    let notes: Vec<String> = notes.into_iter().flatten().collect();
    match notes.is_empty() {
        true => tools.to_string(),
        false => format!("{tools} ({})", notes.join(", ")),
    }
}

pub(super) fn upstreams(upstreams: &[Value], width: usize) -> String {
    let row = |upstream: &Value| {
        let count = |member: &str| upstream[member].as_u64().unwrap_or_default().to_string();
        [
            text(upstream, "name").to_owned(),
            text(upstream, "state").to_owned(),
            tools_of(upstream),
            count("queued"),
            count("running"),
            match upstream["concurrency"].as_u64() {
                Some(most) => format!("{} (at most {most} run)", count("waiting")),
                None => count("waiting"),
            },
            count("asking"),
            count("succeeded"),
            count("failed"),
            count("cancelled"),
            rate(upstream),
            mean(upstream),
            text(upstream, "reason").to_owned(),
            last_failure(upstream),
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

pub(super) fn nodes(found: &Value, width: usize) -> String {
    let nodes = list(found, "nodes");
    let row = |node: &Value| {
        let millis = |member: &str| node[member].as_u64();
        [
            node["node"].to_string(),
            match node["answers"] == true {
                true => format!("{} (answers)", text(node, "name")),
                false => text(node, "name").to_owned(),
            },
            text(node, "role").to_owned(),
            match text(node, "cordon") {
                "" => text(node, "state").to_owned(),
                cordon => format!("{}, {cordon}", text(node, "state")),
            },
            match text(node, "address") {
                "" => "-".to_owned(),
                address => address.to_owned(),
            },
            text(node, "host").to_owned(),
            text(node, "since").to_owned(),
            match (millis("leaseMs"), millis("hostAwayMs")) {
                (Some(left), _) => approximate_duration(left),
                (None, Some(away)) => format!("away for {}", approximate_duration(away)),
                (None, None) => "-".to_owned(),
            },
            node["attempts"].to_string(),
            node["boundAttempts"].to_string(),
        ]
    };
    let rows: Vec<[String; 10]> = nodes.iter().map(row).collect();
    let header = [
        "NODE", "NAME", "ROLE", "STATE", "ADDRESS", "HOST", "SINCE", "LEASE", "ATTEMPTS", "BOUND",
    ];
    let mut shown = table(header, &rows, width);
    for node in nodes {
        let outlook = text(node, "outlook");
        if !outlook.is_empty() {
            shown.push_str(&format!("node {}: {outlook}\n", node["node"]));
        }
        let events = match text(node, "events") {
            "" => continue,
            "lost" => "its events are lost: it and the others poll the database",
            _ => "what it sends on its connection for events is lost: it sends on another one",
        };
        shown.push_str(&format!("node {}: {events}\n", node["node"]));
    }
    shown
}

pub(super) fn stats(stats: &Value) -> String {
    let count = |member: &str| stats[member].as_u64().unwrap_or_default();
    let mut line = format!(
        "{}: {} queued, {} running, {} suspended, {} blocked; {} ask",
        text(stats, "name"),
        count("queued"),
        count("running"),
        count("suspended"),
        count("blocked"),
        count("asking")
    );
    if let Some(limit) = stats["maxRunning"].as_u64() {
        line.push_str(&format!("; {} of {limit} slots are taken", count("takenSlots")));
    }
    if let Some(age) = stats["queueAgeMs"].as_u64() {
        line.push_str(&format!("; the queue is {} old", approximate_duration(age)));
    }
    if stats["stopping"] == true {
        line.push_str("; it is stopping");
    }
    if stats["readsOnly"] == true {
        line.push_str("; it only reads, until it is started once with --accept-restored-database");
    }
    line
}

/// Goes on in the column of the values.
const CONTINUED: &str = "\n             ";

pub(super) fn task(task: &ParsedJson) -> String {
    let mut lines = vec![format!("{} {}", text(task, "tool"), text(task, "state"))];
    let mut member = |name: &str, value: &str| {
        if !value.is_empty() {
            // Each further line is behind the column of names, so that no text of others looks like a member.
            let value = plain(value, "\n\t").replace('\n', CONTINUED);
            lines.push(format!("  {name:<11}{value}"));
        }
    };
    member("id", text(task, "id"));
    member("status", text(task, "status"));
    member("last line", text(task, "lastLine"));
    let node = &task["runsAt"];
    if !node.is_null() {
        let outlook = match text(node, "outlook") {
            "" => String::new(),
            outlook => format!("; it is dead: {outlook}"),
        };
        let (name, number, host) = (text(node, "name"), &node["node"], text(node, "host"));
        member(
            "runs at",
            format!("{name} {} (node {number}, host {host}){outlook}", text(node, "address")).trim(),
        );
    }
    member("waits for", text(task, "waitsFor"));
    member("principal", &plain(text(task, "principal"), ""));
    member("created", text(task, "createdAt"));
    member("changed", text(task, "updatedAt"));
    member("ended", text(task, "endedAt"));
    member("age", &approximate_duration(task["ageMs"].as_u64().unwrap_or_default()));
    member("deadline", text(task, "deadlineAt"));
    member("goes on", text(task, "resumesAt"));
    member("kept until", text(task, "deletedAt"));
    member("started by", text(task, "parent"));
    member("retry of", text(task, "retryOf"));
    member("made again", text(task, "retriedAs"));
    let related = list(task, "relatedTaskIds")
        .iter()
        .map(|id| id.as_str().unwrap_or_default());
    member("related", &plain(&related.collect::<Vec<_>>().join(" "), ""));
    let client = &task["client"];
    member(
        "client",
        plain(&format!("{} {}", text(client, "name"), text(client, "version")), "").trim(),
    );
    if task["announced"] == false {
        member("plain call", "no client knows its id");
    }
    if !task["blocked"].is_null() {
        member(
            "blocked",
            &format!(
                "{}: {}",
                text(&task["blocked"], "reason"),
                text(&task["blocked"], "message")
            ),
        );
    }
    if let Some(arguments) = task.member("arguments") {
        member("arguments", &one_line(arguments.as_str()));
    }
    for question in list(task, "questions") {
        let message = question["params"]["message"]
            .as_str()
            .unwrap_or(text(question, "method"));
        member("asks", &format!("{} ({})", message, text(question, "key")));
        for field in fields::of_schema(&question["params"]["requestedSchema"]) {
            member("", &field);
        }
        member("", text(&question["params"], "url"));
    }
    for question in list(task, "settledQuestions") {
        let by = match text(question, "by") {
            "" => String::new(),
            by => format!(" by the {by}"),
        };
        let (asked, settled) = (text(question, "askedAt"), text(question, "settledAt"));
        let (what, how) = (text(question, "question"), text(question, "how"));
        member("asked", &format!("{what}  {asked}, {how}{by} {settled}"));
    }
    for attempt in list(task, "attempts") {
        let exit = if attempt["exit"].is_null() {
            String::new()
        } else {
            attempt["exit"].to_string()
        };
        member(
            "attempt",
            format!(
                "{}  {}  {}  {exit}  {}",
                attempt["epoch"],
                text(attempt, "began"),
                text(attempt, "ended"),
                text(attempt, "lastLine")
            )
            .trim_end(),
        );
    }
    for entry in list(task, "journal") {
        member("journal", &self::entry(entry));
    }
    for child in list(task, "children") {
        member(
            "child",
            &format!("{} {} {}", text(child, "id"), text(child, "tool"), text(child, "state")),
        );
    }
    match text(&task["outcome"], "kind") {
        "result" => {
            let result = task.member("outcome").map(ParsedJson::from);
            let result = result.and_then(|outcome| outcome.member("result"));
            member(
                "result",
                &result.map_or_else(String::new, |result| one_line(result.as_str())),
            );
        }
        "error" => member("error", text(&task["outcome"], "message")),
        _ => {}
    }
    lines.join("\n")
}

/// An entry of a journal in one line.
pub(super) fn entry(entry: &Value) -> String {
    let took = entry["tookMs"].as_u64().map_or_else(String::new, approximate_duration);
    format!(
        "{} {} {}  {took}  {}",
        entry["position"],
        text(entry, "kind"),
        text(entry, "name"),
        text(entry, "status")
    )
}

pub(super) fn list<'a>(value: &'a Value, member: &str) -> &'a [Value] {
    value[member].as_array().map_or(&[], Vec::as_slice)
}

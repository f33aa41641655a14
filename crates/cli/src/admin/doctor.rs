//! `longhaul admin doctor`: what is wrong with a server, and what to do.

use super::{
    api::{Api, Local, data_dir},
    show::{length, list, text},
};
use crate::{args::Operated, failure::Failure, output, result::Exit};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

/// Less free space than this is soon used up, in bytes.
const LITTLE_SPACE: u64 = 1 << 30;
/// A write-ahead log beyond this means that something holds an old state of the database, in bytes.
const LONG_LOG: u64 = 1 << 30;
/// A queue that old waits for something, in milliseconds.
const OLD_QUEUE: u64 = 10 * 60_000;
/// A question nobody has answered for so long.
const OLD_QUESTION: &str = "1h";

/// Something that is wrong.
struct Finding {
    what: String,
    advice: String,
}

impl Finding {
    fn new(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            advice: advice.into(),
        }
    }
}

/// Looks at the data directory, if the server is named by its file, and at the server, if it runs.
pub(super) async fn run(of: &Operated) -> Result<Exit, Failure> {
    let mut findings = Vec::new();
    let api = if of.target.contains("://") {
        Some(Api::of(of)?)
    } else if let Some(data_dir) = data_dir(of) {
        look_at_directory(&data_dir, &mut findings);
        match Api::of(of) {
            Ok(api) => Some(api),
            Err(failure) => {
                findings.push(Finding::new(failure.to_string(), "start the server"));
                None
            }
        }
    } else {
        let local = Local::read(of)?;
        look_at_directory(&local.data_dir, &mut findings);
        match Api::of_local(of, &local) {
            Ok(api) => Some(api),
            Err(failure) => {
                findings.push(Finding::new(
                    failure.to_string(),
                    format!("start it: longhaul serve {}", of.target),
                ));
                None
            }
        }
    };
    if let Some(api) = api {
        match look_at_server(&api, &of.target).await {
            Ok(found) => findings.extend(found),
            Err(failure) if failure.kind() == "unauthorized" => return Err(failure),
            // The server is well: it must not be ended for its database.
            Err(failure) if failure.kind() == "store" => findings.push(Finding::new(
                format!("the server answers, and its database does not: {failure}"),
                "look at the database's own log, its disk and its connections; the server goes on by itself once the database answers",
            )),
            Err(failure) => findings.push(Finding::new(
                format!("the server does not answer: {failure}"),
                format!(
                    "start it: longhaul serve {}. If it runs and hangs, look at its log, and end it with SIGKILL: nothing acknowledged is lost",
                    of.target
                ),
            )),
        }
    }
    if of.json {
        let shown = findings
            .iter()
            .map(|finding| json!({"finding": finding.what, "advice": finding.advice}));
        output::json_line(&json!({"findings": shown.collect::<Vec<Value>>()}));
    } else if findings.is_empty() {
        output::text("nothing is wrong");
    } else {
        for finding in &findings {
            output::text(&format!("{}\n  {}", finding.what, finding.advice));
        }
    }
    Ok(match findings.is_empty() {
        true => Exit::Answered,
        false => Exit::ToolError,
    })
}

fn look_at_directory(path: &Path, findings: &mut Vec<Finding>) {
    let shown = path.display();
    let Ok(found) = fs::metadata(path) else {
        findings.push(Finding::new(
            format!("there is no data directory {shown}"),
            "the server makes it at its first start; if it had one, it was moved or removed",
        ));
        return;
    };
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        findings.push(Finding::new(
            format!("other users can read {shown} (mode {mode:o})"),
            format!("chmod 700 {shown}"),
        ));
    }
    if let Ok(system) = rustix::fs::statvfs(path) {
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        if free < LITTLE_SPACE {
            findings.push(Finding::new(
                format!("the disk of {shown} has {} MiB left", free >> 20),
                "calls are refused when it is full, and outcomes wait: make room, or shorten `retention` of tools with long logs",
            ));
        }
    }
    if let Ok(log) = fs::metadata(path.join("longhaul.db-wal"))
        && log.len() > LONG_LOG
    {
        findings.push(Finding::new(
            format!("the database's write-ahead log has {} MiB", log.len() >> 20),
            "another program keeps the database open, such as a backup that hangs: find it with `fuser`, and end it",
        ));
    }
}

async fn look_at_server(api: &Api, target: &str) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    let command = |words: &str| format!("longhaul admin {words} {target}");
    let blocked = api.get("/api/tasks?state=blocked&limit=500").await?;
    for task in list(&blocked, "tasks").iter().take(20) {
        let reason = text(&task["blocked"], "reason");
        let advice = match reason {
            "unavailable" => "offer its tool again, or cancel it".to_owned(),
            "poisoned" => format!(
                "each try crashes the process at the same point: mend the tool, then `{} {}`, or cancel it",
                command("release"),
                text(task, "id")
            ),
            _ => "deploy code that fits the task's journal: it is tried again by itself; or cancel it".to_owned(),
        };
        findings.push(Finding::new(
            format!(
                "{} {} is blocked ({reason}): {}",
                text(task, "tool"),
                text(task, "id"),
                text(&task["blocked"], "message")
            ),
            advice,
        ));
    }
    for tool in api.get("/api/tools").await?.as_array().into_iter().flatten() {
        let age = tool["queueAgeMillis"].as_u64().unwrap_or_default();
        let is_paused = tool["paused"] == true;
        if age >= OLD_QUEUE || (is_paused && tool["queued"] != 0) {
            let limit = tool["concurrency"]
                .as_u64()
                .map_or_else(String::new, |limit| format!(" of {limit}"));
            findings.push(Finding::new(
                format!(
                    "{} tasks of {} are queued, the first for {}; {}{limit} run",
                    tool["queued"],
                    text(tool, "name"),
                    length(age),
                    tool["running"]
                ),
                match (is_paused, tool["offered"] == true) {
                    (true, _) => format!(
                        "the tool is paused, and what waits fails after `queue_timeout`: {} '{}'",
                        command("resume"),
                        text(tool, "name")
                    ),
                    (false, true) => format!("raise `concurrency` or `max_running`, or see what runs for long: `{} --state running --oldest`", command("tasks")),
                    (false, false) => "the tool is not offered any more: configure it again, or cancel its tasks".to_owned(),
                },
            ));
        }
    }
    for node in list(&api.get("/api/nodes").await?, "nodes") {
        if node["state"] == "dead" && node["boundAttempts"] != 0 {
            findings.push(Finding::new(
                format!(
                    "{} attempts are bound to the host {}, whose server is away",
                    node["boundAttempts"],
                    text(node, "host")
                ),
                text(node, "outlook"),
            ));
        }
    }
    let asking = api
        .get(&format!("/api/tasks?asks=yes&older={OLD_QUESTION}&limit=500"))
        .await?;
    if let Some(first) = list(&asking, "tasks").last() {
        findings.push(Finding::new(
            format!(
                "{} tasks ask, and are older than {OLD_QUESTION}; the oldest is {}",
                list(&asking, "tasks").len(),
                text(first, "id")
            ),
            format!("`{} ID name=value` answers one of them", command("answer")),
        ));
    }
    Ok(findings)
}

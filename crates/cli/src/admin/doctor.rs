//! `longhaul admin doctor`: what is wrong with a server, and what to do.

use super::{
    api::{Api, Local, data_dir},
    show::{list, text},
};
use crate::{args::Operated, failure::Failure, fields::as_word, output, result::Exit, shell_word::shell_word};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

/// Less free space than this is soon used up, in bytes.
const LITTLE_SPACE: u64 = 1 << 30;
/// A write-ahead log beyond this means that something holds an old state of the database, in bytes.
const LONG_LOG: u64 = 1 << 30;

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

/// What the server knows itself.
async fn look_at_server(api: &Api, target: &str) -> Result<Vec<Finding>, Failure> {
    let found = api.get("/api/problems").await?;
    let finding = |problem: &Value| {
        let advice = text(problem, "advice").to_owned();
        let words = problem["command"].as_array().into_iter().flatten();
        let words: Vec<String> = words.map(|word| shell_word(&as_word(word))).collect();
        let advice = match words.split_first() {
            None => advice,
            Some((command, rest)) => format!(
                "{advice}: `longhaul admin {command} {} {}`",
                shell_word(target),
                rest.join(" ")
            ),
        };
        Finding::new(text(problem, "what"), advice)
    };
    Ok(list(&found, "problems").iter().map(finding).collect())
}

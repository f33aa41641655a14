//! `[upstream.NAME.job.TOOL]`: tools of an upstream that submit a job, tell its state and cancel it, as one tool.

use crate::config::{
    section::{Entry, Section},
    tool::is_tool_name,
};
use longhaul_core::Millis;
use longhaul_gateway::{JobStates, JobTools};
use std::collections::BTreeSet;

/// How often the state of a job is asked for by default, in milliseconds.
const POLL: Millis = 5_000;

/// Reads the job-style toolsets of an upstream, in the order of the file.
pub(crate) fn read_all(entry: &Entry<'_>) -> Option<Vec<JobTools>> {
    let mut pairs = entry.pairs("sections [upstream.NAME.job.TOOL]")?;
    pairs.sort_by_key(|(_, entry)| entry.line());
    let mut submitted = BTreeSet::new();
    let jobs: Vec<Option<JobTools>> = pairs
        .into_iter()
        .map(|(name, entry)| {
            if !is_tool_name(name) {
                entry.report(format!(
                    "{name:?} is not a tool name: use 1 to 128 of the characters A-Z a-z 0-9 _ - ."
                ));
                return None;
            }
            let section = entry.section(&format!("the job `{name}`"), "with the tools of a job")?;
            let job = read(&section, name);
            section.finish();
            let job = job?;
            if !submitted.insert(job.submit.clone()) {
                entry.report(format!("the tool `{}` submits another job already", job.submit));
                return None;
            }
            Some(job)
        })
        .collect();
    jobs.into_iter().collect()
}

fn read(section: &Section<'_>, name: &str) -> Option<JobTools> {
    let tool = |key: &'static str| section.require(key).and_then(|entry| read_text(&entry));
    // Every key is read before the first `?`, so that one mistake does not hide another.
    let (submit, status) = (tool("submit"), tool("status"));
    let cancel = section.optional("cancel", read_text);
    let result = section.optional("result", read_text);
    let description = section.optional("description", read_text);
    let id = section.require("id").and_then(|entry| read_pointer(&entry));
    let states = read_states(section, Names::Upstream);
    let id_argument = section.optional("id_argument", read_text);
    let poll = section.get_or("poll", POLL, Entry::positive_duration);
    let id = id?;
    let id_argument = match id_argument? {
        Some(argument) => argument,
        None => match id.rsplit('/').next().filter(|last| !last.is_empty()) {
            Some(last) => last.replace("~1", "/").replace("~0", "~"),
            None => {
                section.report(format!(
                    "the job `{name}` needs `id_argument`, the argument in which its other tools take the id"
                ));
                return None;
            }
        },
    };
    Some(JobTools {
        name: name.to_owned(),
        description: description?,
        submit: submit?,
        status: status?,
        cancel: cancel?,
        result: result?,
        id,
        id_argument,
        states: states?,
        poll: poll?,
    })
}

/// How the places in answers are named.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// Those of an upstream's tools, where `result` is a tool.
    Upstream,
    /// Those of an HTTP job.
    Http,
}

/// Reads where the state of a job is, and what belongs to it.
pub(super) fn read_states(section: &Section<'_>, names: Names) -> Option<JobStates> {
    let [message, progress, result, error] = match names {
        Names::Upstream => ["message_at", "progress_at", "result_at", "error_at"],
        Names::Http => ["message", "progress", "result", "error"],
    };
    // An HTTP status may say enough.
    let is_needed = names == Names::Upstream || section.has("done") || section.has("failed");
    let state = match is_needed {
        true => section
            .require("state")
            .and_then(|entry| Some(Some(read_pointer(&entry)?))),
        false => section.optional("state", read_pointer),
    };
    let has_state = is_needed || !matches!(state, Some(None));
    let done = match has_state {
        true => section.require("done").and_then(|entry| read_state_names(&entry)),
        false => Some(Vec::new()),
    };
    let failed = section.get_or("failed", Vec::new(), |entry| {
        read_failed(entry, done.as_deref().unwrap_or_default())
    });
    let message_at = section.optional(message, read_pointer);
    let progress_at = section.optional(progress, read_pointer);
    let result_at = section.optional(result, read_pointer);
    let error_at = section.optional(error, read_pointer);
    Some(JobStates {
        state: state?,
        message_at: message_at?,
        progress_at: progress_at?,
        done: done?,
        failed: failed?,
        result_at: result_at?,
        error_at: error_at?,
    })
}

fn read_text(entry: &Entry<'_>) -> Option<String> {
    entry.filled_text().map(str::to_owned)
}

fn read_pointer(entry: &Entry<'_>) -> Option<String> {
    let text = entry.text()?;
    if !text.is_empty() && !text.starts_with('/') {
        entry.report(format!(
            "`{}` must be a JSON pointer such as \"/job/id\", or \"\" for all of the result, not {text:?}",
            entry.key()
        ));
        return None;
    }
    Some(text.to_owned())
}

fn read_state_names(entry: &Entry<'_>) -> Option<Vec<String>> {
    let states = entry.texts()?;
    if states.is_empty() {
        entry.report(format!("`{}` must name a state", entry.key()));
        return None;
    }
    Some(states.into_iter().map(|(_, state)| state.to_owned()).collect())
}

/// Those of a job that has failed are none of those of one that is done.
fn read_failed(entry: &Entry<'_>, done: &[String]) -> Option<Vec<String>> {
    let failed = read_state_names(entry)?;
    for state in &failed {
        if let Some(same) = done.iter().find(|done| done.eq_ignore_ascii_case(state)) {
            entry.report(format!(
                "`failed`: the state {state:?} is {same:?} in `done`: upper and lower case are the same, so leave it out of one of them"
            ));
            return None;
        }
    }
    Some(failed)
}

//! The history of a task.

use crate::{
    exit::{failure::Failure, result::Exit},
    output,
    servers::notice::with_notice,
};
use longhaul_client::{HistoryEntry, RequestError, TaskHandle};
use serde_json::json;

/// Prints the history so far.
pub(super) async fn print(task: &TaskHandle, json: bool) -> Result<Exit, Failure> {
    let entries = match with_notice(task.connection().address(), task.history()).await {
        Err(error) => return Err(no_history(task, error).await),
        Ok(entries) => entries,
    };
    if json {
        output::json_line(&json!({"taskId": task.id(), "entries": entries}));
    } else {
        let lines: String = entries.iter().map(format_entry).collect();
        output::text(&lines);
    }
    Ok(Exit::Answered)
}

/// Why there is no history. Of a task that the server knows, it refuses the history alone.
async fn no_history(task: &TaskHandle, error: RequestError) -> Failure {
    match matches!(error, RequestError::Rpc(_)) && task.get().await.is_ok() {
        true => Failure::refused("the task has no history: only Longhaul servers keep one".to_owned()),
        false => error.into(),
    }
}

/// Formats an entry as lines: the entry and its state, then the reason and its failed tries.
fn format_entry(entry: &HistoryEntry) -> String {
    let state = match (&entry.until, entry.task.as_ref().or(entry.by.as_ref())) {
        (Some(until), _) => format!("{} until {until}", entry.state),
        (None, Some(other)) => format!("{} ({})", entry.state, output::plain(other, "")),
        (None, None) => entry.state.clone(),
    };
    let took = entry.took_ms.filter(|_| entry.until.is_none());
    let took = took.map(|took| format!(" in {}", longhaul_core::approximate_duration(took)));
    let mut lines = format!(
        "{:>5}  {}  {}  {state}{}\n",
        entry.place,
        entry.at,
        entry.what,
        took.unwrap_or_default()
    );
    if let Some(question) = &entry.question {
        lines.push_str(&format!("       asks: {}\n", output::plain(question, "")));
    }
    if let Some(failed) = &entry.failed {
        let (tries, shown) = (failed.tries, failed.last.len());
        for (nth, one) in (tries.saturating_sub(shown as u64) + 1..).zip(&failed.last) {
            let why = output::plain(&one.why, "");
            lines.push_str(&format!("       {}  try {nth} failed: {why}\n", one.at));
        }
    } else if let Some(why) = &entry.why {
        let last = entry
            .last_line
            .as_ref()
            .map(|line| format!(": {}", output::plain(line, "")));
        lines.push_str(&format!(
            "       {}{}\n",
            output::plain(why, ""),
            last.unwrap_or_default()
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_entries_show_state_and_failed_tries() {
        let entries = json!([
            {"place": 1, "what": "step \"build\"", "at": "2026-11-20T09:00:00.000Z", "state": "done",
             "failed": {"tries": 22, "last": [{"at": "2026-11-20T09:00:01.000Z", "why": "no\u{7} answer"}]}},
            {"place": 2, "what": "child \"smoke\"", "at": "2026-11-20T09:00:02.000Z", "state": "waiting", "task": "t-1"},
            {"place": 3, "what": "timer", "at": "2026-11-20T09:00:03.000Z", "state": "waiting", "until": "2026-11-23T09:00:03.000Z"},
            {"place": 6, "what": "step \"deploy\"", "at": "2026-11-20T09:00:06.000Z", "state": "done", "tookMs": 61_500},
            {"place": 7, "what": "input \"go\"", "at": "2026-11-20T09:00:07.000Z", "state": "done", "question": "Go\non?"},
            {"place": 1, "what": "attempt 1", "at": "2026-11-20T09:00:08.000Z", "state": "failed", "tookMs": 7, "why": "exit code 3", "exit": {"code": 3}, "lastLine": "no\u{7} disk"},
            {"place": 4, "what": "failure", "at": "2026-11-20T09:00:04.000Z", "state": "failed", "by": "panic", "why": "it ended"},
            {"place": 5, "what": "failure 2", "at": "2026-11-20T09:00:05.000Z", "state": "failed", "why": "it ended"},
        ]);
        let entries: Vec<HistoryEntry> = serde_json::from_value(entries).unwrap();
        let lines: String = entries.iter().map(format_entry).collect();
        let expected = "    1  2026-11-20T09:00:00.000Z  step \"build\"  done
       2026-11-20T09:00:01.000Z  try 22 failed: no  answer
    2  2026-11-20T09:00:02.000Z  child \"smoke\"  waiting (t-1)
    3  2026-11-20T09:00:03.000Z  timer  waiting until 2026-11-23T09:00:03.000Z
    6  2026-11-20T09:00:06.000Z  step \"deploy\"  done in 1m1s
    7  2026-11-20T09:00:07.000Z  input \"go\"  done
       asks: Go on?
    1  2026-11-20T09:00:08.000Z  attempt 1  failed in 7ms
       exit code 3: no  disk
    4  2026-11-20T09:00:04.000Z  failure  failed (panic)
       it ended
    5  2026-11-20T09:00:05.000Z  failure 2  failed
       it ended
";
        assert_eq!(lines, expected);
    }
}

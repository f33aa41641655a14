//! `longhaul task`: shows, waits for or cancels a task.

use crate::{
    args,
    ask::Asking,
    failure::Failure,
    interrupt::Interrupt,
    output,
    record::Named,
    result::{self, Exit},
    servers,
    waiting::{Display, Waiting, how_to_answer},
};
use longhaul_client::{Connection, HistoryEntry, Outcome, RequestError, TaskHandle, TaskSnapshot};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Runs the command.
pub(crate) async fn run(task: &args::Task) -> ExitCode {
    match act(task).await {
        Ok(exit) => exit,
        Err(failure) => failure.report(task.json),
    }
    .into()
}

async fn act(args: &args::Task) -> Result<Exit, Failure> {
    let named = choose(&args.server, &args.words, args.id.as_deref(), "task").await?;
    let server = &named.server;
    let (asking, mut unasked) = Asking::new();
    let connection = server.connection(|options| {
        if args.action.wait {
            options.inputs = Some(asking.clone());
        }
    })?;
    named.resume(&connection).await;
    if args.action.wait {
        reach(&connection).await?;
    }
    let task = connection.task(&named.id);
    let exit = match &args.action {
        args::TaskAction { wait: true, .. } => {
            let (mut display, mut interrupt) = (Display::new(), Interrupt::new());
            asking.hides(display.bar());
            let mut waiting = Waiting {
                server,
                display: &mut display,
                interrupt: &mut interrupt,
                unasked: &mut unasked,
                json: args.json,
            };
            match waiting.wait(&task, None).await {
                Ok(waited) => {
                    if let Some(finished) = waited.finished {
                        named.finish(finished).await;
                    }
                    Ok(waited.exit)
                }
                Err(failure) => Err(failure),
            }
        }
        args::TaskAction { cancel: true, .. } => cancel(&task, args.json).await,
        args::TaskAction { log: true, .. } => log(&task, args.json).await,
        args::TaskAction { history: true, .. } => history(&task, args.json).await,
        _ => show(&named, &task, args.json).await,
    };
    if !named.keeps_session() && (server.is_child() || !matches!(exit, Ok(Exit::Interrupted | Exit::Asks))) {
        connection.close().await;
    }
    exit
}

/// Connects. A server that is busy or stopping will be asked again, but not one that cannot be reached: the address may be wrong.
async fn reach(connection: &Connection) -> Result<(), RequestError> {
    match connection.server().await {
        Err(error) if error.is_transient() && !matches!(error, RequestError::Unreachable { .. }) => Ok(()),
        reached => reached.map(drop),
    }
}

/// The task that the words name, or `--id`; without any the only one.
async fn choose(
    server: &args::ServerArgs,
    words: &[String],
    id: Option<&str>,
    command: &str,
) -> Result<Named, Failure> {
    let (server, rest) = servers::choose(server, words)?;
    match (rest, id) {
        ([id], None) => Named::find(server, id).await,
        ([], Some(id)) => Named::find(server, id).await,
        ([], None) => Named::only(server, command).await,
        ([first, ..], _) => Err(Failure::usage(format!(
            "there is one word too many: `{first}` is not a URL and not a configured server"
        ))),
    }
}

/// `longhaul cancel`
pub(crate) async fn cancel_command(args: &args::Cancel) -> ExitCode {
    let cancelled = async {
        if args.words.is_empty() && args.id.is_none() {
            return Err(Failure::usage("name the task: longhaul cancel [SERVER] ID"));
        }
        let named = choose(&args.server, &args.words, args.id.as_deref(), "cancel").await?;
        let connection = named.server.connection(|_| {})?;
        named.resume(&connection).await;
        let exit = cancel(&connection.task(&named.id), args.json).await;
        if !named.keeps_session() {
            connection.close().await;
        }
        exit
    };
    match cancelled.await {
        Ok(exit) => exit,
        Err(failure) => Failure::report(failure, args.json),
    }
    .into()
}

async fn cancel(task: &TaskHandle, json: bool) -> Result<Exit, Failure> {
    let shown = task.cancel().await?;
    if json {
        output::json_line(
            &shown
                .as_ref()
                .map_or_else(|| json!({"taskId": task.id(), "cancelRequested": true}), as_json),
        );
    } else {
        // Modern servers only acknowledge: the tool may still finish first.
        output::note(match shown {
            Some(_) => "the task is cancelled",
            None => "the server was asked to cancel the task",
        });
    }
    Ok(Exit::Answered)
}

async fn log(task: &TaskHandle, json: bool) -> Result<Exit, Failure> {
    let log = task.log().await?;
    let log = String::from_utf8_lossy(&log);
    if json {
        output::json_line(&json!({"taskId": task.id(), "log": log}));
    } else {
        output::text(&log);
    }
    Ok(Exit::Answered)
}

async fn history(task: &TaskHandle, json: bool) -> Result<Exit, Failure> {
    let entries = task.history().await?;
    if json {
        output::json_line(&json!({"taskId": task.id(), "entries": entries}));
    } else {
        let lines: String = entries.iter().map(format_entry).collect();
        output::text(&lines);
    }
    Ok(Exit::Answered)
}

/// Formats an entry as lines: the entry and its state, then the reason and its failed tries.
fn format_entry(entry: &HistoryEntry) -> String {
    let state = match (&entry.until, entry.task.as_ref().or(entry.by.as_ref())) {
        (Some(until), _) => format!("{} until {until}", entry.state),
        (None, Some(other)) => format!("{} ({})", entry.state, output::plain(other, "")),
        (None, None) => entry.state.clone(),
    };
    let took = entry.took_ms.filter(|_| entry.until.is_none());
    let took = took.map(|took| format!(" in {}", longhaul_core::format_duration(took)));
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
        lines.push_str(&format!("       {}\n", output::plain(why, "")));
    }
    lines
}

async fn show(named: &Named, task: &TaskHandle, json: bool) -> Result<Exit, Failure> {
    let snapshot = task.get().await?;
    named.note(&snapshot).await;
    if json {
        output::json_line(&as_json(&snapshot));
    } else {
        output::text(&describe(&snapshot));
        for question in &snapshot.input_requests {
            output::note(&how_to_answer(&named.server, task.id(), question));
        }
    }
    Ok(Exit::Answered)
}

fn describe(task: &TaskSnapshot) -> String {
    let lines = [
        ("task", Some(task.id.clone())),
        ("status", Some(task.status.as_str().to_owned())),
        ("message", task.message.clone()),
        ("ended", task.outcome.as_ref().and_then(describe_outcome)),
        ("created", task.created_at.clone()),
        ("changed", task.last_updated_at.clone()),
        // In whole seconds: an extended time to live has odd milliseconds.
        (
            "kept for",
            task.ttl.map(|ttl| longhaul_core::format_duration(ttl - ttl % 1000)),
        ),
    ];
    let lines = lines
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{:<9} {}\n", name, output::plain(&value?, ""))));
    lines.chain(snapshot_questions(task)).collect()
}

/// The questions, each with its fields.
fn snapshot_questions(task: &TaskSnapshot) -> impl Iterator<Item = String> {
    task.input_requests.iter().map(|request| {
        let key = request.key.as_deref().unwrap_or_default();
        let mut lines = format!(
            "asks      {} [{}]\n",
            output::plain(request.message(), ""),
            output::plain(key, "")
        );
        if let Some(url) = request.url() {
            lines.push_str(&format!("          open {}\n", output::plain(url, "")));
        }
        let fields = request.schema().and_then(|schema| schema["properties"].as_object());
        for (name, field) in fields.into_iter().flatten() {
            let kind = field["type"].as_str().unwrap_or("any");
            let about = field["description"]
                .as_str()
                .or(field["title"].as_str())
                .unwrap_or_default();
            lines.push_str(&format!(
                "          {}  {kind}  {}\n",
                output::plain(name, ""),
                output::plain(about, "")
            ));
        }
        lines
    })
}

/// Describes the outcome where the status does not.
fn describe_outcome(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Result { is_error: true, .. } => Some("with an error of the tool; --wait prints it".to_owned()),
        Outcome::Result { .. } => Some("with a result; --wait prints it".to_owned()),
        Outcome::RpcError(failure) => Some(format!("{} (error {})", failure.message, failure.code)),
        Outcome::Cancelled => None,
    }
}

/// The task with the member names of the modern generation.
fn as_json(task: &TaskSnapshot) -> Value {
    let mut shown = json!({"taskId": task.id, "status": task.status.as_str(), "ttlMs": task.ttl});
    let optional = [
        ("statusMessage", task.message.clone().map(Value::from)),
        ("createdAt", task.created_at.clone().map(Value::from)),
        ("lastUpdatedAt", task.last_updated_at.clone().map(Value::from)),
        ("pollIntervalMs", task.poll_interval.map(Value::from)),
        ("inputRequests", questions_of(task)),
        ("result", result_of(task)),
        ("error", error_of(task)),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            shown[name] = value;
        }
    }
    shown
}

fn questions_of(task: &TaskSnapshot) -> Option<Value> {
    let asked = task.input_requests.iter();
    let asked: serde_json::Map<String, Value> = asked
        .filter_map(|request| {
            let shown = json!({"method": request.method, "params": request.params});
            Some((request.key.clone()?, shown))
        })
        .collect();
    (!asked.is_empty()).then(|| asked.into())
}

fn result_of(task: &TaskSnapshot) -> Option<Value> {
    match &task.outcome {
        Some(Outcome::Result { json, .. }) => Some(result::value_or_text(json)),
        _ => None,
    }
}

fn error_of(task: &TaskSnapshot) -> Option<Value> {
    match &task.outcome {
        Some(Outcome::RpcError(failure)) => Some(result::rpc_error(failure)),
        _ => None,
    }
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
            {"place": 1, "what": "attempt 1", "at": "2026-11-20T09:00:08.000Z", "state": "failed", "tookMs": 7, "why": "exit code 3", "exit": {"code": 3}},
            {"place": 4, "what": "failure", "at": "2026-11-20T09:00:04.000Z", "state": "failed", "by": "panic", "why": "it ended"},
            {"place": 5, "what": "failure 2", "at": "2026-11-20T09:00:05.000Z", "state": "failed", "why": "it ended"},
        ]);
        let entries: Vec<HistoryEntry> = serde_json::from_value(entries).unwrap();
        let lines: String = entries.iter().map(format_entry).collect();
        let expected = "    1  2026-11-20T09:00:00.000Z  step \"build\"  done
       2026-11-20T09:00:01.000Z  try 22 failed: no  answer
    2  2026-11-20T09:00:02.000Z  child \"smoke\"  waiting (t-1)
    3  2026-11-20T09:00:03.000Z  timer  waiting until 2026-11-23T09:00:03.000Z
    6  2026-11-20T09:00:06.000Z  step \"deploy\"  done in 1m1s500ms
    7  2026-11-20T09:00:07.000Z  input \"go\"  done
       asks: Go on?
    1  2026-11-20T09:00:08.000Z  attempt 1  failed in 7ms
       exit code 3
    4  2026-11-20T09:00:04.000Z  failure  failed (panic)
       it ended
    5  2026-11-20T09:00:05.000Z  failure 2  failed
       it ended
";
        assert_eq!(lines, expected);
    }
}

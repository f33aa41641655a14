//! What a call asks before it is a task, or as a plain call of a legacy server, from a second terminal while the first one asks it.

use crate::{
    peer::{Peer, plain},
    questions::{asking, silent_at_calls},
    support::*,
};
use axum::{body::Body, http::Response};
use futures_util::stream;
use longhaul::{Server, TaskContext, TaskPolicy, Tool, ToolResult};
use longhaul_client::{CallError, CallOptions, Client, Connection, EraChoice, Inputs, Options, Outcome};
use longhaul_ledger::ClientJournal;
use serde_json::{Map, Value, json};
use std::{
    convert::Infallible,
    io::{BufRead, Read},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::Receiver,
    },
};
use tokio::{runtime::Runtime, task::JoinHandle};

/// A process that makes a call, and whose user looks at the question and says nothing there.
struct First {
    runtime: Runtime,
    calling: JoinHandle<Result<Outcome, CallError>>,
}

impl First {
    fn calls(served: &Served, era: EraChoice) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let journal = served.home.path().join("longhaul/.client/handles.db");
        let url = served.url.clone();
        let calling = runtime.spawn(async move {
            let mut options = Options::named("first", "1");
            options.era = era;
            options.inputs = Some(Inputs::new().elicit(|_| std::future::pending()).into());
            let connection = Connection::open(&url, options).await.unwrap();
            let journal = ClientJournal::open(&journal).await.unwrap();
            let tool = connection.tool("early").await.unwrap().unwrap();
            let client = Client::recorded_as(connection, journal, url, None);
            let mut call = client.prepare(&tool, &Map::new(), CallOptions::default()).await?;
            match call.send(&mut |_| {}).await? {
                longhaul_client::CallResponse::Done(outcome) => {
                    call.finish(&outcome).await?;
                    Ok(outcome)
                }
                task => panic!("{task:?}"),
            }
        });
        Self { runtime, calling }
    }

    /// Waits until the journal shows that the call asks, and returns the call.
    fn asks(&self, served: &Served) -> Value {
        loop {
            let shown = exit(&served.run(&["tasks", "--json", "--offline"]), 0);
            let shown: Value = serde_json::from_str(&shown).unwrap_or_default();
            if shown["calls"][0]["asks"] == true {
                return shown["calls"][0].clone();
            }
            assert!(!self.calling.is_finished(), "the call has ended");
        }
    }

    fn ends(self) -> Result<Outcome, CallError> {
        self.runtime.block_on(self.calling).unwrap()
    }
}

fn in_both_eras(test: impl Fn(EraChoice)) {
    for era in [EraChoice::Modern, EraChoice::Legacy] {
        test(era);
    }
}

#[test]
fn it_is_shown_and_answered() {
    in_both_eras(|era| {
        let served = asking();
        let first = First::calls(&served, era);
        let listed = first.asks(&served);
        assert_eq!(listed["state"], "asking");
        let call = listed["call"].as_str().unwrap();
        let line = exit(&served.run(&["tasks", "--offline"]), 0);
        assert!(line.starts_with(&format!("{call}  early  asking  ")), "{line}");
        let shown = served.run(&["task", call]);
        let said = stderr(&shown);
        let lines = exit(&shown, 0);
        lines
            .has("asks      Start? [")
            .has("approved=boolean  Whether to ship it.");
        assert!(
            said.contains(&format!("answer {call}")) || said.contains(&format!(" {call} --question ")),
            "{said}"
        );
        let shown: Value = serde_json::from_str(&exit(&served.run(&["task", call, "--json"]), 0)).unwrap();
        let asked = shown["inputRequests"].as_object().unwrap();
        assert_eq!((shown["call"].as_str(), asked.len()), (Some(call), 1));
        served.run(&["task", call, "--wait"]).ends(2).says("is no task");
        served.run(&["answer", call]).ends(2).says("approved=boolean");
        // It is the only one that asks.
        served.run(&["answer", "approved=true"]).ends(0).says("sends it");
        let Outcome::Result { json, .. } = first.ends().unwrap() else {
            panic!("no result")
        };
        assert!(json.as_str().contains("approved: true"), "{json:?}");
        let late = served.run(&["answer", call, "approved=true"]);
        late.ends(5).says("asks nothing now");
    });
}

#[test]
fn it_is_cancelled() {
    in_both_eras(|era| {
        let served = asking();
        let first = First::calls(&served, era);
        let call = first.asks(&served)["call"].as_str().unwrap().to_owned();
        let cancelled = served.run(&["cancel", &call]);
        cancelled.ends(0).says(&format!("{call} is cancelled"));
        let error = first.ends().unwrap_err();
        assert!(error.to_string().contains("another program has cancelled"), "{error}");
        let shown = exit(&served.run(&["task", &call]), 0);
        assert!(shown.contains("status    cancelled"), "{shown}");
        let again = served.run(&["cancel", &call]);
        again.ends(5).says("has ended (cancelled); nothing was cancelled");
    });
}

/// A server whose tool `run` says that it has begun, and that it was cancelled.
fn runs_until_cancelled() -> (Served, Receiver<()>, Receiver<()>) {
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (ended, has_ended) = std::sync::mpsc::channel();
    let run = Tool::new("run", move |cx: TaskContext| {
        let (begun, ended) = (begun.clone(), ended.clone());
        async move {
            begun.send(())?;
            let cancelled = cx.cancelled().await;
            ended.send(())?;
            ToolResult::<String>::Err(cancelled.into())
        }
    });
    let served = Served::new(Server::new("plain", "1").tool(run.task(TaskPolicy::Never)));
    (served, has_begun, has_ended)
}

/// Our server goes on with a call that has an idempotency key when its caller leaves. One that is cancelled ends.
#[test]
fn a_plain_call_that_runs_is_ended() {
    let (served, has_begun, has_ended) = runs_until_cancelled();
    for era in ["--era=legacy", "--era=modern"] {
        let mut calling = served.command(&["call", "run", era]);
        let calling = calling.spawn().unwrap();
        has_begun.recv().unwrap();
        let listed = json(&served.run(&["tasks", "--json", "--offline"]));
        let call = listed["calls"][0]["call"].as_str().unwrap();
        let cancelled = served.run(&["cancel", call]);
        exit(&cancelled, 0);
        assert!(
            stderr(&cancelled).contains(&format!("{call} is cancelled")),
            "{era}: {cancelled:?}"
        );
        has_ended.recv().unwrap();
        let ended = calling.wait_with_output().unwrap();
        exit(&ended, 4);
        assert!(!stderr(&ended).contains("may go on"), "{era}: {ended:?}");
    }
}

/// Nothing else would end it: it goes on under its key.
#[test]
fn a_call_whose_command_has_ended_is_cancelled_at_its_server() {
    let (served, has_begun, has_ended) = runs_until_cancelled();
    for era in ["--era=legacy", "--era=modern"] {
        for (how, state) in [("KILL", "interrupted"), ("INT", "outcome unknown")] {
            let mut calling = served.command(&["call", "run", era]).spawn().unwrap();
            has_begun.recv().unwrap();
            signal(&calling, how);
            calling.wait().unwrap();
            let listed = json(&served.run(&["tasks", "--json", "--offline"]));
            assert_eq!(listed["calls"][0]["state"], state, "{listed}");
            let open = json(&served.run(&["tasks", "--json", "--offline", "--open"]));
            assert_eq!(open["calls"][0].is_object(), how == "KILL", "{open}");
            let call = listed["calls"][0]["call"].as_str().unwrap();
            let cancelled = json(&served.run(&["cancel", call, "--json"]));
            assert_eq!(cancelled["cancelled"], true, "{era}: {cancelled}");
            has_ended.recv().unwrap();
            assert!(exit(&served.run(&["task", call]), 0).contains("cancelled"));
            exit(&served.run(&["cancel", call]), 5);
        }
    }
}

/// Giving it up would make the same call a new one, which runs beside it.
#[test]
fn an_interrupted_call_is_not_given_up_because_its_server_does_not_answer() {
    let peer = Peer::start(|seen| match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "extensions": {"dev.longhaul/idempotency": {"cancel": true}}},
        })),
        "tools/list" => seen.result(json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]})),
        "dev.longhaul/calls/cancel" => plain(503, "away"),
        _ => {
            let body = Body::from_stream(stream::pending::<Result<String, Infallible>>());
            let response = Response::builder().header("content-type", "application/json");
            response.body(body).unwrap()
        }
    });
    let home = tempfile::tempdir().unwrap();
    let mut calling = longhaul(&["call", &peer.url(), "t"], &home).spawn().unwrap();
    while peer.calls_of("tools/call").is_empty() {
        assert_eq!(calling.try_wait().unwrap(), None, "the call has ended");
    }
    calling.kill().unwrap();
    calling.wait().unwrap();
    let shown = json(&longhaul(&["tasks", "--json", "--offline"], &home).output().unwrap());
    let call = shown["calls"][0]["call"].as_str().unwrap();
    let cancelled = longhaul(&["cancel", call], &home).output().unwrap();
    cancelled.ends(3).says("is recorded as before");
    let shown = exit(&longhaul(&["task", call], &home).output().unwrap(), 0);
    assert!(shown.contains("interrupted"), "{shown}");
}

/// Whoever trusts that it has not run would do the work twice.
#[test]
fn a_call_that_would_continue_an_interrupted_one_may_have_run() {
    let is_closed = Arc::new(AtomicBool::new(false));
    let closed = Arc::clone(&is_closed);
    let mut peer = Peer::start(move |seen| match seen.method() {
        "tools/call" if closed.load(Ordering::Relaxed) => plain(401, ""),
        "server/discover" => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "extensions": {"dev.longhaul/idempotency": {}}},
        })),
        "tools/list" => seen.result(json!({"tools": [
            {"name": "t", "inputSchema": {"type": "object"}}, {"name": "other", "inputSchema": {"type": "object"}},
        ]})),
        _ => {
            let body = Body::from_stream(stream::pending::<Result<String, Infallible>>());
            let response = Response::builder().header("content-type", "application/json");
            response.body(body).unwrap()
        }
    });
    let home = tempfile::tempdir().unwrap();
    let url = peer.url();
    let mut calling = longhaul(&["call", &url, "t", "--idempotency-key=k"], &home)
        .spawn()
        .unwrap();
    while peer.calls_of("tools/call").is_empty() {
        assert_eq!(calling.try_wait().unwrap(), None, "the call has ended");
    }
    calling.kill().unwrap();
    calling.wait().unwrap();
    let file = home.path().join("calls.jsonl");
    std::fs::write(&file, "{}\n").unwrap();
    let batch = format!("--batch={}", file.display());
    let fails = |words: &[&str], kind: &str, may_have_run: bool| {
        let words = [&["call", &url, "--json"], words].concat();
        let failed = longhaul(&words, &home).output().unwrap();
        let error = &json(&failed)["error"];
        assert_eq!(
            (&error["kind"], &error["mayHaveRun"]),
            (&Value::from(kind), &Value::from(may_have_run)),
            "{words:?}: {failed:?}"
        );
    };
    // It is refused before the server has looked for its key, and stays what it was.
    is_closed.store(true, Ordering::Relaxed);
    fails(&["t"], "login_required", true);
    let listed = json(&longhaul(&["tasks", "--json", "--offline"], &home).output().unwrap());
    assert_eq!(listed["calls"][0]["state"], "interrupted", "{listed}");
    fails(&["other"], "login_required", false);
    peer.kill();
    fails(&["t"], "unreachable", true);
    fails(&["t", "--idempotency-key=k"], "unreachable", true);
    fails(&["t", "--idempotency-key=new"], "unreachable", false);
    fails(&["other"], "unreachable", false);
    let batches = longhaul(&["call", &url, "t", &batch], &home).output().unwrap();
    assert!(stderr(&batches).contains("cannot be reached"), "{batches:?}");
}

/// Nobody may be there to read the key, as at a shutdown.
#[test]
fn the_same_call_continues_one_whose_command_was_terminated() {
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (finish, may_finish) = tokio::sync::watch::channel(false);
    let run = Tool::new("run", move |_: TaskContext| {
        let (begun, mut may_finish) = (begun.clone(), may_finish.clone());
        async move {
            begun.send(())?;
            may_finish.wait_for(|may| *may).await?;
            ToolResult::<&str>::Ok("done")
        }
    });
    let served = Served::new(Server::new("plain", "1").tool(run.task(TaskPolicy::Never)));
    for era in ["--era=modern", "--era=legacy"] {
        finish.send_replace(false);
        let mut calling = served.command(&["call", "run", era]);
        let calling = calling.spawn().unwrap();
        has_begun.recv().unwrap();
        signal(&calling, "TERM");
        let ended = calling.wait_with_output().unwrap();
        ended.ends(143).says("the same call again continues it");
        finish.send_replace(true);
        let again = served.run(&["call", "run", era]);
        assert_eq!(exit(&again, 0), "done");
        assert!(has_begun.try_recv().is_err(), "it ran twice");
    }
}

/// The command that makes the call ends at once, with the status of what was cancelled.
#[test]
fn the_command_that_makes_it_says_that_it_is_cancelled() {
    let silent = silent_at_calls();
    let url = silent.url();
    let served = asking();
    let mut calling = longhaul(&["call", &url, "optional", "--json"], &served.home);
    calling
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let calling = calling.spawn().unwrap();
    let call = loop {
        let shown = longhaul(&["tasks", "--json", "--offline"], &served.home)
            .output()
            .unwrap();
        let shown = exit(&shown, 0);
        let shown: Value = serde_json::from_str(&shown).unwrap_or_default();
        if let Some(call) = shown["calls"][0]["call"].as_str() {
            break call.to_owned();
        }
    };
    exit(&served.run(&["cancel", &call]), 0);
    let ended = calling.wait_with_output().unwrap();
    let shown: Value = serde_json::from_str(&exit(&ended, 4)).unwrap();
    shown.has_members(json!({"cancelled": true, "mayHaveRun": true}));
    let message = shown["message"].as_str().unwrap();
    assert!(message.contains("another command has cancelled the call"), "{message}");
    ended.says("another command has cancelled the call");
}

/// The caller dies before it can cancel the call. By its key it is cancelled all the same.
#[test]
fn a_call_whose_caller_dies_while_it_is_cancelled() {
    for has_key in [true, false] {
        let (begun, has_begun) = std::sync::mpsc::channel();
        let run = Tool::new("run", move |_: TaskContext| {
            let begun = begun.clone();
            async move {
                begun.send(())?;
                std::future::pending::<ToolResult<String>>().await
            }
        });
        let served = match has_key {
            true => Served::new(Server::new("plain", "1").tool(run.task(TaskPolicy::Never))),
            false => asking(),
        };
        let silent = silent_at_calls();
        let (url, tool) = match has_key {
            true => (served.url.clone(), "run"),
            false => (silent.url(), "optional"),
        };
        let mut calling = longhaul(&["call", &url, tool], &served.home).spawn().unwrap();
        let call = loop {
            let listed = longhaul(&["tasks", "--json", "--offline"], &served.home).output();
            let shown = json(&listed.unwrap());
            if let Some(call) = shown["calls"][0]["call"].as_str() {
                break call.to_owned();
            }
        };
        if has_key {
            has_begun.recv().unwrap();
        }
        signal(&calling, "STOP");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let cancelling = runtime.block_on(async {
            let path = served.home.path().join("longhaul/.client/handles.db");
            let journal = ClientJournal::open(&path).await.unwrap();
            let mut watch = journal.watch();
            let cancelling = served.command(&["cancel", &call]).spawn().unwrap();
            // The request to cancel it.
            watch.changed_or_ended().await;
            cancelling
        });
        calling.kill().unwrap();
        calling.wait().unwrap();
        let cancelled = cancelling.wait_with_output().unwrap();
        exit(&cancelled, 0);
        let said = stderr(&cancelled);
        assert_eq!(said.contains("was given up"), !has_key, "{said}");
        assert_eq!(said.contains("is cancelled"), has_key, "{said}");
        let shown = exit(&served.run(&["task", &call]), 0);
        assert_eq!(shown.contains("outcome unknown"), !has_key, "{shown}");
    }
}

#[test]
fn ctrl_c_before_the_call_is_sent_says_that_nothing_was_called() {
    let home = tempfile::tempdir().unwrap();
    // It takes connections, and reads nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap());
    let mut calling = longhaul(&["call", &url, "t", "--json"], &home).spawn().unwrap();
    let mut said = std::io::BufReader::new(calling.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("waiting for"), "{line}");
    signal(&calling, "INT");
    let mut last = String::new();
    said.read_to_string(&mut last).unwrap();
    assert!(last.contains("nothing was called"), "{last}");
    let ended = calling.wait_with_output().unwrap();
    exit(&ended, 130);
    let error = &json(&ended)["error"];
    error.has_members(json!({"kind": "interrupted", "mayHaveRun": false}));
}

#[test]
fn the_key_of_a_question_may_begin_with_a_hyphen() {
    let served = asking();
    let answered = served.run(&["answer", "no-such-task", "--question", "-k1", "--decline"]);
    answered.says_no("unexpected argument").says("no-such-task");
}

fn signal(process: &std::process::Child, name: &str) {
    let sent = std::process::Command::new("kill")
        .args([&format!("-{name}"), &process.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

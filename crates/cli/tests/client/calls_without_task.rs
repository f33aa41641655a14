//! What a call asks before it is a task, or as a plain call of a legacy server, from a second terminal while the first one asks it.

use crate::{
    peer::{Peer, ReceivedRequest, plain},
    questions::{asking, silence, silent_at_calls},
    support::*,
};
use axum::{body::Body, http::Response};
use longhaul::{Server, TaskContext, TaskPolicy, Tool, ToolResult};
use longhaul_client::{CallError, CallOptions, Client, Connection, EraChoice, Inputs, Options, Outcome};
use longhaul_ledger::ClientJournal;
use serde_json::{Map, Value, json};
use std::{
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
        let runtime = one_worker();
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
            let shown = served.done(&["tasks", "--json", "--offline"]);
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

fn one_worker() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
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
        let line = served.done(&["tasks", "--offline"]);
        assert!(line.starts_with(&format!("{call}  early  asking  ")), "{line}");
        let shown = served.run(&["task", call]);
        shown.ends(0).prints("asks      Start? [");
        shown.prints("approved=boolean  Whether to ship it.");
        let ways = [format!("answer {call}"), format!(" {call} --question ")];
        assert!(ways.iter().any(|way| stderr(&shown).contains(way)), "{shown:?}");
        let shown: Value = serde_json::from_str(&served.done(&["task", call, "--json"])).unwrap();
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
        let shown = served.done(&["task", &call]);
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
        let listed = served.shown(&["tasks", "--json", "--offline"]);
        let call = listed["calls"][0]["call"].as_str().unwrap();
        let cancelled = served.run(&["cancel", call]);
        cancelled.ends(0).says(&format!("{call} is cancelled"));
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
            let listed = served.shown(&["tasks", "--json", "--offline"]);
            assert_eq!(listed["calls"][0]["state"], state, "{listed}");
            let open = served.shown(&["tasks", "--json", "--offline", "--open"]);
            assert_eq!(open["calls"][0].is_object(), how == "KILL", "{open}");
            let call = listed["calls"][0]["call"].as_str().unwrap();
            let cancelled = served.shown(&["cancel", call, "--json"]);
            assert_eq!(cancelled["cancelled"], true, "{era}: {cancelled}");
            has_ended.recv().unwrap();
            assert!(served.done(&["task", call]).contains("cancelled"));
            exit(&served.run(&["cancel", call]), 5);
        }
    }
}

/// A server with these tools that knows idempotency keys, and answers no call.
fn silent_with_keys(seen: &ReceivedRequest, idempotency: Value, tools: &[&str]) -> Response<Body> {
    let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
    match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "extensions": {"dev.longhaul/idempotency": idempotency}},
        })),
        "tools/list" => seen.result(json!({"tools": tools.iter().map(tool).collect::<Vec<_>>()})),
        _ => silence(),
    }
}

/// Makes a call, and kills its command when it was sent.
fn call_and_kill(peer: &Peer, at: &At, words: &[&str]) {
    let mut calling = at.command(&[&["call"], words].concat()).spawn().unwrap();
    while peer.calls_of("tools/call").is_empty() {
        assert_eq!(calling.try_wait().unwrap(), None, "the call has ended");
    }
    calling.kill().unwrap();
    calling.wait().unwrap();
}

/// Giving it up would make the same call a new one, which runs beside it.
#[test]
fn an_interrupted_call_is_not_given_up_because_its_server_does_not_answer() {
    let peer = Peer::start(|seen| match seen.method() {
        "dev.longhaul/calls/cancel" => plain(503, "away"),
        _ => silent_with_keys(seen, json!({"cancel": true}), &["t"]),
    });
    let at = At::new(&peer.url());
    call_and_kill(&peer, &at, &["t"]);
    let listed = at.listed(&["--offline"]);
    let call = listed[0]["call"].as_str().unwrap();
    let run = |words: &[&str]| longhaul(words, &at.home).output().unwrap();
    run(&["cancel", call]).ends(3).says("is recorded as before");
    run(&["task", call]).ends(0).prints("interrupted");
}

/// Whoever trusts that it has not run would do the work twice.
#[test]
fn a_call_that_would_continue_an_interrupted_one_may_have_run() {
    let is_closed = Arc::new(AtomicBool::new(false));
    let closed = Arc::clone(&is_closed);
    let mut peer = Peer::start(move |seen| match seen.method() {
        "tools/call" if closed.load(Ordering::Relaxed) => plain(401, ""),
        _ => silent_with_keys(seen, json!({}), &["t", "other"]),
    });
    let at = At::new(&peer.url());
    call_and_kill(&peer, &at, &["t", "--idempotency-key=k"]);
    let batch = format!("--batch={}", at.batch_file("{}\n"));
    let fails = |words: &[&str], kind: &str, may_have_run: bool| {
        let failed = at.shown(&[&["call", "--json"], words].concat());
        let found = json!([failed["error"]["kind"], failed["error"]["mayHaveRun"]]);
        assert_eq!(found, json!([kind, may_have_run]), "{words:?}: {failed}");
    };
    // It is refused before the server has looked for its key, and stays what it was.
    is_closed.store(true, Ordering::Relaxed);
    fails(&["t"], "login_required", true);
    assert_eq!(at.listed(&["--offline"])[0]["state"], "interrupted");
    fails(&["other"], "login_required", false);
    peer.kill();
    fails(&["t"], "unreachable", true);
    fails(&["t", "--idempotency-key=k"], "unreachable", true);
    fails(&["t", "--idempotency-key=new"], "unreachable", false);
    fails(&["other"], "unreachable", false);
    at.run(&["call", "t", &batch]).says("cannot be reached");
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
    let calling = longhaul(&["call", &url, "optional", "--json"], &served.home)
        .spawn()
        .unwrap();
    let call = first_recorded(&served);
    served.done(&["cancel", &call]);
    let ended = calling.wait_with_output().unwrap();
    let shown: Value = serde_json::from_str(&exit(&ended, 4)).unwrap();
    shown.has_members(json!({"cancelled": true, "mayHaveRun": true}));
    let said = "another command has cancelled the call";
    shown["message"].as_str().unwrap().has(said);
    ended.says(said);
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
        let call = first_recorded(&served);
        if has_key {
            has_begun.recv().unwrap();
        }
        signal(&calling, "STOP");
        let runtime = one_worker();
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
        let shown = served.done(&["task", &call]);
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

/// Waits until a call is recorded.
fn first_recorded(served: &Served) -> String {
    loop {
        let shown = longhaul(&["tasks", "--json", "--offline"], &served.home).output();
        let shown: Value = serde_json::from_str(&exit(&shown.unwrap(), 0)).unwrap_or_default();
        if let Some(call) = shown["calls"][0]["call"].as_str() {
            return call.to_owned();
        }
    }
}

fn signal(process: &std::process::Child, name: &str) {
    let sent = std::process::Command::new("kill")
        .args([&format!("-{name}"), &process.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

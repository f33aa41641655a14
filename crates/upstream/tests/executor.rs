//! Commands behind the runtime: results, restarts of the server, stops, retries, logs.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, missing_docs)]

mod fixtures;

use fixtures::{alive, kill, launcher, pids, until, until_exists};
use longhaul_core::{
    AttemptState, BoxFuture, CancelMode, Event, HostId, Json, Millis, Origin, Outcome, Owner, Principal, Retry,
    RetryOn, Scope, Store, StoreLayer, Task, TaskId, TaskPolicy, UnixMillis,
    store::{ApplyError, Change, Record, StoreError},
};
use longhaul_runtime::{
    AttemptExit, Call, Catalog, Engine, EngineOptions, LogRange, Ports, Provider, Tool, ToolSettings,
};
use longhaul_store::MemoryStore;
use longhaul_upstream::command::{
    Attempts, CommandDefinition, CommandProvider, DEFINITION_VERSION, KIND, Launcher, OutputKind,
};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// A server's store and folder, over which engines come and go.
struct Server {
    files: tempfile::TempDir,
    attempts: Attempts,
    store: Arc<dyn Store>,
    definition: CommandDefinition,
    retry: Retry,
    deadline: Option<Millis>,
    kill_grace: Millis,
}

impl Server {
    fn running(script: &str) -> Self {
        let files = tempfile::tempdir().unwrap();
        let script = &script.replace('{', "{{").replace('}', "}}");
        let definition = CommandDefinition {
            version: DEFINITION_VERSION,
            command: ["sh", "-c", script, "sh", "{word}"].map(str::to_owned).to_vec(),
            env: Default::default(),
            cwd: files.path().canonicalize().unwrap(),
            stdin: String::new(),
            allow_leading_dash: Default::default(),
            allow_placeholders_in_scripts: false,
            optional: ["word".to_owned()].into(),
            output: OutputKind::Text,
            output_schema: None,
            progress: None,
            max_output: 1000,
            max_log: 100_000,
        };
        let attempts = Attempts::open(files.path().join("attempts")).unwrap();
        let store = Arc::new(MemoryStore::new());
        Self {
            files,
            attempts,
            store,
            definition,
            retry: Retry::default(),
            deadline: None,
            kill_grace: 200,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    async fn start(&self) -> Engine {
        self.start_with(launcher()).await
    }

    async fn start_with(&self, launcher: Launcher) -> Engine {
        let ports = Ports::system();
        let provider = CommandProvider::new(self.attempts.clone(), launcher, ports.clone());
        let provider = provider.with_kill_grace(self.kill_grace);
        let executor = provider.executor(self.definition.clone(), None).unwrap();
        let tool = Tool::new(ToolSettings {
            policy: TaskPolicy::Always,
            deadline: self.deadline,
            retry: self.retry.clone(),
            ..ToolSettings::new("tool", KIND, executor.definition(), executor)
        });
        let options = EngineOptions {
            store: Arc::clone(&self.store),
            ports,
            host: HostId("here".into()),
            catalog: Catalog::new([tool.unwrap()]).unwrap(),
            providers: vec![Arc::new(provider)],
            max_running: None,
            quota: longhaul_core::Quota::default(),
            suspend_after: longhaul_runtime::SUSPEND_AFTER,
            build: longhaul_runtime::BuildId::named("test"),
            step_observer: None,
        };
        Engine::start(options).await.unwrap().0
    }

    async fn run(&self, arguments: Value) -> Outcome {
        let engine = self.start().await;
        let task = create(&engine, arguments).await;
        outcome(&engine, &task.id).await
    }

    /// The only supervisor there is.
    fn supervisor(&self, task: &TaskId) -> i32 {
        until("the supervisor runs", || {
            std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
                let pid = entry.file_name().to_str()?.parse().ok()?;
                let line = std::fs::read(entry.path().join("cmdline")).ok()?;
                let line = String::from_utf8_lossy(&line).into_owned();
                (line.starts_with("longhaul-supervisor") && line.contains(task.as_str())).then_some(pid)
            })
        })
    }
}

fn scope() -> Scope {
    Scope::of(Principal::local())
}

async fn create(engine: &Engine, arguments: Value) -> Task {
    let call = Call {
        tool: engine.catalog().tool("tool").unwrap(),
        arguments: Json::from(arguments),
        owner: Owner {
            principal: Principal::local(),
            session: None,
        },
        origin: Origin::Modern,
        requestor: longhaul_runtime::Requestor::default(),
        idempotency_key: None,
        ttl: None,
        cancel_if_caller_leaves: false,
    };
    engine.create(call).await.unwrap()
}

/// Waits until a task is as it should be.
async fn becomes(engine: &Engine, id: &TaskId, good: impl Fn(&Record) -> bool) -> Record {
    let mut watch = engine.watch(id);
    loop {
        let record = engine.get(&scope(), id).await.unwrap().unwrap();
        if good(&record) {
            return record;
        }
        watch.changed().await;
    }
}

async fn outcome(engine: &Engine, id: &TaskId) -> Outcome {
    let over = |record: &Record| record.task.is_done() && record.task.active_attempt().is_none();
    becomes(engine, id, over).await.outcome.unwrap()
}

fn result(outcome: &Outcome) -> (Value, bool) {
    match outcome {
        Outcome::Result { json, is_error } => {
            let value: Value = serde_json::from_str(json.as_str()).unwrap();
            assert_eq!(value["isError"], *is_error);
            (value, *is_error)
        }
        other => panic!("{other:?}"),
    }
}

fn text(outcome: &Outcome) -> (String, bool) {
    let (value, is_error) = result(outcome);
    (value["content"][0]["text"].as_str().unwrap().to_owned(), is_error)
}

fn reason(outcome: &Outcome) -> (i32, String, Value) {
    match outcome {
        Outcome::RpcError(failure) => {
            let data: Value = serde_json::from_str(failure.data.as_ref().unwrap().as_str()).unwrap();
            (failure.code, failure.message.to_string(), data["reason"].clone())
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_0_gives_the_standard_output() {
    let server = Server::running("printf '%s!' \"$1\"; echo noise >&2");
    assert_eq!(
        text(&server.run(json!({"word": "a; b"})).await),
        ("a; b!".to_owned(), false)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_shows_the_end_of_both_outputs_in_order_and_how_it_ended() {
    let server = Server::running(
        "wait_for() { until [ -e $1 ]; do sleep 0.01; done; }
        echo FAIL test_sum; wait_for a; echo 1 failed >&2; wait_for b; echo see above; exit 3",
    );
    let engine = server.start().await;
    let task = create(&engine, json!({})).await;
    // What is there at once has no order.
    for (line, then) in [("FAIL test_sum\n", "a"), ("1 failed\n", "b")] {
        let dir = server.attempts.dir(&task.id, 1);
        until("the line is read", || {
            let log = longhaul_upstream::command::read_log(&dir, LogRange::default()).ok()?;
            log.text.ends_with(line).then_some(())
        });
        std::fs::write(server.file(then), "").unwrap();
    }
    let (value, is_error) = result(&outcome(&engine, &task.id).await);
    let expected = "sh exited with code 3\n\nFAIL test_sum\n1 failed\nsee above";
    assert_eq!((&value["content"][0]["text"], is_error), (&json!(expected), true));
    assert_eq!(value["_meta"], json!({"dev.longhaul/exit": {"code": 3}}));

    let server = Server::running("echo only this; kill -9 $$");
    let (value, is_error) = result(&server.run(json!({})).await);
    let expected = "sh was killed by signal 9 (KILL)\n\nonly this";
    assert_eq!((&value["content"][0]["text"], is_error), (&json!(expected), true));
    assert_eq!(value["_meta"], json!({"dev.longhaul/exit": {"signal": "KILL"}}));

    let mut server = Server::running("");
    server.definition.command = vec!["no-such-program".to_owned()];
    let (text, is_error) = text(&server.run(json!({})).await);
    assert!(
        is_error && text.starts_with("no-such-program could not be started: No such file"),
        "{text}"
    );
}

/// What one output says much of pushes nothing of the other out, and what is not shown can be found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_failure_shows_the_end_of_each_output_and_names_the_log() {
    let server = Server::running(
        "echo error: the cause >&2; i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo line $i; done; exit 1",
    );
    let engine = server.start().await;
    let task = create(&engine, json!({})).await;
    let (value, _) = result(&outcome(&engine, &task.id).await);
    let text = value["content"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("error: the cause\n") && text.contains("line 2000"),
        "{text}"
    );
    let log = format!("longhaul://task/{}/log", task.id.as_str());
    assert!(
        text.contains(&format!("{log} (longhaul task URL {} --log)]", task.id.as_str())),
        "{text}"
    );
    let incomplete = &value["_meta"]["dev.longhaul/incomplete"];
    assert_eq!(incomplete["log"], json!(log));
    let whole = engine
        .read_log(&task, LogRange::default())
        .await
        .unwrap()
        .unwrap()
        .total;
    let shown = text.split_once("]\n").unwrap().1.len() as u64 + 1;
    assert_eq!(incomplete["droppedBytes"], json!(whole - shown));
}

/// A daemon that still has the output open may write more: the result says so to people, and to programs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_output_that_was_left_open_is_marked() {
    let mark = "[longhaul: a process that the command left running still has this output open";
    let cases = [
        (
            "sleep 1000 2>/dev/null & echo $! >> pids; echo up",
            false,
            "up\n[longhaul",
            json!(["stdout"]),
        ),
        (
            "sleep 1000 >/dev/null & echo $! >> pids; echo down >&2; exit 1",
            true,
            "down\n[longhaul",
            json!(["stderr"]),
        ),
    ];
    for (script, failed, expected, open) in cases {
        let server = Server::running(script);
        let (value, is_error) = result(&server.run(json!({})).await);
        let text = value["content"][0]["text"].as_str().unwrap();
        assert!(
            text.contains(mark) && text.contains(expected) && is_error == failed,
            "{text}"
        );
        assert_eq!(value["_meta"]["dev.longhaul/incomplete"]["leftOpen"], open);
        kill(pids(&server.file("pids"), 1)[0]);
    }
    let mut server = Server::running("sleep 1000 & echo $! >> pids; echo '{\"n\": 1}'");
    server.definition.output = OutputKind::Json;
    let (value, _) = result(&server.run(json!({})).await);
    assert_eq!(
        (&value["structuredContent"], &value["isError"]),
        (&json!({"n": 1}), &json!(false))
    );
    assert_eq!(value["_meta"]["dev.longhaul/incomplete"]["leftOpen"], json!(["stdout"]));
    kill(pids(&server.file("pids"), 1)[0]);
}

/// The supervisor may write no file beyond 16 KiB, as on a full disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_output_that_could_not_be_kept_is_marked() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let mut server = Server::running("until [ -e go ]; do sleep 0.01; done; head -c 90000 /dev/zero | tr '\\0' x");
    server.definition.max_output = 100_000;
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id;
    let limit = Rlimit {
        current: Some(16 * 1024),
        maximum: Some(16 * 1024),
    };
    prlimit(Pid::from_raw(server.supervisor(&id)), Resource::Fsize, limit).unwrap();
    std::fs::write(server.file("go"), "").unwrap();
    let (result, is_error) = result(&outcome(&engine, &id).await);
    assert!(is_error);
    let text = result["content"][0]["text"].as_str().unwrap();
    let expected =
        "the command succeeded, but its output could not be kept: stdout could not be written: File too large";
    assert!(text.starts_with(expected), "{text}");
    let incomplete = &result["_meta"]["dev.longhaul/incomplete"];
    assert_eq!(incomplete["droppedBytes"], 90_000, "{result}");
    let log = format!("longhaul://task/{}/log", id.as_str());
    assert_eq!(incomplete["log"], log, "what of the log could be written can be read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_arguments_start_nothing() {
    let server = Server::running("touch ran");
    let (text, is_error) = text(&server.run(json!({"word": "-delete"})).await);
    assert!(is_error && text.contains("`word` may not begin with `-`"), "{text}");
    assert!(!server.file("ran").exists());
    assert_eq!(server.attempts.bytes_held().unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_is_decoded_and_its_tail_kept() {
    let server = Server::running(r"printf '\303\050 caf\351 \360\237\230\200'");
    assert_eq!(
        text(&server.run(json!({})).await),
        ("\u{fffd}( caf\u{fffd} 😀".to_owned(), false)
    );
    let mut server = Server::running("i=0; while [ $i -lt 1000 ]; do i=$((i+1)); printf €; done");
    server.definition.max_output = 10;
    let engine = server.start().await;
    let task = create(&engine, json!({})).await;
    let id = task.id.as_str();
    let expected = format!(
        "[longhaul: the first {} bytes were dropped; the log has them: longhaul://task/{id}/log (longhaul task URL {id} --log)]\n€€€",
        3000 - 9
    );
    let (value, is_error) = result(&outcome(&engine, &task.id).await);
    assert_eq!((&value["content"][0]["text"], is_error), (&json!(expected), false));
    assert_eq!(
        value["_meta"]["dev.longhaul/incomplete"],
        json!({"droppedBytes": 2991, "log": format!("longhaul://task/{id}/log")})
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_output_is_structured_content() {
    let json_server = |script: &str| {
        let mut server = Server::running(script);
        server.definition.output = OutputKind::Json;
        server.definition.output_schema = Some(json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
        server
    };
    let (value, is_error) = result(
        &json_server(r#"echo ' {"n": 1.0e1, "other": [true]} '"#)
            .run(json!({}))
            .await,
    );
    assert_eq!(
        (&value["structuredContent"], is_error),
        (&json!({"n": 10.0, "other": [true]}), false),
        "{value}"
    );
    assert_eq!(value["content"][0]["text"], r#"{"n": 1.0e1, "other": [true]}"#);
    for (script, problem) in [
        (r#"echo '{"n": "x"}'"#, "output schema: at `/n`"),
        ("echo '{\"n\": '", "is not JSON"),
        ("true", "is not JSON"),
        (r"printf '\377'", "is not UTF-8"),
        (
            r#"printf '{"x": "'; head -c 2000 /dev/zero | tr '\0' x; printf '"}'"#,
            "has 2009 bytes",
        ),
    ] {
        let (text, is_error) = text(&json_server(script).run(json!({})).await);
        assert!(is_error && text.contains(problem), "{script}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_output_that_no_client_could_read_is_an_error() {
    let printed = async |output: &str| {
        let mut server = Server::running(&format!("printf %s '{output}'"));
        server.definition.output = OutputKind::Json;
        result(&server.run(json!({})).await)
    };
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let (value, is_error) = printed(&nested(97)).await;
    assert_eq!((value["structuredContent"].to_string(), is_error), (nested(97), false));
    for (output, problem) in [
        (nested(98).as_str(), "is JSON nested deeper than 97 levels"),
        (&nested(400), "is JSON nested deeper than 97 levels"),
        (
            r#"{"a":"x\udc00y"}"#,
            "cannot hold: lone leading surrogate in hex escape at line 1 column",
        ),
        (r#"{"a":1e999}"#, "cannot hold: number out of range at line 1 column 10"),
    ] {
        let (value, is_error) = printed(output).await;
        let text = value["content"][0]["text"].as_str().unwrap();
        assert!(is_error && text.contains(problem), "{text}");
        assert_eq!(value.get("structuredContent"), None, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_finds_the_command_running() {
    let server = Server::running("echo $$ >> pids; until [ -e go ]; do sleep 0.01; done; echo done");
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id;
    let command = pids(&server.file("pids"), 1)[0];
    engine.stop();
    drop(engine);
    let engine = server.start().await;
    assert!(alive(command));
    std::fs::write(server.file("go"), "").unwrap();
    assert_eq!(text(&outcome(&engine, &id).await), ("done\n".to_owned(), false));
    pids(&server.file("pids"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_finds_the_command_ended() {
    let server = Server::running("echo $$ >> pids; until [ -e go ]; do sleep 0.01; done; echo done");
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id;
    pids(&server.file("pids"), 1);
    engine.stop();
    std::fs::write(server.file("go"), "").unwrap();
    fixtures::ended(&server.attempts.dir(&id, 1));
    let engine = server.start().await;
    assert_eq!(text(&outcome(&engine, &id).await), ("done\n".to_owned(), false));
    pids(&server.file("pids"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_is_interrupted_or_retried() {
    let script = "echo $$ >> pids; [ \"$(wc -l < pids)\" -ge 2 ] && echo second && exit; exec sleep 1000";
    let server = Server::running(script);
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id;
    pids(&server.file("pids"), 1);
    kill(server.supervisor(&id));
    let (code, message, why) = reason(&outcome(&engine, &id).await);
    assert_eq!((code, why), (-32603, json!("interrupted")));
    // The server has not stopped.
    assert!(
        message.starts_with("interrupted: the supervisor of its command was killed"),
        "{message}"
    );

    let mut server = Server::running(script);
    server.retry = Retry {
        attempts: 2,
        backoff: 0,
        on: vec![RetryOn::Crash],
    };
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id;
    let first = pids(&server.file("pids"), 1)[0];
    kill(server.supervisor(&id));
    assert_eq!(text(&outcome(&engine, &id).await), ("second\n".to_owned(), false));
    assert!(!alive(first));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_retried_if_the_policy_says_so() {
    let mut server = Server::running("echo x >> tries; [ \"$(wc -l < tries)\" -ge 3 ]");
    server.retry = Retry {
        attempts: 3,
        backoff: 0,
        on: vec![RetryOn::Error],
    };
    assert_eq!(text(&server.run(json!({})).await), (String::new(), false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_was_never_started_costs_nothing() {
    let server = Server::running("echo $$ >> pids; echo ran");
    let no_supervisor = Launcher::program(Path::new("/bin/false")).unwrap();
    let engine = server.start_with(no_supervisor).await;
    let id = create(&engine, json!({})).await.id;
    let second = |record: &Record| record.task.attempt.as_ref().is_some_and(|attempt| attempt.epoch >= 2);
    becomes(&engine, &id, second).await;
    engine.stop();
    let engine = server.start().await;
    let end = outcome(&engine, &id).await;
    assert_eq!(text(&end), ("ran\n".to_owned(), false));
    let task = engine.get(&scope(), &id).await.unwrap().unwrap().task;
    assert_eq!(task.attempts_used, 1);
}

/// Invariant 12, whatever the retry policy says: the command may still run, and nobody can tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invariant_12_a_command_whose_folder_was_removed_is_not_run_again() {
    for down in [false, true] {
        let mut server = Server::running("echo $$ >> pids; echo on; until [ -e go ]; do sleep 0.01; done; echo done");
        server.retry = Retry {
            attempts: 3,
            backoff: 0,
            on: vec![RetryOn::Crash, RetryOn::Error],
        };
        let mut engine = server.start().await;
        let id = create(&engine, json!({})).await.id;
        let command = pids(&server.file("pids"), 1)[0];
        // The server hears this from the supervisor: it is connected, and waits for the end.
        becomes(&engine, &id, |record| record.task.status.is_some()).await;
        if down {
            engine.stop();
        }
        std::fs::remove_dir_all(server.attempts.dir(&id, 1).path().parent().unwrap()).unwrap();
        if down {
            engine = server.start().await;
        } else {
            std::fs::write(server.file("go"), "").unwrap();
        }
        let (code, message, why) = reason(&outcome(&engine, &id).await);
        assert_eq!((code, why), (-32603, json!("interrupted")), "{message}");
        assert!(message.contains("folder of this attempt was removed"), "{message}");
        assert_eq!(alive(command), down, "it runs on, alone");
        std::fs::write(server.file("go"), "").unwrap();
        fixtures::until_dead(command);
        pids(&server.file("pids"), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_command_whose_folder_was_removed_is_cancelled() {
    let server = Server::running("echo $$ >> pids; until [ -e go ]; do sleep 0.01; done");
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id;
    let command = pids(&server.file("pids"), 1)[0];
    engine.stop();
    std::fs::remove_dir_all(server.attempts.dir(&id, 1).path()).unwrap();
    let cancel = Event::CancelRequested(CancelMode::Cooperative);
    let cancelled = server
        .store
        .apply(Change::of(&id, cancel, UnixMillis(9)))
        .await
        .unwrap();
    assert_eq!(cancelled.attempt.unwrap().state, AttemptState::Stopping);
    let engine = server.start().await;
    assert_eq!(outcome(&engine, &id).await, Outcome::Cancelled);
    std::fs::write(server.file("go"), "").unwrap();
    fixtures::until_dead(command);
    pids(&server.file("pids"), 1);
}

/// A store that has no room for the start of an attempt until `open`, and counts how often it was asked to write it.
struct NoRoomToStart {
    inner: MemoryStore,
    open: AtomicBool,
    asked: AtomicUsize,
}

impl StoreLayer for NoRoomToStart {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        if change.events.contains(&Event::Started) {
            self.asked.fetch_add(1, Ordering::SeqCst);
            if !self.open.load(Ordering::SeqCst) {
                return Box::pin(async { Err(StoreError::Full.into()) });
            }
        }
        self.inner.apply(change)
    }
}

/// The start is committed between the folder and the command: the folder is there, and nothing runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_started_before_the_start_is_committed() {
    for (cancelled, restarted) in [(false, false), (true, false), (false, true)] {
        let mut server = Server::running("echo $$ >> pids; echo ran");
        let store = Arc::new(NoRoomToStart {
            inner: MemoryStore::new(),
            open: AtomicBool::new(false),
            asked: AtomicUsize::new(0),
        });
        server.store = Arc::clone(&store) as Arc<dyn Store>;
        let mut engine = server.start().await;
        let id = create(&engine, json!({})).await.id;
        until("the start was to be written, twice", || {
            (store.asked.load(Ordering::SeqCst) >= 2).then_some(())
        });
        let dir = server.attempts.dir(&id, 1);
        assert!(dir.path().join("spec").exists());
        assert!(!dir.path().join("started").exists(), "no supervisor has been there");
        if cancelled {
            engine.cancel(&scope(), &id, CancelMode::Cooperative).await.unwrap();
            assert_eq!(outcome(&engine, &id).await, Outcome::Cancelled);
            assert!(!server.file("pids").exists());
            continue;
        }
        if restarted {
            engine.stop();
            std::fs::remove_dir_all(dir.path()).unwrap();
        }
        store.open.store(true, Ordering::SeqCst);
        if restarted {
            engine = server.start().await;
        }
        assert_eq!(text(&outcome(&engine, &id).await), ("ran\n".to_owned(), false));
        pids(&server.file("pids"), 1);
        let task = engine.get(&scope(), &id).await.unwrap().unwrap().task;
        assert_eq!(task.attempts_used, 1);
    }
}

/// No processes, no memory, no descriptors: nothing ran, so the task waits, at no cost, and leaves no folders behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_finds_no_descriptors_is_queued_again() {
    let server = Server::running("echo $$ >> pids; echo ran");
    std::fs::write(server.file("shortage"), "").unwrap();
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id;
    let third = |record: &Record| record.task.attempt.as_ref().is_some_and(|attempt| attempt.epoch >= 3);
    let waiting = becomes(&engine, &id, third).await.task;
    let folders = std::fs::read_dir(server.file("attempts").join(id.as_str()))
        .unwrap()
        .count();
    assert!(folders <= 1, "{folders} folders of attempts in which nothing ran");
    let status = waiting.status.unwrap();
    assert!(
        status.starts_with("not started yet: the command could not be started: Too many open files"),
        "{status}"
    );
    std::fs::remove_file(server.file("shortage")).unwrap();
    assert_eq!(text(&outcome(&engine, &id).await), ("ran\n".to_owned(), false));
    pids(&server.file("pids"), 1);
    let task = engine.get(&scope(), &id).await.unwrap().unwrap().task;
    assert_eq!(task.attempts_used, 1);
    let status = task.status.unwrap();
    assert!(!status.starts_with("not started"), "{status}");
}

/// The same when the server itself cannot start a supervisor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_finds_no_descriptors_queues_the_task_again() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let server = Server::running("echo $$ >> pids; echo ran");
    let engine = server.start().await;
    let before = getrlimit(Resource::Nofile);
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(open + 1),
            maximum: before.maximum,
        },
    )
    .unwrap();
    let id = create(&engine, json!({})).await.id;
    let third = |record: &Record| record.task.attempt.as_ref().is_some_and(|attempt| attempt.epoch >= 3);
    let waiting = becomes(&engine, &id, third).await.task;
    setrlimit(Resource::Nofile, before).unwrap();
    assert!(waiting.status.unwrap().contains("Too many open files"));
    let folders = std::fs::read_dir(server.file("attempts").join(id.as_str()))
        .unwrap()
        .count();
    assert!(folders <= 1, "{folders} folders of attempts in which nothing ran");
    assert_eq!(text(&outcome(&engine, &id).await), ("ran\n".to_owned(), false));
    pids(&server.file("pids"), 1);
}

/// The end is `cancelled`, which has no result; how the command ended, and its output so far, is in the status message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_stops_the_command_also_after_a_restart() {
    for restart in [false, true] {
        let server = Server::running("echo half done; echo $$ > pids; exec sleep 1000");
        let mut engine = server.start().await;
        let id = create(&engine, json!({})).await.id;
        let command = pids(&server.file("pids"), 1)[0];
        if restart {
            engine.stop();
            engine = server.start().await;
        }
        engine.cancel(&scope(), &id, CancelMode::Cooperative).await.unwrap();
        assert_eq!(outcome(&engine, &id).await, Outcome::Cancelled);
        assert!(!alive(command));
        let status = engine.get(&scope(), &id).await.unwrap().unwrap().task.status.unwrap();
        let log = format!(
            "longhaul://task/{id}/log (longhaul task URL {id} --log)",
            id = id.as_str()
        );
        let expected = format!("Cancelled; sh was killed by signal 15 (TERM). Its log: {log}\n\nhalf done");
        assert_eq!(&*status, expected);
    }
}

/// A legacy cancel ends the task at once; how its command ends is known when it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_a_command_ends_is_known_once_it_has_stopped() {
    let mut server = Server::running(
        "trap 'until [ -e go ]; do sleep 0.01; done; exit 7' TERM; echo $$ > pids; while :; do sleep 0.01; done",
    );
    server.kill_grace = 60_000;
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id;
    pids(&server.file("pids"), 1);
    let cancelled = engine.cancel(&scope(), &id, CancelMode::AtOnce).await.unwrap();
    assert!(cancelled.is_done());
    assert_eq!(engine.last_exit(&cancelled).await, Ok(None));
    std::fs::write(server.file("go"), "").unwrap();
    let stopped = becomes(&engine, &id, |record| record.task.active_attempt().is_none()).await;
    assert_eq!(engine.last_exit(&stopped.task).await, Ok(Some(AttemptExit::Code(7))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_had_to_be_killed_says_so() {
    let server = Server::running("trap '' TERM; echo $$ > pids; while :; do sleep 1000; done");
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id;
    pids(&server.file("pids"), 1);
    engine.cancel(&scope(), &id, CancelMode::Cooperative).await.unwrap();
    assert_eq!(outcome(&engine, &id).await, Outcome::Cancelled);
    let status = engine.get(&scope(), &id).await.unwrap().unwrap().task.status.unwrap();
    assert!(
        status.starts_with("Cancelled; sh was killed by signal 9 (KILL). It did not follow SIGTERM."),
        "{status}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deadline_ends_the_command_also_while_the_server_is_down() {
    for down in [false, true] {
        let mut server = Server::running("echo so far; echo and this >&2; echo $$ > pids; exec sleep 1000");
        server.deadline = Some(1_500);
        let mut engine = server.start().await;
        let id = create(&engine, json!({})).await.id;
        let command = pids(&server.file("pids"), 1)[0];
        if down {
            engine.stop();
            fixtures::ended(&server.attempts.dir(&id, 1));
            assert!(!alive(command));
            engine = server.start().await;
        }
        let (value, is_error) = result(&outcome(&engine, &id).await);
        let log = format!(
            "longhaul://task/{id}/log (longhaul task URL {id} --log)",
            id = id.as_str()
        );
        let expected = format!(
            "deadline of 1s500ms passed; sh was killed by signal 15 (TERM)\n\n[longhaul: its log is {log}]\n\nso far\nand this"
        );
        assert_eq!((&value["content"][0]["text"], is_error), (&json!(expected), true));
        assert_eq!(value["_meta"], json!({"dev.longhaul/exit": {"signal": "TERM"}}));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_and_progress_are_reported_and_the_log_is_readable() {
    let mut server = Server::running("echo 3/8; until [ -e go ]; do sleep 0.01; done; echo 8/8");
    server.definition.progress = Some(r"(?<current>\d+)/(?<total>\d+)".to_owned());
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id;
    let record = becomes(&engine, &id, |record| record.task.progress.is_some()).await;
    let progress = record.task.progress.unwrap();
    assert_eq!(
        (progress.current, progress.total, record.task.status.as_deref()),
        (3.0, Some(8.0), Some("3/8"))
    );
    let log = engine
        .read_log(&record.task, LogRange::default())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((log.text.as_str(), log.next), ("3/8\n", 4));
    std::fs::write(server.file("go"), "").unwrap();
    outcome(&engine, &id).await;
    let log = engine
        .read_log(
            &record.task,
            LogRange {
                offset: Some(4),
                limit: Some(100),
            },
        )
        .await
        .unwrap()
        .unwrap();
    assert_eq!((log.text.as_str(), log.offset, log.total), ("8/8\n", 4, 8));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_versions_directory_is_a_clear_error() {
    let server = Server::running("echo $$ > pids; exec sleep 1000");
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id;
    let command = pids(&server.file("pids"), 1)[0];
    engine.stop();
    std::fs::write(server.attempts.dir(&id, 1).path().join("version"), "7").unwrap();
    let engine = server.start().await;
    let (code, message, why) = reason(&outcome(&engine, &id).await);
    assert_eq!((code, why), (-32603, json!("interrupted")));
    assert!(message.contains("format 7"), "{message}");
    kill(server.supervisor(&id));
    fixtures::until_dead(command);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_go_with_their_task() {
    let server = Server::running("echo x");
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id;
    outcome(&engine, &id).await;
    until("the supervisor is reaped", || {
        fixtures::children().is_empty().then_some(())
    });
    let provider = CommandProvider::new(server.attempts.clone(), launcher(), Ports::system());
    assert!(provider.bytes_held().await.unwrap() > 0);
    provider.forget(&id).await.unwrap();
    provider.forget(&id).await.unwrap();
    assert_eq!(provider.bytes_held().await.unwrap(), 0);
    assert_eq!(provider.read_log(&id, 1, LogRange::default()).await, Ok(None));
    until_exists(&server.file("attempts"));
}

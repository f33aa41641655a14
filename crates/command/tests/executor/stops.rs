//! Cancel and deadline.

use super::fixtures::{alive, ended, kill, pids};
use super::support::{Server, becomes, create, outcome, result, scope, text};
use longhaul_command::{AttemptVerdict, StopSettings, StopSignal};
use longhaul_core::{BoxFuture, CancelMode, Clock, Outcome, UnixMillis, store::Record};
use longhaul_runtime::AttemptExit;
use rustix::{
    fs::FlockOperation,
    process::{Pid, Signal},
};
use serde_json::json;
use std::{os::unix::net::UnixListener, sync::Arc, time::Duration};

/// The end is `cancelled`, which has no result; how the command ended, and its output so far, is in the status message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_stops_the_command_also_after_a_restart() {
    for restart in [false, true] {
        let server = Server::running("echo half done; echo $$ > pids; exec sleep 1000");
        let mut engine = server.start().await;
        let id = create(&engine, json!({})).await.id.clone();
        let command = pids(&server.file("pids"), 1)[0];
        if restart {
            engine.stop();
            engine = server.start().await;
        }
        engine.cancel(&scope(), &id, CancelMode::Cooperative).await.unwrap();
        assert_eq!(outcome(&engine, &id).await, Outcome::Cancelled);
        assert!(!alive(command));
        let status = engine.get(&scope(), &id).await.unwrap().unwrap().task.status.unwrap();
        let log = format!("longhaul://task/{id}/log (longhaul task {id} --log)", id = id.as_str());
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
    let id = create(&engine, json!({})).await.id.clone();
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
    let id = create(&engine, json!({})).await.id.clone();
    pids(&server.file("pids"), 1);
    engine.cancel(&scope(), &id, CancelMode::Cooperative).await.unwrap();
    assert_eq!(outcome(&engine, &id).await, Outcome::Cancelled);
    let status = engine.get(&scope(), &id).await.unwrap().unwrap().task.status.unwrap();
    assert!(
        status.starts_with("Cancelled; sh was killed by signal 9 (KILL). It did not follow SIGTERM."),
        "{status}"
    );
}

/// As for a program that tidies up at Ctrl-C only, and takes its time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_has_its_own_signal_and_its_own_grace() {
    for how in ["cancel", "deadline", "timeout"] {
        let mut server = Server::running(
            "trap 'sleep 0.3; echo done > tidied; exit 3' INT; echo $$ > pids; while :; do sleep 0.01; done",
        );
        server.definition.stop = StopSettings {
            signal: StopSignal::Int,
            grace_ms: Some(60_000),
        };
        server.kill_grace = 0;
        match how {
            "deadline" => server.deadline = Some(1_500),
            "timeout" => server.definition.timeout_ms = Some(1_500),
            _ => {}
        }
        let engine = server.start().await;
        let id = create(&engine, json!({})).await.id.clone();
        pids(&server.file("pids"), 1);
        let end = match how {
            "cancel" => {
                engine.cancel(&scope(), &id, CancelMode::Cooperative).await.unwrap();
                assert_eq!(outcome(&engine, &id).await, Outcome::Cancelled);
                let task = engine.get(&scope(), &id).await.unwrap().unwrap().task;
                task.status.as_deref().unwrap_or_default().to_owned()
            }
            _ => text(&outcome(&engine, &id).await).0,
        };
        assert!(end.contains("sh exited with code 3"), "{how}: {end}");
        assert!(server.file("tidied").exists(), "{how}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_does_not_follow_its_own_signal_is_killed() {
    let mut server = Server::running("trap '' INT; echo $$ > pids; while :; do sleep 1000; done");
    server.kill_grace = 600_000;
    server.definition.stop = StopSettings {
        signal: StopSignal::Int,
        grace_ms: Some(100),
    };
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id.clone();
    pids(&server.file("pids"), 1);
    engine.cancel(&scope(), &id, CancelMode::Cooperative).await.unwrap();
    assert_eq!(outcome(&engine, &id).await, Outcome::Cancelled);
    let status = engine.get(&scope(), &id).await.unwrap().unwrap().task.status.unwrap();
    let expected = "Cancelled; sh was killed by signal 9 (KILL). It did not follow SIGINT.";
    assert!(status.starts_with(expected), "{status}");
}

/// Nothing is wrong with the command. Whether its process is there in time is a matter of milliseconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_is_not_started_after_its_deadline() {
    let mut server = Server::running("sleep 60");
    for deadline in (1..40).cycle().take(2_000) {
        server.deadline = Some(deadline);
        let (text, is_error) = text(&server.run(json!({})).await);
        assert!(is_error && !text.contains("could not be started"), "{text}");
        if text.contains("was not started") {
            let expected = format!("deadline of {deadline}ms passed while the call waited; sh was not started");
            assert!(text.starts_with(&expected), "{text}");
            return;
        }
    }
    panic!("each was started or never began");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deadline_ends_the_command_also_while_the_server_is_down() {
    for down in [false, true] {
        let mut server = Server::running("echo so far; echo and this >&2; echo $$ > pids; exec sleep 1000");
        server.deadline = Some(1_500);
        let mut engine = server.start().await;
        let id = create(&engine, json!({})).await.id.clone();
        let command = pids(&server.file("pids"), 1)[0];
        if down {
            engine.stop();
            ended(&server.attempts.dir(&id, 1));
            assert!(!alive(command));
            engine = server.start().await;
        }
        let (value, is_error) = result(&outcome(&engine, &id).await);
        let log = format!("longhaul://task/{id}/log (longhaul task {id} --log)", id = id.as_str());
        let expected = format!(
            "deadline of 1s500ms passed; sh was killed by signal 15 (TERM)\n\n[longhaul: its log is {log}]\n\nso far\nand this"
        );
        assert_eq!((&value["content"][0]["text"], is_error), (&json!(expected), true));
        assert_eq!(value["_meta"], json!({"dev.longhaul/exit": {"signal": "TERM"}}));
    }
}

/// A suspended supervisor cannot see the request, so it is continued.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_supervisor_is_continued_to_stop_its_command() {
    let server = Server::running("echo $$ > pids; exec sleep 1000");
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id.clone();
    let command = pids(&server.file("pids"), 1)[0];
    let supervisor = Pid::from_raw(server.supervisor(&id)).unwrap();
    rustix::process::kill_process(supervisor, Signal::STOP).unwrap();
    engine.cancel(&scope(), &id, CancelMode::Cooperative).await.unwrap();
    assert_eq!(outcome(&engine, &id).await, Outcome::Cancelled);
    assert!(!alive(command));
}

/// The system's clock with sleeps that take a fiftieth of their time.
struct ImpatientClock(Arc<dyn Clock>);

impl Clock for ImpatientClock {
    fn now(&self) -> UnixMillis {
        self.0.now()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(duration / 50)
    }
}

/// Here the test is the supervisor: it holds the lock, accepts the server's connection, and does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_supervisor_that_does_not_react_is_reported() {
    let mut server = Server::running("echo $$ > pids; exec sleep 1000");
    server.ports.clock = Arc::new(ImpatientClock(Arc::clone(&server.ports.clock)));
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id.clone();
    pids(&server.file("pids"), 1);
    engine.stop();
    kill(server.supervisor(&id));
    let dir = server.attempts.dir(&id, 1);
    assert_eq!(ended(&dir), AttemptVerdict::Interrupted);
    let lock = std::fs::File::open(dir.path().join("lock")).unwrap();
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    std::fs::remove_file(dir.path().join("sock")).unwrap();
    let listener = UnixListener::bind(dir.path().join("sock")).unwrap();

    let engine = server.start().await;
    engine.cancel(&scope(), &id, CancelMode::Cooperative).await.unwrap();
    let reported = |record: &Record| {
        let status = record.task.status.as_deref().unwrap_or_default();
        status.starts_with("cancel requested, but the command's supervisor does not react")
    };
    let record = becomes(&engine, &id, reported).await;
    assert!(!record.task.is_done(), "it is not known whether the command has ended");
    drop((listener, lock));
    assert_eq!(outcome(&engine, &id).await, Outcome::Cancelled);
}

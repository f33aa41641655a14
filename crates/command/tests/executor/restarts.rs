//! What a restarted server makes of the attempts of the one before, and which of them are retried.

use super::fixtures::{alive, ended, kill, pids, until_dead};
use super::support::{Server, becomes, create, outcome, reason, scope, text};
use longhaul_command::Launcher;
use longhaul_core::{
    AttemptState, CancelMode, Event, Outcome, Retry, RetryOn, TaskId, UnixMillis,
    store::{Change, Record},
};
use longhaul_runtime::Engine;
use serde_json::json;
use std::path::Path;

/// Starts the tool, whose script writes its process id to `pids`, and returns that id.
async fn running_command(server: &Server) -> (Engine, TaskId, i32) {
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id.clone();
    let command = pids(&server.file("pids"), 1)[0];
    (engine, id, command)
}

/// The message of a task that ends as interrupted.
async fn interrupted(engine: &Engine, id: &TaskId) -> String {
    let (code, message, why) = reason(&outcome(engine, id).await);
    assert_eq!((code, why), (-32603, json!("interrupted")), "{message}");
    message
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_finds_the_command_running() {
    let server = Server::running("echo $$ >> pids; until [ -e go ]; do sleep 0.01; done; echo done");
    let (engine, id, command) = running_command(&server).await;
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
    let (engine, id, _) = running_command(&server).await;
    engine.stop();
    std::fs::write(server.file("go"), "").unwrap();
    ended(&server.attempts.dir(&id, 1));
    let engine = server.start().await;
    assert_eq!(text(&outcome(&engine, &id).await), ("done\n".to_owned(), false));
    pids(&server.file("pids"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_is_interrupted_or_retried() {
    let script = "echo $$ >> pids; [ \"$(wc -l < pids)\" -ge 2 ] && echo second && exit; exec sleep 1000";
    let server = Server::running(script);
    let (engine, id, _) = running_command(&server).await;
    kill(server.supervisor(&id));
    let message = interrupted(&engine, &id).await;
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
    let (engine, id, first) = running_command(&server).await;
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
async fn only_the_exit_codes_that_the_policy_names_are_retried() {
    let mut server = Server::running("echo x >> tries; [ \"$(wc -l < tries)\" -ge 3 ] && exit 74; exit 75");
    server.retry = Retry {
        attempts: 5,
        backoff: 0,
        on: vec![RetryOn::Exit(75)],
    };
    let expected = ("sh exited with code 74".to_owned(), true);
    assert_eq!(text(&server.run(json!({})).await), expected);
    assert_eq!(std::fs::read_to_string(server.file("tries")).unwrap(), "x\nx\nx\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_was_never_started_costs_nothing() {
    let server = Server::running("echo $$ >> pids; echo ran");
    let no_supervisor = Launcher::program(Path::new("/bin/false")).unwrap();
    let engine = server.start_with(no_supervisor).await;
    let id = create(&engine, json!({})).await.id.clone();
    let second = |record: &Record| record.task.attempt.as_ref().is_some_and(|attempt| attempt.epoch >= 2);
    becomes(&engine, &id, second).await;
    engine.stop();
    let engine = server.start().await;
    let end = outcome(&engine, &id).await;
    assert_eq!(text(&end), ("ran\n".to_owned(), false));
    let task = engine.get(&scope(), &id).await.unwrap().unwrap().task;
    assert_eq!(task.attempts_used, 1);
}

/// Invariant 12, whatever the retry policy says: the command may still run, and its end is not known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invariant_12_a_command_whose_folder_was_removed_is_not_run_again() {
    for down in [false, true] {
        let mut server = Server::running("echo $$ >> pids; echo on; until [ -e go ]; do sleep 0.01; done; echo done");
        server.retry = Retry {
            attempts: 3,
            backoff: 0,
            on: vec![RetryOn::Crash, RetryOn::Error],
        };
        let (mut engine, id, command) = running_command(&server).await;
        // The server is connected to the supervisor and waits for the end.
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
        let message = interrupted(&engine, &id).await;
        assert!(message.contains("folder of this attempt was removed"), "{message}");
        assert_eq!(alive(command), down, "it runs on, alone");
        std::fs::write(server.file("go"), "").unwrap();
        until_dead(command);
        pids(&server.file("pids"), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_command_whose_folder_was_removed_is_cancelled() {
    let server = Server::running("echo $$ >> pids; echo on; until [ -e go ]; do sleep 0.01; done");
    let (engine, id, command) = running_command(&server).await;
    // The supervisor makes no more files before the end.
    becomes(&engine, &id, |record| record.task.status.is_some()).await;
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
    until_dead(command);
    pids(&server.file("pids"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_versions_directory_is_a_clear_error() {
    let server = Server::running("echo $$ > pids; exec sleep 1000");
    let (engine, id, command) = running_command(&server).await;
    engine.stop();
    std::fs::write(server.attempts.dir(&id, 1).path().join("version"), "7").unwrap();
    let engine = server.start().await;
    let message = interrupted(&engine, &id).await;
    assert!(message.contains("format 7"), "{message}");
    kill(server.supervisor(&id));
    until_dead(command);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_exit_record_is_reported_as_such() {
    let server = Server::running("echo $$ > pids; until [ -e go ]; do sleep 0.01; done");
    let (engine, id, _) = running_command(&server).await;
    engine.stop();
    std::fs::write(server.file("go"), "").unwrap();
    ended(&server.attempts.dir(&id, 1));
    std::fs::write(server.attempts.dir(&id, 1).path().join("exit"), "{").unwrap();
    let engine = server.start().await;
    let message = interrupted(&engine, &id).await;
    assert!(message.contains("`exit` of the attempt) is damaged"), "{message}");
}

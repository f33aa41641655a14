//! The longest time of one attempt.

use super::fixtures::{alive, ended, pids};
use super::support::{Server, create, outcome, result, scope, text};
use longhaul_core::{Retry, RetryOn};
use longhaul_runtime::AttemptExit;
use serde_json::json;

fn retry(on: Vec<RetryOn>) -> Retry {
    Retry {
        attempts: 10,
        backoff: 0,
        on,
    }
}

/// Not retried either: a timeout is no error, and not what the command makes of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_timeout_ends_the_command_also_while_the_server_is_down() {
    for down in [false, true] {
        let mut server = Server::running("echo so far; echo $$ > pids; exec sleep 1000");
        server.definition.timeout_ms = Some(1_500);
        server.retry = retry(vec![RetryOn::Crash, RetryOn::Error]);
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
            "timeout of 1s500ms passed; sh was killed by signal 15 (TERM)\n\n[longhaul: its log is {log}]\n\nso far"
        );
        assert_eq!((&value["content"][0]["text"], is_error), (&json!(expected), true));
        let exit = json!({"signal": "TERM", "timedOut": true});
        assert_eq!(value["_meta"], json!({"dev.longhaul/exit": exit}));
        let task = engine.get(&scope(), &id).await.unwrap().unwrap().task;
        assert_eq!(task.attempts_used, 1);
    }
}

/// Each attempt has the whole time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_took_too_long_is_retried_if_the_policy_says_so() {
    let script = "echo $$ >> pids; [ \"$(wc -l < pids)\" -ge 3 ] && echo third && exit; exec sleep 1000";
    let mut server = Server::running(script);
    server.definition.timeout_ms = Some(700);
    server.retry = retry(vec![RetryOn::Timeout]);
    assert_eq!(text(&server.run(json!({})).await), ("third\n".to_owned(), false));
}

/// It may have stopped half way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_took_too_long_has_failed_whatever_its_exit_code() {
    let script = "trap 'echo tidied; exit 0' TERM; echo $$ > pids; while :; do sleep 0.01; done";
    let mut server = Server::running(script);
    server.definition.timeout_ms = Some(1_500);
    server.kill_grace = 60_000;
    let engine = server.start().await;
    let task = create(&engine, json!({})).await;
    let (text, is_error) = text(&outcome(&engine, &task.id).await);
    assert!(
        is_error && text.starts_with("timeout of 1s500ms passed; sh exited with code 0\n"),
        "{text}"
    );
    assert!(text.contains("\ntidied"), "{text}");
    let task = engine.get(&scope(), &task.id).await.unwrap().unwrap().task;
    let attempt = engine.attempts(&task, 0, 1).await.unwrap().remove(0);
    assert_eq!(attempt.exit, Some(AttemptExit::Code(0)));
    let failure = attempt.failure().unwrap();
    assert!(failure.starts_with("its timeout passed, exit code 0: "), "{failure}");
}

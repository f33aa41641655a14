//! Calls under an idempotency key that the server knows from an earlier call.

use crate::{
    batch::lines,
    scripted::{created, scripted, scripted_with, task},
    support::*,
};
use serde_json::{Value, json};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

const SAID: &str = "a call with this idempotency key was made ";

/// The server gives the earlier answer, so the caller is told that nothing was called.
#[test]
fn a_call_under_a_known_key_says_that_it_is_not_made_again() {
    let served = served();
    for era in ["modern", "legacy"] {
        let (echo, fail) = (format!("echo-{era}"), format!("fail-{era}"));
        let era = format!("--era={era}");
        for (words, status) in [
            (&["call", "echo", "text=one", "--idempotency-key", &echo][..], 0),
            (&["call", "fail", "--idempotency-key", &fail], 1),
        ] {
            let words = [words, &[&era]].concat();
            let first = served.run(&words);
            let answer = exit(&first, status);
            assert!(!stderr(&first).contains(SAID), "{first:?}");
            let again = served.run(&words);
            assert_eq!(exit(&again, status), answer);
            assert!(stderr(&again).contains(SAID), "{again:?}");
            let as_json = served.run(&[&words[..], &["--json"]].concat());
            exit(&as_json, status);
            assert_eq!(json(&as_json)["repeated"], true, "{as_json:?}");
        }
    }
    let other = ["call", "echo", "text=one", "--idempotency-key", "other", "--json"];
    let first = served.run(&other);
    first.ends(0).says_no(SAID);
    assert_eq!(json(&first)["repeated"], Value::Null, "{first:?}");
}

/// The same of the lines of a batch.
#[test]
fn a_line_under_a_known_key_says_that_it_is_not_called_again() {
    let served = served();
    let file = served.batch_file(
        "{\"tool\": \"fail\", \"idempotencyKey\": \"k\"}\n{\"tool\": \"echo\", \"arguments\": {\"text\": \"x\"}}\n",
    );
    let words = ["call", "--batch", &file];
    for (words, repeated) in [
        (&words[..], Value::Null),
        (&words[..], json!(true)),
        (&[&words[..], &["--repeat", "all"]].concat()[..], json!(true)),
    ] {
        let run = served.run(words);
        exit(&run, 1);
        let of = |number: u64| lines(&run).into_iter().find(|line| line["line"] == number).unwrap();
        assert_eq!(of(1)["repeated"], repeated, "{run:?}");
        assert_eq!(of(2)["repeated"], Value::Null, "a new call: {run:?}");
        let said = stderr(&run);
        let has_known = said.contains("1 of them have the idempotency keys of earlier calls");
        assert_eq!(has_known, !repeated.is_null(), "{said}");
        assert!(said.contains("makes all calls again, except that under"), "{said}");
    }
}

/// A legacy server answers as if it had created the task just now, and as `working`.
#[test]
fn a_task_that_has_ended_is_said_to_have_ended() {
    let served = served();
    for (era, key) in [("--era=modern", "one"), ("--era=legacy", "two")] {
        let call = ["call", "wait", era, "--idempotency-key", key];
        let detached = [&call[..], &["--detach"]].concat();
        let id = served.done(&detached);
        let again = served.run(&detached);
        assert_eq!(exit(&again, 0), id);
        assert!(stderr(&again).contains("the task keeps running"), "{again:?}");
        served.done(&["cancel", &id, "--wait"]);
        let ended = served.run(&detached);
        assert_eq!(exit(&ended, 0), id);
        ended.says("the task was made before, and has ended: cancelled");
        assert!(!stderr(&ended).contains("keeps running"), "{ended:?}");
        let waited = served.run(&call);
        waited.ends(4).says_no("running").says_no("is waited for");
    }
}

/// An operator has deleted the first task, so the server does not know its key.
#[test]
fn a_call_that_is_made_again_under_its_key_says_so() {
    let count = AtomicUsize::new(0);
    let tool = json!({"name": "t", "inputSchema": {"type": "object"}});
    let keys = json!({"dev.longhaul/idempotency": {"retentionMs": 86_400_000}});
    let served = scripted_with(&keys, tool, move |seen| match seen.method() {
        "tools/call" => seen.result(created(&format!("task-{}", count.fetch_add(1, Ordering::SeqCst)))),
        _ => seen.error(404, -32601),
    });
    let words = ["call", "t", "--detach", "--idempotency-key", "k", "--json"];
    served.done(&words);
    let again = served.run(&words);
    exit(&again, 0);
    let shown = json(&again);
    assert_eq!((&shown["taskId"], &shown["repeated"]), (&json!("task-1"), &Value::Null));
    assert!(stderr(&again).contains("has made the call again"), "{again:?}");
}

/// Equal lines are different calls, also in a run that is continued.
#[test]
fn a_line_does_not_repeat_the_call_of_another_line() {
    let served = served();
    let file = served.batch_file("");
    let words = ["call", "--batch", &file];
    for count in [1, 3] {
        served.batch_file(&"{\"tool\": \"book\"}\n".repeat(count));
        let run = served.run(&words);
        exit(&run, 7);
        let continues = stderr(&run).contains("this continues the run of ");
        assert_eq!(continues, count > 1, "{run:?}");
        run.says_no("the same call was made").says_no("lines repeat");
    }
    // In another run they are.
    let anew = served.run(&[&words[..], &["--repeat", "all"]].concat());
    anew.says("3 lines repeat calls whose end was not seen");
}

/// Nobody has read the first task since it was created.
#[test]
fn a_call_that_repeats_another_one_says_how_that_stands() {
    let (status, count) = (Arc::new(Mutex::new("working")), AtomicUsize::new(0));
    let told = Arc::clone(&status);
    let served = scripted(move |seen| match (seen.method(), *told.lock().unwrap()) {
        ("tools/call", _) => seen.result(created(&format!("task-{}", count.fetch_add(1, Ordering::SeqCst)))),
        ("tasks/get", "") => seen.error(200, -32603),
        ("tasks/get", status) => {
            let id = seen.body["params"]["taskId"].as_str().unwrap();
            seen.result(task(id, status, json!({"result": {"content": []}})))
        }
        _ => seen.error(404, -32601),
    });
    served.done(&["call", "t", "--detach"]);
    for (now, said) in [
        ("working", "its task has not ended; this is"),
        ("completed", "its task has ended (succeeded); this is"),
        ("", "its task has not ended, as far as is recorded; this is"),
    ] {
        *status.lock().unwrap() = now;
        served.run(&["call", "t", "--detach"]).ends(0).says(said);
    }
}

//! Calls of a batch that end without a result of the tool.

use crate::{
    batch::lines,
    scripted::{Received, Reply, Scripted, created, scripted_with, task},
    support::*,
};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How a line has ended in a run.
#[derive(Debug, Clone, PartialEq)]
struct End {
    exit: Value,
    kind: Value,
    may_have_run: Value,
    is_cancelled: Value,
    /// The counts of the last message.
    counts: String,
    /// The calls that were made for it in all runs so far.
    calls: usize,
}

/// A batch of one line and another one that is refused each time, so that the run goes on: twice, and then with `--repeat unknown`.
fn runs(served: &Scripted) -> [End; 3] {
    let file = served.batch_file("{}\n{\"refused\": true}\n");
    let words = ["call", "t", "--batch", &file, "--concurrency", "1"];
    let repeated = [&words[..], &["--repeat", "unknown"]].concat();
    [&words[..], &words[..], &repeated[..]].map(|words| {
        let run = served.run(words);
        let line = lines(&run).into_iter().find(|line| line["line"] == 1).unwrap();
        let exit = line["exit"].as_i64().map(|exit| exit as i32);
        assert_eq!(run.status.code(), exit, "{run:?}");
        let said = stderr(&run);
        assert!(said.contains("continues this run"), "one line is refused: {said}");
        let counts = said.lines().find_map(|line| line.strip_prefix("2 calls: "));
        let kind = line["error"]["kind"].clone();
        assert_eq!(
            said.contains("may have run, and not made again by itself: line 1. "),
            ["lost", "outcome_unknown"].map(Value::from).contains(&kind),
            "only where --repeat unknown repeats it: {said}"
        );
        assert_eq!(said.contains("unanswered: line 1. "), kind == "unanswered", "{said}");
        let is_of_it = |seen: &&Received| !is_refused(seen);
        End {
            exit: line["exit"].clone(),
            kind,
            may_have_run: match line["error"]["mayHaveRun"].clone() {
                Value::Null => line["mayHaveRun"].clone(),
                may_have_run => may_have_run,
            },
            is_cancelled: line["cancelled"].clone(),
            counts: counts.unwrap().to_owned(),
            calls: served.calls_of("tools/call").iter().filter(is_of_it).count(),
        }
    })
}

fn is_refused(seen: &Received) -> bool {
    seen.body["params"]["arguments"]["refused"] == true
}

/// The end of a line that may have run, with one call.
fn end(exit: i32, kind: &str, name: &str) -> End {
    End {
        exit: exit.into(),
        kind: kind.into(),
        may_have_run: true.into(),
        is_cancelled: Value::Null,
        counts: match name {
            REFUSED => format!("2 {REFUSED}"),
            "of unknown outcome" => format!("1 {REFUSED}, 1 {name}"),
            name => format!("1 {name}, 1 {REFUSED}"),
        },
        calls: 1,
    }
}

const REFUSED: &str = "refused or failed without a result";

/// The same in each run, without another call.
fn assert_settled(served: &Scripted, end: &End) {
    assert_eq!(runs(served), [end.clone(), end.clone(), end.clone()]);
}

/// The same in each run, with another call once that is told.
fn assert_unclear(served: &Scripted, end: &End) {
    let again = End {
        calls: 2,
        ..end.clone()
    };
    assert_eq!(runs(served), [end.clone(), end.clone(), again]);
}

/// What the server says of the other line.
fn answers(script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> impl Fn(&Received) -> Reply + Send + Sync {
    move |seen| match is_refused(seen) {
        true => seen.error(200, -32021),
        false => script(seen),
    }
}

/// A server that takes idempotency keys, or does not.
pub(crate) fn with_keys(takes_keys: bool, script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Scripted {
    let extensions = match takes_keys {
        true => json!({"dev.longhaul/idempotency": {"retentionMs": 86_400_000}}),
        false => json!({}),
    };
    let tool = json!({"name": "t", "inputSchema": {"type": "object"}});
    scripted_with(&extensions, tool, answers(script))
}

/// The tool has run as far as to its question. Nobody will answer it in a batch, so there is nothing more to do for the line.
#[test]
fn a_call_whose_question_has_no_answer_is_not_made_again() {
    let form = json!({"mode": "form", "message": "which?", "requestedSchema": {"type": "object", "properties": {}}});
    let unknown = json!({"messages": [], "maxTokens": 1});
    for (takes_keys, method, params) in [
        (false, "elicitation/create", &form),
        (true, "elicitation/create", &form),
        (false, "sampling/createMessage", &unknown),
        (false, "foo/bar", &unknown),
    ] {
        let asked = json!({"k": {"method": method, "params": params}});
        let served = with_keys(takes_keys, move |seen| {
            seen.result(json!({"resultType": "input_required", "inputRequests": asked, "requestState": "s"}))
        });
        assert_settled(&served, &end(5, "unanswered", "unanswered"));
        let calls = served.listed(&["--offline"]);
        assert!(calls.iter().any(|call| call["state"] == "cancelled"), "{calls:?}");
    }
}

/// The task is forgotten before its result was fetched.
#[test]
fn a_lost_task_is_lost_in_each_run() {
    for takes_keys in [false, true] {
        let served = with_keys(takes_keys, |seen| match seen.method() {
            "tools/call" => seen.result(created("t-1")),
            _ => seen.error(200, -32602),
        });
        assert_unclear(&served, &end(5, "lost", "of unknown outcome"));
    }
}

/// There is no answer, and the server takes no keys.
#[test]
fn a_call_without_an_answer_is_of_unknown_outcome_in_each_run() {
    let served = with_keys(false, |_| {
        Reply::json(200, json!({"jsonrpc": "2.0", "id": 12, "result": {}}))
    });
    assert_unclear(&served, &end(3, "outcome_unknown", "of unknown outcome"));
}

/// A result that breaks the tool's own schema is no success, in the next run neither. The server may forget the task meanwhile.
#[test]
fn a_result_that_does_not_fit_is_the_same_end_in_the_next_run() {
    let result = json!({"resultType": "complete", "content": [], "structuredContent": {"n": "no number"}});
    let output = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let tool = json!({"name": "t", "inputSchema": {"type": "object"}, "outputSchema": output});
    for (is_task, is_forgotten) in [(false, false), (true, false), (true, true)] {
        let (result, gets) = (result.clone(), AtomicUsize::new(0));
        let served = scripted_with(
            &json!({}),
            tool.clone(),
            answers(move |seen| match seen.method() {
                "tools/call" if !is_task => seen.result(result.clone()),
                "tools/call" => seen.result(created("t-1")),
                _ if is_forgotten && gets.fetch_add(1, Ordering::SeqCst) > 0 => seen.error(200, -32602),
                _ => seen.result(task("t-1", "completed", json!({"result": result}))),
            }),
        );
        assert_settled(&served, &end(5, "invalid_output", REFUSED));
    }
}

/// There is an answer, so there is nothing to repeat, and it stays what it was.
#[test]
fn a_json_rpc_error_is_the_same_end_in_the_next_run() {
    let served = with_keys(false, |seen| seen.error(200, -32603));
    assert_settled(&served, &end(5, "refused", REFUSED));
}

/// The same for tasks that the server forgets once their end was fetched.
#[test]
fn the_end_of_a_task_is_the_same_in_the_next_run() {
    let error = json!({"error": {"code": -32603, "message": "it does not work"}});
    for (status, more, expected) in [
        ("failed", error, end(5, "failed", REFUSED)),
        (
            "cancelled",
            json!({}),
            End {
                kind: Value::Null,
                is_cancelled: true.into(),
                ..end(4, "", "cancelled")
            },
        ),
    ] {
        let gets = AtomicUsize::new(0);
        let served = with_keys(false, move |seen| match seen.method() {
            "tools/call" => seen.result(created("t-1")),
            _ if gets.fetch_add(1, Ordering::SeqCst) > 0 => seen.error(200, -32602),
            _ => seen.result(task("t-1", status, more.clone())),
        });
        assert_settled(&served, &expected);
    }
}

/// A run is over as soon as nothing more is to be done for any line: the same command begins another one.
#[test]
fn a_run_is_over_when_each_call_has_an_outcome() {
    let form = json!({"mode": "form", "message": "which?", "requestedSchema": {"type": "object", "properties": {}}});
    let asked = json!({"k": {"method": "elicitation/create", "params": form}});
    let output = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let tool = json!({"name": "t", "inputSchema": {"type": "object"}, "outputSchema": output});
    for extensions in [
        json!({}),
        json!({"dev.longhaul/idempotency": {"retentionMs": 86_400_000}}),
    ] {
        let asked = asked.clone();
        let served = scripted_with(
            &extensions,
            tool.clone(),
            move |seen| match seen.body["params"]["arguments"]["how"].as_str().unwrap() {
                "asks" => {
                    seen.result(json!({"resultType": "input_required", "inputRequests": asked, "requestState": "s"}))
                }
                "does not fit" => seen.result(json!({"resultType": "complete", "content": []})),
                "fails" => seen.result(json!({"resultType": "complete", "content": [], "isError": true})),
                _ => seen.error(200, -32603),
            },
        );
        let file = served.batch_file(
            "{\"how\": \"asks\"}\n{\"how\": \"does not fit\"}\n{\"how\": \"fails\"}\n{\"how\": \"breaks\"}\n",
        );
        for calls in [4, 8] {
            let run = served.run(&["call", "t", "--batch", &file]);
            exit(&run, 5);
            let said = stderr(&run);
            said.has("so this run is over").lacks("continues");
            said.lacks("--repeat unknown");
            assert_eq!(served.calls_of("tools/call").len(), calls, "{said}");
        }
    }
}

//! Calls of a batch that end without a result of the tool.

use crate::{
    batch::lines,
    scripted::{Received, Reply, Scripted, created, scripted, scripted_with},
    support::*,
};
use serde_json::{Value, json};
use std::fs;

/// The same batch twice, and then with `--repeat unknown`: how the line ended each time, and how many calls were made.
fn runs(served: &Scripted) -> [(Value, Value, usize); 3] {
    let file = served.home.path().join("calls.jsonl");
    fs::write(&file, "{}\n").unwrap();
    let words = ["call", "t", "--batch", file.to_str().unwrap()];
    let repeated = [&words[..], &["--repeat", "unknown"]].concat();
    [&words[..], &words[..], &repeated[..]].map(|words| {
        let run = served.run(words);
        let line = lines(&run).remove(0);
        assert_eq!(
            run.status.code(),
            line["exit"].as_i64().map(|exit| exit as i32),
            "{run:?}"
        );
        let is_hinted = stderr(&run).contains("may have run, and not made again by itself: line 1.");
        assert_eq!(
            is_hinted,
            ["unanswered", "lost"].map(Value::from).contains(&line["error"]["kind"]),
            "the hint is true of what it names: {run:?}"
        );
        (
            line["exit"].clone(),
            line["error"]["kind"].clone(),
            served.calls_of("tools/call").len(),
        )
    })
}

/// A server that takes idempotency keys, or does not.
fn with_keys(takes_keys: bool, script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Scripted {
    let extensions = match takes_keys {
        true => json!({"dev.longhaul/idempotency": {"retentionMs": 86_400_000}}),
        false => json!({}),
    };
    let tool = json!({"name": "t", "inputSchema": {"type": "object"}});
    scripted_with(&extensions, tool, script)
}

/// The tool has run as far as to its question, so the call is not made again by itself.
#[test]
fn a_call_whose_question_has_no_answer_is_repeated_only_when_told() {
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
        let ended = |calls: usize| (json!(5), json!("unanswered"), calls);
        assert_eq!(
            runs(&served),
            [ended(1), ended(1), ended(2)],
            "{method}, takes keys: {takes_keys}"
        );
        let listed = json(&served.run(&["tasks", "--json", "--offline"]));
        assert_eq!(listed["calls"][0]["state"], "cancelled", "{listed}");
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
        let ended = |calls: usize| (json!(5), json!("lost"), calls);
        assert_eq!(
            runs(&served),
            [ended(1), ended(1), ended(2)],
            "takes keys: {takes_keys}"
        );
    }
}

/// A result that breaks the tool's own schema is no success, in the next run neither.
#[test]
fn a_result_that_does_not_fit_is_the_same_end_in_the_next_run() {
    let output = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let tool = json!({"name": "t", "inputSchema": {"type": "object"}, "outputSchema": output});
    let served = scripted_with(&json!({}), tool, |seen| {
        seen.result(json!({"resultType": "complete", "content": [], "structuredContent": {"n": "no number"}}))
    });
    let [first, second, _] = runs(&served);
    assert_eq!(first, (json!(5), json!("invalid_output"), 1));
    assert_eq!(second, (json!(5), Value::Null, 1), "it ended before");
}

/// There is an answer, so there is nothing to repeat, and it stays what it was.
#[test]
fn a_json_rpc_error_is_the_same_end_in_the_next_run() {
    let served = scripted(|seen| seen.error(200, -32603));
    let [first, second, _] = runs(&served);
    assert_eq!(first, (json!(5), json!("refused"), 1));
    assert_eq!(second, (json!(5), Value::Null, 1), "it ended before");
}

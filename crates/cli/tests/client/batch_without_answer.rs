//! Calls of a batch that end without a result of the tool.

use crate::{
    batch::lines,
    scripted::{Scripted, scripted},
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
            line["error"]["kind"] == "unanswered",
            "the hint is true of what it names: {run:?}"
        );
        (
            line["exit"].clone(),
            line["error"]["kind"].clone(),
            served.calls_of("tools/call").len(),
        )
    })
}

/// The tool has run as far as to its question, so the call is not made again by itself.
#[test]
fn a_call_whose_question_has_no_answer_is_repeated_only_when_told() {
    let form = json!({"mode": "form", "message": "which?", "requestedSchema": {"type": "object", "properties": {}}});
    let unknown = json!({"messages": [], "maxTokens": 1});
    for (method, params) in [
        ("elicitation/create", &form),
        ("sampling/createMessage", &unknown),
        ("foo/bar", &unknown),
    ] {
        let asked = json!({"k": {"method": method, "params": params}});
        let served = scripted(move |seen| {
            seen.result(json!({"resultType": "input_required", "inputRequests": asked, "requestState": "s"}))
        });
        let ended = |calls: usize| (json!(5), json!("unanswered"), calls);
        assert_eq!(runs(&served), [ended(1), ended(1), ended(2)], "{method}");
        let listed = json(&served.run(&["tasks", "--json", "--offline"]));
        assert_eq!(listed["calls"][0]["state"], "cancelled", "{listed}");
    }
}

/// There is an answer, so there is nothing to repeat, and it stays what it was.
#[test]
fn a_json_rpc_error_is_the_same_end_in_the_next_run() {
    let served = scripted(|seen| seen.error(200, -32603));
    let [first, second, _] = runs(&served);
    assert_eq!(first, (json!(5), json!("refused"), 1));
    assert_eq!(second, (json!(5), Value::Null, 1), "it ended before");
}

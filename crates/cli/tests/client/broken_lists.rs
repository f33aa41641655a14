//! Lists and results of servers that can be read in part, or not at all.

use crate::{scripted::serving, support::*};
use serde_json::{Value, json};

fn discovered(capabilities: Value) -> Value {
    json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities})
}

#[test]
fn tools_before_a_page_that_fails_are_listed_and_called() {
    let served = serving(|seen| match (seen.method(), &seen.body["params"]["cursor"]) {
        ("server/discover", _) => seen.result(discovered(json!({"tools": {}}))),
        ("tools/list", Value::Null) => {
            let tool = json!({"name": "first", "inputSchema": {"type": "object"}});
            seen.result(json!({"resultType": "complete", "tools": [tool], "nextCursor": "2"}))
        }
        ("tools/call", _) => {
            let text = json!({"type": "text", "text": "called"});
            seen.result(json!({"resultType": "complete", "content": [text]}))
        }
        _ => seen.error(500, -32603),
    });
    assert_eq!(served.done(&["call", "first"]), "called");
    let lines = served.home.path().join("lines");
    std::fs::write(&lines, "{\"tool\": \"first\"}\n").unwrap();
    let batch = served.run(&["call", "--batch", lines.to_str().unwrap()]);
    batch.ends(0).says("may have more tools");

    let listed = served.run(&["tools"]);
    assert_eq!(exit(&listed, 3), "first");
    assert!(stderr(&listed).contains("may have more tools"), "{listed:?}");
    let missing = served.run(&["call", "second"]);
    missing.ends(3).says("scripted").says_no("there is no tool");
}

/// They cannot be used. A server that writes `isError` as a text has an error to report.
#[test]
fn entries_without_a_name_and_results_with_a_text_for_a_flag() {
    let served = serving(|seen| {
        match seen.method() {
        "server/discover" => seen.result(discovered(json!({"tools": {}, "prompts": {}, "resources": {}}))),
        "prompts/list" => seen.result(json!({"resultType": "complete", "prompts": [{"description": "x"}, {"name": "p"}]})),
        "resources/list" => {
            seen.result(json!({"resultType": "complete", "resources": [{"uri": "x:/a"}, {"name": "n"}, {"uri": "x:/b", "name": "b"}]}))
        }
        "tools/list" => {
            let tool = json!({"name": "t", "inputSchema": {"type": "object"}});
            seen.result(json!({"resultType": "complete", "tools": [tool]}))
        }
        "tools/call" => {
            let said = seen.body["params"]["arguments"].clone();
            let text = json!({"type": "text", "text": said.to_string()});
            seen.result(json!({"resultType": "complete", "content": [text], "isError": "true"}))
        }
        _ => seen.error(404, -32601),
    }
    });
    let prompts = served.run(&["prompts"]);
    assert_eq!(exit(&prompts, 0), "p");
    assert!(stderr(&prompts).contains("1 of the list cannot be used"), "{prompts:?}");
    assert_eq!(served.done(&["resources"]), "x:/a\nx:/b  b");

    // A byte order mark is no part of what a file says.
    let file = served.home.path().join("marked");
    std::fs::write(&file, "\u{feff}[1]").unwrap();
    let file = file.display();
    let words = [format!("a=@{file}"), format!("j:=@{file}")];
    let called = served.run(&["call", "t", &words[0], &words[1]]);
    assert_eq!(exit(&called, 1), r#"{"a":"[1]","j":[1]}"#);
}

#[test]
fn results_without_what_was_asked_for_are_not_taken_for_empty_ones() {
    let served = serving(|seen| match seen.method() {
        "server/discover" => {
            let all = json!({"tools": {}, "prompts": {}, "resources": {}, "completions": {}});
            seen.result(discovered(all))
        }
        "prompts/list" => seen.result(json!({"resultType": "complete", "prompts": [{"name": "p"}]})),
        "prompts/get" => seen.result(json!({"resultType": "complete", "messages": 5})),
        "resources/read" => seen.result(json!({"resultType": "complete", "contents": "x"})),
        "completion/complete" => seen.result(json!({"resultType": "complete", "completion": {"values": "x"}})),
        _ => seen.error(404, -32601),
    });
    for words in [
        &["prompts", "p"][..],
        &["resources", "--uri", "x:/a"],
        &["complete", "p", "a=b"],
    ] {
        let refused = served.run(words);
        assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
        assert!(stderr(&refused).contains("response is invalid"), "{refused:?}");
    }
}

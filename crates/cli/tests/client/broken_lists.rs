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
    assert_eq!(exit(&served.run(&["call", "first"]), 0), "called");
    let lines = served.home.path().join("lines");
    std::fs::write(&lines, "{\"tool\": \"first\"}\n").unwrap();
    let batch = served.run(&["call", "--batch", lines.to_str().unwrap()]);
    exit(&batch, 0);
    assert!(stderr(&batch).contains("may have more tools"), "{batch:?}");

    let listed = served.run(&["tools"]);
    assert_eq!(exit(&listed, 3), "first");
    assert!(stderr(&listed).contains("may have more tools"), "{listed:?}");
    let missing = served.run(&["call", "second"]);
    exit(&missing, 3);
    let said = stderr(&missing);
    assert!(
        said.contains("scripted") && !said.contains("there is no tool"),
        "{said}"
    );
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

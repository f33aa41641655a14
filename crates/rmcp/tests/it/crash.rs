//! `kill -9` of the examples.

use crate::{process::Process, test_handler::TestHandler};
use longhaul::{RetryOn, testing::crash::CrashTest, time::millis};
use serde_json::json;

#[test]
fn a_call_is_interrupted_by_a_crash_unless_its_hints_allow_a_retry() {
    let directory = tempfile::tempdir().unwrap();
    let mut before = Process::start("served", &["--stdio"], directory.path());
    let lost = before.call("render", json!({"frames": 2, "millis": 60_000}));
    let retried = before.call("render_again", json!({"frames": 20, "millis": 50}));
    let asking = before.call("publish", json!({}));
    let done = before.call("render", json!({"frames": 1, "millis": 0}));
    before.ended(&done);
    before.until(&asking, |state| state["status"] == "input_required");
    before.kill();

    let mut after = Process::start("served", &["--stdio"], directory.path());
    for interrupted in [&lost, &asking] {
        let state = after.ended(interrupted);
        assert_eq!(state["status"], "failed", "{state}");
        assert_eq!(state["error"]["data"]["reason"], "interrupted", "{state}");
    }
    assert_eq!(after.ended(&retried)["result"]["content"][0]["text"], "20 frames");
    assert_eq!(after.ended(&done)["result"]["content"][0]["text"], "1 frames");
    after.kill();
}

/// Its outcome is the same wherever its process is killed.
#[test]
fn a_retried_call_survives_a_crash_at_each_of_its_writes() {
    let served = |_: &_| async {
        let retry = |tool: longhaul::Tool| tool.retry(3, millis(1), [RetryOn::Crash]);
        longhaul_rmcp::server(TestHandler::default())
            .tool("ask", retry)
            .await
            .unwrap()
    };
    let report = CrashTest::new_async(served)
        .without_journal()
        .call("ask", json!({}))
        .answering(|_| json!({"action": "accept", "content": {"name": "Ann"}}))
        .same_output()
        .run();
    // For each era: the call, its question, the answer, its end.
    assert_eq!(report.writes, 2 * 4);
}

#[test]
fn after_a_crash_functions_run_again_and_closures_are_interrupted() {
    let directory = tempfile::tempdir().unwrap();
    let mut before = Process::start("kept", &[], directory.path());
    let done = before.call("count_closure", json!({"to": 3, "millis": 0}));
    let counted = before.ended(&done);
    let closure = before.call("count_closure", json!({"to": 2, "millis": 60_000}));
    let function = before.call("count", json!({"to": 20, "millis": 50}));
    let asking = before.call("approve", json!({}));
    let state = before.until(&asking, |state| state["status"] == "input_required");
    assert!(state["inputRequests"]["first"].is_object(), "{state}");
    let yes = json!({"action": "accept", "content": {"approved": true}});
    before.request(
        "tasks/update",
        json!({"taskId": asking, "inputResponses": {"first": yes}}),
    );
    before.until(&asking, |state| state["inputRequests"]["second"].is_object());
    before.kill();

    let mut after = Process::start("kept", &[], directory.path());
    // Possibly before the function asks again: the first question is answered, and the second one is open, so no answer comes too early.
    let state = after.request("tasks/get", json!({"taskId": asking}));
    assert_eq!(state["status"], "input_required");
    assert!(state["inputRequests"].get("first").is_none(), "{state}");
    assert!(state["inputRequests"]["second"].is_object(), "{state}");
    after.request(
        "tasks/update",
        json!({"taskId": asking, "inputResponses": {"second": yes}}),
    );
    assert_eq!(after.ended(&done), counted);
    let state = after.ended(&closure);
    assert_eq!(state["status"], "failed", "{state}");
    assert_eq!(state["error"]["data"]["reason"], "interrupted", "{state}");
    assert_eq!(state["ttlMs"], 300_000);
    assert_eq!(state["pollIntervalMs"], 1_000);
    assert_eq!(after.ended(&function)["result"]["content"][0]["text"], "counted to 20");
    assert_eq!(
        after.ended(&asking)["result"]["content"][0]["text"],
        "approved: true, true"
    );
    after.kill();
}

//! Calls made again under their idempotency keys, after their tools have changed.

use crate::{
    request::{Post, act, both},
    server::{Server, get, text},
};
use longhaul_core::TaskPolicy;
use longhaul_runtime::ToolSettings;
use serde_json::json;

/// `optional` requires more arguments than before, or was removed, or does not run as a task any more.
async fn change(server: &Server, nth: usize) {
    let settings = |policy| server.stage.settings("optional", policy);
    let schema = json!({"type": "object", "properties": {"act": {"type": "integer"}}, "required": ["act", "n"]});
    let changed = match nth {
        0 => ToolSettings {
            input_schema: schema,
            ..settings(TaskPolicy::Optional)
        },
        1 => settings(TaskPolicy::Never),
        2 => settings(TaskPolicy::Always),
        _ => {
            assert!(server.engine.remove_tool("optional"));
            return;
        }
    };
    server.put_tool(changed).await;
}

#[tokio::test]
async fn a_repeated_call_gets_its_task_whatever_happened_to_its_tool() {
    for nth in 0..4 {
        let (server, session) = Server::with_session().await;
        let create = Post::call("optional", "wait").keyed("k");
        let task = server.task(&create).await;
        change(&server, nth).await;
        let in_session = Post::legacy_task(Some(&session), "optional", "wait").keyed("k");
        for again in [&create, &in_session] {
            assert_eq!(server.task(again).await, task, "{nth}");
        }
        server.stage.released.count();
        server.poll(&task, "completed").await;
        for plain in both(&session, "tools/call", act("optional", "wait")) {
            assert_eq!(text(&server.result(&plain.keyed("k")).await), "done", "{nth}");
        }
        assert_eq!(server.stage.begun.get(), 1, "{nth}");
    }
}

/// A plain call has no task until its caller asks for one.
#[tokio::test]
async fn a_plain_call_made_again_is_waited_for_and_can_become_a_task() {
    let server = Server::one_by_one().await;
    let call = Post::legacy_call(None, "optional", "wait").keyed("k");
    drop(server.begin(&call).await);
    change(&server, 3).await;
    let task = server.task(&Post::call("optional", "wait").keyed("k")).await;
    assert_eq!(server.result(&get(&task)).await["status"], "working");
    server.stage.released.count();
    assert_eq!(text(&server.result(&call).await), "done");
    assert_eq!((server.stage.begun.get(), server.stage.stopped.get()), (1, 0));
}

/// A different call is refused as if it had no key, and a key only finds calls of its own tool.
#[tokio::test]
async fn another_call_under_the_key_is_refused_as_before() {
    let server = Server::start().await;
    server.result(&Post::call("optional", "wait").keyed("k")).await;
    let other = Post::call("optional", "say").keyed("k");
    let elsewhere = Post::call("gone", "wait").keyed("k");
    let taken = server.exchange(&other).await.json()["error"]["message"].to_string();
    assert!(taken.contains("idempotency key"), "{taken}");
    assert_eq!(server.error(&elsewhere).await.1, -32602);
    change(&server, 0).await;
    assert_eq!(server.result(&other).await["isError"], true);
    change(&server, 3).await;
    assert_eq!(server.error(&other).await.1, -32602);
    assert_eq!(server.stage.begun.get(), 1);
}

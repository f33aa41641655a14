//! Calls made again under their idempotency keys, after their tools have changed.

use crate::{
    request::{Post, act, act_as_task},
    server::{Server, get, task_of},
};
use longhaul_core::TaskPolicy;
use longhaul_runtime::{Tool, ToolSettings};
use serde_json::{Value, json};

fn named(mut post: Post) -> Post {
    post.body["params"]["_meta"]["dev.longhaul/idempotency-key"] = json!("k");
    post
}

/// `optional` requires more arguments than before, or was removed, or does not run as a task any more.
async fn change(server: &Server, nth: usize) {
    let settings = server.stage.settings("optional", TaskPolicy::Optional);
    let changed = match nth {
        0 => ToolSettings {
            input_schema: json!({"type": "object", "properties": {"act": {"type": "integer"}}, "required": ["act", "n"]}),
            ..settings
        },
        1 => ToolSettings {
            policy: TaskPolicy::Never,
            ..settings
        },
        2 => ToolSettings {
            policy: TaskPolicy::Always,
            ..settings
        },
        _ => {
            assert!(server.engine.remove_tool("optional"));
            return;
        }
    };
    server.engine.put_tool(Tool::new(changed).unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_repeated_call_gets_its_task_whatever_happened_to_its_tool() {
    for nth in 0..4 {
        let server = Server::start().await;
        let session = server.session().await;
        let legacy = |act| Post::legacy(Some(&session), "tools/call", act);
        let create = named(Post::modern("tools/call", act("optional", "wait")));
        let task = task_of(&server.result(&create).await);
        change(&server, nth).await;
        assert_eq!(task_of(&server.result(&create).await), task, "{nth}");
        let in_session = named(legacy(act_as_task("optional", "wait")));
        assert_eq!(task_of(&server.result(&in_session).await), task, "{nth}");
        server.stage.released.count();
        server.poll(&task, "completed").await;
        for plain in [
            Post::modern_plain("tools/call", act("optional", "wait")),
            legacy(act("optional", "wait")),
        ] {
            let result = server.result(&named(plain)).await;
            assert_eq!(result["content"][0]["text"], "done", "{nth}");
        }
        assert_eq!(server.stage.begun.get(), 1, "{nth}");
    }
}

/// A plain call has no task until its caller asks for one.
#[tokio::test]
async fn a_plain_call_made_again_is_waited_for_and_can_become_a_task() {
    let server = Server::one_by_one().await;
    let call = named(Post::legacy(None, "tools/call", act("optional", "wait")));
    let mut client = server.connect().await;
    client.send(&call.to_bytes()).await;
    server.stage.begun.reaches(1).await;
    drop(client);
    change(&server, 3).await;
    let create = named(Post::modern("tools/call", act("optional", "wait")));
    let task = task_of(&server.result(&create).await);
    assert_eq!(server.result(&get(&task)).await["status"], "working");
    server.stage.released.count();
    assert_eq!(server.result(&call).await["content"][0]["text"], "done");
    assert_eq!((server.stage.begun.get(), server.stage.stopped.get()), (1, 0));
}

/// A different call is refused as if it had no key, and a key only finds calls of its own tool.
#[tokio::test]
async fn another_call_under_the_key_is_refused_as_before() {
    let server = Server::start().await;
    let create = named(Post::modern("tools/call", act("optional", "wait")));
    server.result(&create).await;
    let text = |answer: &Value| answer["error"]["message"].as_str().unwrap().to_owned();
    let other = named(Post::modern("tools/call", act("optional", "say")));
    let elsewhere = named(Post::modern("tools/call", act("gone", "wait")));
    let mut client = server.connect().await;
    let taken = client.exchange(&other).await.json();
    assert!(text(&taken).contains("idempotency key"), "{taken}");
    let unknown = client.exchange(&elsewhere).await.json();
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    change(&server, 0).await;
    let result = client.result(&other).await;
    assert_eq!(result["isError"], true, "{result}");
    change(&server, 3).await;
    let gone = client.exchange(&other).await.json();
    assert_eq!(gone["error"]["code"], -32602, "{gone}");
    assert_eq!(server.stage.begun.get(), 1);
}

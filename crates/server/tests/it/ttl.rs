//! How long a task is kept: the tool's retention, and the TTL that its client requests.

use crate::{
    clock::{TestClock, until},
    request::Post,
    server::{Options, Server, get, task_of},
};
use longhaul_core::{Millis, TaskPolicy};
use longhaul_runtime::ToolSettings;
use serde_json::{Value, json};
use std::time::Duration;

const HOUR: Millis = 3_600_000;
const MINUTE: Duration = Duration::from_secs(60);

/// A server with tools of these retentions.
async fn keeping(clock: &TestClock, tools: &[(&str, Millis, Option<Millis>)]) -> Server {
    let server = Server::with(Options::with_clock(clock)).await;
    for &(name, retention, max_retention) in tools {
        let settings = ToolSettings {
            retention,
            max_retention,
            ..server.stage.settings(name, TaskPolicy::Optional)
        };
        server.put_tool(settings).await;
    }
    server
}

fn create(session: &str, tool: &str, acting: &str, requested: &Value) -> Post {
    let mut post = Post::legacy_call(Some(session), tool, acting);
    post.body["params"]["task"] = requested.clone();
    post
}

/// Waits until a task is not kept any more.
async fn deleted(server: &Server, task: &str) {
    until(async || server.exchange(&get(task)).await.json().get("error").is_some()).await;
}

#[tokio::test]
async fn a_requested_ttl_is_granted_within_bounds() {
    let forever = ToolSettings::FOREVER;
    let tools = [
        ("hour", HOUR, None),
        ("up_to_a_day", HOUR, Some(24 * HOUR)),
        ("brief", 1_000, None),
        ("unbounded", HOUR, Some(forever)),
        ("forever", forever, None),
    ];
    let server = keeping(&TestClock::default(), &tools).await;
    let session = server.session().await;
    for (tool, requested, granted) in [
        ("hour", json!({}), json!(HOUR)),
        ("hour", json!({"ttl": 0}), json!(60_000)),
        ("hour", json!({"ttl": 90_000}), json!(90_000)),
        ("hour", json!({"ttl": HOUR + 1}), json!(HOUR)),
        ("up_to_a_day", json!({}), json!(HOUR)),
        ("up_to_a_day", json!({"ttl": 2 * HOUR}), json!(2 * HOUR)),
        ("up_to_a_day", json!({"ttl": 48 * HOUR}), json!(24 * HOUR)),
        ("brief", json!({"ttl": 1}), json!(1_000)),
        ("unbounded", json!({"ttl": 1_000 * HOUR}), json!(1_000 * HOUR)),
        ("forever", json!({}), json!(null)),
        ("forever", json!({"ttl": HOUR}), json!(HOUR)),
    ] {
        let created = server.result(&create(&session, tool, "wait", &requested)).await;
        assert_eq!(created["task"]["ttl"], granted, "{tool} {requested}");
        let task = task_of(&created);
        let asked = Post::on_task(&session, "tasks/get", &task);
        assert_eq!(server.result(&asked).await["ttl"], granted, "{tool} {requested}");
        assert_eq!(server.result(&get(&task)).await["ttlMs"], granted, "{tool} {requested}");
    }
    for wrong in [json!(-1), json!(1.5), json!("1h")] {
        let refused = create(&session, "hour", "wait", &json!({"ttl": wrong}));
        assert_eq!(server.error(&refused).await, (200, -32602));
    }
    // A modern client cannot request a TTL.
    let mut modern = Post::call("hour", "wait");
    modern.body["params"]["task"] = json!({"ttl": 90_000});
    assert_eq!(server.result(&modern).await["ttlMs"], HOUR);
}

/// Invariant 6: the work continues, and its outcome can be read for the granted time.
#[tokio::test]
async fn a_short_ttl_deletes_no_live_task_and_is_over_a_while_after_the_end() {
    let clock = TestClock::default();
    let server = keeping(&clock, &[("hour", HOUR, None)]).await;
    let session = server.session().await;
    let requested = json!({"ttl": 1});
    let long = server.task(&create(&session, "hour", "wait", &requested)).await;
    let short = server.task(&create(&session, "hour", "say", &requested)).await;
    server.poll(&short, "completed").await;
    clock.advance(MINUTE * 2);
    deleted(&server, &short).await;
    assert_eq!(server.result(&get(&long)).await["status"], "working");
    clock.advance(MINUTE * 60);
    server.stage.released.count();
    let done = server.poll(&long, "completed").await;
    assert!(done["ttlMs"].as_u64().unwrap() >= 60 * 60_000, "{done}");
    clock.advance(MINUTE * 30);
    deleted(&server, &long).await;
}

//! What an operator sees of upstreams, and of tasks that wait for a slot.

use crate::world::World;
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn an_upstream_is_seen_and_paused_with_all_its_tools() {
    let world = World::new(true).await;
    world.ended("fails", json!({"text": "no"})).await;
    let running = world.running("runs").await;
    let text = world.get("/api/upstreams").await.text().await.unwrap();
    assert!(!text.contains("-0.0"), "the rate of one without tools: {text}");
    let upstreams = world.json("/api/upstreams").await;
    let [near, far] = &upstreams.as_array().unwrap()[..] else {
        panic!("{upstreams}")
    };
    assert_eq!(
        (
            &near["name"],
            &near["state"],
            &near["tools"],
            &near["running"],
            &near["failed"]
        ),
        (&json!("near"), &json!("up"), &json!(2), &json!(1), &json!(1))
    );
    assert_eq!(
        (&far["state"], &far["reason"]),
        (&json!("down"), &json!("connection refused"))
    );
    assert_eq!(far["leftOut"], json!({"gated": "`near` has one of this name"}));
    assert_eq!(near.get("leftOut"), None);
    let metrics = world.get("/metrics").await.text().await.unwrap();
    for line in [
        r#"longhaul_upstream_up{upstream="near"} 1"#,
        r#"longhaul_upstream_up{upstream="far"} 0"#,
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line} is not in\n{metrics}"
        );
    }

    // A tool that is paused by itself is resumed with its upstream, too.
    world.act("/api/tools/fails/pause").await;
    let (status, done) = world.act("/api/upstreams/near/pause").await;
    assert_eq!((status, &done["tools"]), (200, &json!(["gated", "fails"])));
    let upstreams = world.json("/api/upstreams").await;
    assert_eq!(upstreams[0]["pausedTools"], 2);
    assert_eq!(
        (&upstreams[0]["waiting"], &upstreams[0]["concurrency"]),
        (&json!(3), &json!(4))
    );
    let waiting = world.client.start("fails", json!({"text": "later"})).await.unwrap();
    world.state(waiting.id(), "queued").await;
    // What runs runs on.
    world.gate.add_permits(1);
    world.state(&running, "succeeded").await;
    let page = world.get("/upstreams").await.text().await.unwrap();
    for shown in [
        "connection refused",
        "gated is not offered:",
        "action=\"/upstreams/near/resume\"",
        "<a href=\"/upstreams\" aria-current=\"page\">",
    ] {
        assert!(page.contains(shown), "{shown} is not in\n{page}");
    }
    let resumed = world
        .request(Method::POST, "/upstreams/near/resume")
        .header("origin", format!("http://{}", world.address));
    assert_eq!(resumed.send().await.unwrap().status(), 303);
    world.state(waiting.id(), "failed").await;
    let lines = world.audit.lines();
    let ends = lines
        .iter()
        .filter(|line| !line["detail"].as_str().unwrap_or_default().ends_with("; begins"));
    let of_upstream = ends.filter(|line| line["tool"].is_null() && line["task"].is_null());
    let paused: Vec<_> = of_upstream
        .map(|line| (line["action"].clone(), line["detail"].clone()))
        .collect();
    let near = json!("the server's user; upstream near");
    assert_eq!(paused, [(json!("pause"), near.clone()), (json!("resume"), near)]);

    assert_eq!(world.act("/api/upstreams/nowhere/pause").await.0, 404);
    // One that has no tools yet: those that it gets are paused.
    assert_eq!(world.act("/api/upstreams/far/pause").await.0, 200);
    assert_eq!(world.json("/api/upstreams").await[1]["paused"], true);
    world.offer_of("later", "far").await;
    let waiting = world.client.start("later", json!({"text": "x"})).await.unwrap();
    world.state(waiting.id(), "queued").await;
    let tools = world.json("/api/tools").await;
    let later = tools
        .as_array()
        .unwrap()
        .iter()
        .find(|tool| tool["name"] == "later")
        .unwrap();
    assert_eq!(
        (&later["paused"], &later["pausedUpstream"]),
        (&json!(true), &json!("far"))
    );
    // What was found a moment ago is said again.
    loop {
        let problems = world.json("/api/problems").await["problems"].clone();
        let mut commands = problems.as_array().unwrap().iter().map(|problem| &problem["command"]);
        if commands.any(|command| *command == json!(["resume", "--upstream", "far"])) {
            break;
        }
    }
    world.act("/api/upstreams/far/resume").await;
    world.state(waiting.id(), "succeeded").await;
}

/// An upstream that is away for long offers nothing, and its tasks wait all the same.
#[tokio::test]
async fn tasks_of_an_upstream_are_found_when_it_offers_no_tools_any_more() {
    let world = World::new(true).await;
    world.offer_of("later", "far").await;
    world.act("/api/tools/later/pause").await;
    let waiting = world.client.start("later", json!({"text": "x"})).await.unwrap();
    world.state(waiting.id(), "queued").await;
    assert!(world.server.engine().unwrap().remove_tool("later"));
    let far = world.json("/api/upstreams").await[1].clone();
    assert_eq!((&far["tools"], &far["queued"]), (&json!(0), &json!(1)));
    let found = world.json("/api/tasks?upstream=far").await["tasks"].clone();
    assert_eq!(
        (found.as_array().unwrap().len(), &found[0]["id"]),
        (1, &json!(waiting.id()))
    );
    assert_eq!(found[0]["status"], "queued; the tool is paused");
    let of_near = world.json("/api/tasks?upstream=near").await["tasks"].clone();
    assert_eq!(of_near, json!([]));
    // What was found a moment ago is said again.
    loop {
        let problems = world.json("/api/problems").await["problems"].clone();
        let mut commands = problems.as_array().unwrap().iter().map(|problem| &problem["command"]);
        if commands.any(|command| *command == json!(["pause", "--upstream", "far"])) {
            break;
        }
    }
    let (status, done) = world.act("/api/bulk/cancel?upstream=far&state=live").await;
    assert_eq!((status, &done["done"]), (200, &json!(1)));
    world.state(waiting.id(), "cancelled").await;
    let ended = world.json("/api/tasks?upstream=far").await["tasks"].clone();
    assert_eq!(ended[0]["id"], waiting.id(), "also when none of them is live");
}

#[tokio::test]
async fn a_queued_task_says_what_is_before_it_in_all() {
    let world = World::new(true).await;
    for text in ["one", "two"] {
        world.running(text).await;
    }
    let mut last = String::new();
    for _ in 0..2 {
        let task = world.client.start("gated", json!({"text": "waits"})).await.unwrap();
        last = task.id().to_owned();
        world.state(&last, "queued").await;
    }
    let expected =
        "queued behind 1 of its principal's tasks; at most 2 of its tool run at once, 2 run and 2 are queued";
    while world.json(&format!("/api/tasks/{last}")).await["waitsFor"] != expected {}
}

/// In lists, on the page, and for an action on many.
#[tokio::test]
async fn tasks_are_filtered_by_upstream() {
    let world = World::new(true).await;
    let of_near = world.ended("fails", json!({"text": "no"})).await;
    world.ended("signs", json!({"key": "s3cret", "user": "me"})).await;
    let running = world.running("one").await;
    let found = world.json("/api/tasks?upstream=near").await;
    let found: Vec<&str> = found["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["id"].as_str().unwrap())
        .collect();
    assert_eq!(found, [running.as_str(), of_near.as_str()]);
    assert_eq!(world.json("/api/tasks?upstream=far").await["tasks"], json!([]));
    let refused = world.get("/api/tasks?upstream=nowhere").await;
    assert_eq!(refused.status(), 400);
    let text = refused.text().await.unwrap();
    assert!(
        text.contains("must be the name of an upstream of this server"),
        "{text}"
    );

    let page = world.page("/upstreams").await;
    assert!(page.contains(r#"<a href="/?upstream=near">near</a>"#), "{page}");
    let page = world.page("/?upstream=near").await;
    assert!(page.contains(&running) && page.contains(&of_near), "{page}");
    assert!(page.contains("/bulk/cancel?upstream=near"), "{page}");
    let (status, done) = world.act("/api/bulk/cancel?upstream=near").await;
    assert_eq!((status, &done["done"]), (200, &json!(1)), "{done}");
    world.state(&running, "cancelled").await;
}

#[tokio::test]
async fn a_queued_task_says_that_other_tools_have_all_slots() {
    let world = World::with_slots(2).await;
    for text in ["one", "two"] {
        world.running(text).await;
    }
    let task = world.client.start("fails", json!({"text": "waits"})).await.unwrap();
    world.state(task.id(), "queued").await;
    let stats = world.json("/api/stats").await;
    assert_eq!((&stats["takenSlots"], &stats["maxRunning"]), (&json!(2), &json!(2)));
    let expected =
        "queued; 0 run and 1 are queued; all 2 slots of the server (`max_running`) are taken, 2 of them by gated";
    while world.json(&format!("/api/tasks/{}", task.id())).await["waitsFor"] != expected {}
    let metrics = world.get("/metrics").await.text().await.unwrap();
    for line in [
        "longhaul_taken_slots 2",
        "longhaul_max_running 2",
        r#"longhaul_tool_concurrency{tool="gated"} 2"#,
        r#"longhaul_tool_paused{tool="gated"} 0"#,
        r#"longhaul_upstream_waiting_calls{upstream="near"} 3"#,
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line} is not in\n{metrics}"
        );
    }
}

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

#[tokio::test]
async fn the_latest_lines_of_the_audit_log_are_shown() {
    let world = World::new(true).await;
    let id = world.running("<b>runs</b>").await;
    world.act("/api/tools/gated/pause").await;
    world.act(&format!("/api/tasks/{id}/cancel")).await;
    let all = world.json("/api/audit").await;
    let actions: Vec<&str> = all["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["action"].as_str().unwrap())
        .collect();
    assert_eq!(actions, ["cancel", "cancel", "pause", "pause"], "newest first");
    assert_eq!(all["lines"][1]["detail"], "the server's user; begins");
    let of_task = world.json(&format!("/api/audit?task={id}")).await;
    assert_eq!(of_task["lines"].as_array().unwrap().len(), 2);
    assert_eq!(world.json("/api/audit?limit=1").await["lines"][0]["action"], "cancel");
    assert_eq!(
        world.get("/api/audit?taks=x").await.status(),
        400,
        "a parameter that is mistyped"
    );
    for query in ["action=canceled", "outcome=OK", "task=01m8"] {
        for path in ["/api/audit?", "/audit?"] {
            let wrong = world.get(&format!("{path}{query}")).await;
            assert_eq!(wrong.status(), 400, "{query}");
            assert!(wrong.text().await.unwrap().contains("it must be "), "{query}");
        }
    }
    let page = world.get("/audit?action=cancel").await.text().await.unwrap();
    assert!(
        page.contains(&format!("<a class=\"id\" href=\"/tasks/{id}\">")),
        "{page}"
    );
    assert!(!page.contains("<td data-label=\"Action\">pause"), "{page}");
    let task = world.get(&format!("/tasks/{id}")).await.text().await.unwrap();
    assert!(task.contains(&format!("href=\"/audit?task={id}\"")), "{task}");
}

#[tokio::test]
async fn an_operator_is_told_of_lines_that_the_audit_log_has_lost() {
    let world = World::new(true).await;
    let says = async |path: &str, text: &str| world.get(path).await.text().await.unwrap().contains(text);
    assert!(!says("/audit", "cannot be written").await);
    world.audit.lose(3);
    assert!(says("/audit", "The log cannot be written: 3 later lines are missing").await);
    assert_eq!(world.json("/api/audit").await["missing"], 3);
    while !says("/api/problems", "the audit log cannot be written: 3 lines are missing").await {}
    assert!(says("/metrics", "longhaul_lost_audit_lines_total 3").await);
}

#[tokio::test]
async fn arguments_that_a_schema_marks_as_secret_are_hidden() {
    let world = World::new(true).await;
    let id = world.ended("signs", json!({"key": "s3cret", "user": "me"})).await;
    let task = world.json(&format!("/api/tasks/{id}")).await;
    assert_eq!(task["arguments"], json!({"key": "(hidden)", "user": "me"}));
    assert_eq!(task["outcome"]["result"]["content"][0]["text"], "6");
    let page = world.get(&format!("/tasks/{id}")).await.text().await.unwrap();
    assert!(page.contains("(hidden)") && !page.contains("s3cret"), "{page}");
}

#[tokio::test]
async fn tools_and_metrics_count_what_becomes_of_calls() {
    let world = World::new(true).await;
    let failed = world.ended("fails", json!({"text": "no"})).await;
    for text in ["one", "two"] {
        world.running(text).await;
    }
    // Two may run at once.
    let queued = world.client.start("gated", json!({"text": "three"})).await.unwrap();
    world.state(queued.id(), "queued").await;
    let tools = world.json("/api/tools").await;
    let tool = |name: &str| {
        tools
            .as_array()
            .unwrap()
            .iter()
            .find(|tool| tool["name"] == name)
            .unwrap()
            .clone()
    };
    let gated = tool("gated");
    assert_eq!(
        (&gated["running"], &gated["queued"], &gated["concurrency"]),
        (&json!(2), &json!(1), &json!(2))
    );
    assert!(gated["queueAgeMillis"].is_u64());
    assert_eq!(
        (&tool("fails")["failed"], &tool("asks")["failed"]),
        (&json!(1), &json!(0))
    );
    let failing = tool("fails");
    assert_eq!(
        (
            &failing["perMinute"],
            &failing["failedInRow"],
            &failing["lastFailure"]["task"]
        ),
        (&json!(0.2), &json!(1), &json!(failed))
    );
    assert_eq!(
        (&gated["perMinute"], &gated["lastFailure"]),
        (&json!(0.0), &json!(null))
    );
    let page = world.page("/tools").await;
    assert!(page.contains(&format!(r#"<a href="/tasks/{failed}">"#)), "{page}");
    let text = world.get("/metrics").await.text().await.unwrap();
    for line in [
        r#"longhaul_tasks_created_total{tool="gated"} 3"#,
        r#"longhaul_tasks_ended_total{tool="fails",outcome="failed"} 1"#,
        r#"longhaul_tasks{tool="gated",state="running"} 2"#,
        r#"longhaul_tasks{tool="gated",state="queued"} 1"#,
        r#"longhaul_attempts_ended_total{tool="fails",outcome="failed"} 1"#,
        r#"longhaul_task_duration_seconds_count{tool="fails"} 1"#,
        "longhaul_running_attempts 2",
        "longhaul_open_streams 0",
        r#"longhaul_limit_refusals_total{limit="calls"} 0"#,
        "longhaul_store_commits_total 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    assert!(
        !text.contains(&failed) && !text.contains("local"),
        "no ids and no principals"
    );
    world.gate.add_permits(3);
    world.state(queued.id(), "succeeded").await;
    assert_eq!(world.json("/api/stats").await["running"], 0);
}

/// Else the first failure would not be an increase.
#[tokio::test]
async fn what_has_not_happened_is_counted_as_0() {
    let world = World::new(true).await;
    let text = world.get("/metrics").await.text().await.unwrap();
    for line in [
        r#"longhaul_tasks_created_total{tool="fails"} 0"#,
        r#"longhaul_tasks_ended_total{tool="fails",outcome="failed"} 0"#,
        r#"longhaul_attempts_ended_total{tool="fails",outcome="failed"} 0"#,
        r#"longhaul_attempts_ended_total{tool="stepped",outcome="blocked"} 0"#,
        r#"longhaul_task_duration_seconds_count{tool="asks"} 0"#,
        r#"longhaul_limit_refusals_total{limit="memory"} 0"#,
        "longhaul_failed_writes_total 0",
        "longhaul_quota_refusals_total 0",
        "longhaul_lost_audit_lines_total 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
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
async fn whoever_watches_is_told_of_changes() {
    let world = World::new(true).await;
    let mut events = world.get("/api/events").await;
    assert_eq!(events.headers()["content-type"], "text/event-stream");
    world.running("something").await;
    let mut text = String::new();
    while !text.contains("event: change") {
        text.push_str(&String::from_utf8_lossy(&events.chunk().await.unwrap().unwrap()));
    }
    world.stop.cancel();
    while let Some(more) = events.chunk().await.unwrap() {
        text.push_str(&String::from_utf8_lossy(&more));
    }
}

/// Every path of the description is served, with its methods and no others.
#[tokio::test]
async fn the_description_says_what_is_served() {
    let world = World::new(true).await;
    let description = world.json("/api/openapi.json").await;
    let id = world.ended("fails", json!({"text": "no"})).await;
    for (path, methods) in description["paths"].as_object().unwrap() {
        let path = path.replace("{id}", &id).replace("{name}", "fails");
        for method in ["get", "post", "delete", "put"] {
            if path == "/api/drain" || path == "/api/events" {
                continue;
            }
            let is_described = methods.get(method).is_some();
            let method: Method = method.to_uppercase().parse().unwrap();
            // Deletes nothing, since a browser would name its origin.
            let request = world
                .request(method.clone(), &path)
                .header("sec-fetch-site", "cross-site");
            let refused = request.send().await.unwrap().status();
            assert_eq!(refused, 403, "{method} {path}");
            if method == Method::DELETE {
                continue;
            }
            let status = world
                .request(method.clone(), &path)
                .send()
                .await
                .unwrap()
                .status()
                .as_u16();
            assert_eq!(status != 405, is_described, "{method} {path}: {status}");
        }
    }
    let described = &description["components"]["schemas"];
    let task = world.json(&format!("/api/tasks/{id}")).await;
    for member in task.as_object().unwrap().keys() {
        let is_of_list = described["Task"]["properties"].get(member).is_some();
        let is_of_details = described["TaskDetails"]["allOf"][1]["properties"].get(member).is_some();
        assert!(is_of_list || is_of_details, "`{member}` is not described");
    }
    for (answer, name) in [
        (world.json("/api/stats").await, "Stats"),
        (world.json("/api/tools").await[0].clone(), "Tool"),
    ] {
        for member in answer.as_object().unwrap().keys() {
            assert!(
                described[name]["properties"].get(member).is_some(),
                "`{member}` of {name} is not described"
            );
        }
    }
    assert_eq!(world.get("/api/nothing").await.status(), 404);
}

#[tokio::test]
async fn live_tasks_are_counted_by_principal() {
    let world = World::new(true).await;
    world.ended("fails", json!({"text": "no"})).await;
    assert_eq!(
        world.json("/api/principals").await,
        json!({"principals": [], "counted": 0, "orMore": false})
    );
    world.running("runs").await;
    world.asking().await;
    let found = loop {
        let found = world.json("/api/principals").await;
        if found["counted"] == 2 {
            break found;
        }
    };
    let [one] = &found["principals"].as_array().unwrap()[..] else {
        panic!("{found}")
    };
    assert!(one["principal"].is_string() && one["oldestMillis"].is_u64(), "{one}");
    let counts = ["queued", "blocked", "asking"].map(|name| one[name].as_u64().unwrap());
    assert_eq!(counts, [0, 0, 1]);
    let live = ["running", "suspended"].map(|name| one[name].as_u64().unwrap());
    assert_eq!(live.iter().sum::<u64>(), 2);
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

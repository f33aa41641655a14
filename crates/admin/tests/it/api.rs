//! What an operator sees.

use crate::world::World;
use longhaul::Quota;
use reqwest::Method;
use serde_json::{Value, json};

fn ids(page: &Value) -> Vec<&str> {
    let tasks = page["tasks"].as_array().unwrap();
    tasks.iter().map(|task| task["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn an_operator_sees_which_tasks_a_client_considers_related() {
    let world = World::new(true).await;
    let related = json!(["one-task", "another <task>"]);
    let meta = json!({"io.modelcontextprotocol/relatedTaskIds": related});
    let params = json!({"name": "gated", "arguments": {"text": "related"}, "_meta": meta});
    let created = world.client.request("tools/call", params).await.unwrap();
    let id = created["taskId"].as_str().unwrap();
    let task = world.json(&format!("/api/tasks/{id}")).await;
    assert_eq!(task["relatedTaskIds"], related);
    let page = world.page(&format!("/tasks/{id}")).await;
    assert!(page.contains("<code>one-task another &#60;task&#62;</code>"), "{page}");
    let id = world.running("alone").await;
    let task = world.json(&format!("/api/tasks/{id}")).await;
    assert_eq!(task.get("relatedTaskIds"), None);
}

#[tokio::test]
async fn tasks_are_found_and_counted_by_their_labels() {
    let world = World::new(true).await;
    let first = world.ended("stepped", json!({"text": "a, b\\"})).await;
    let second = world.ended("stepped", json!({"text": "x"})).await;
    world.ended("fails", json!({"text": "x"})).await;
    let found = async |query: &str| world.json(&format!("/api/tasks?label={query}")).await;
    assert_eq!(ids(&found("text%3Dx").await), [&second]);
    assert_eq!(ids(&found("env%3Dprod").await).len(), 2);
    assert_eq!(ids(&found("env%3Dprod%2C+text%3Da%5C%2C%20b%5C%5C").await), [&first]);
    assert_eq!(ids(&found("env%3Dtest").await), [""; 0]);
    for path in ["/api/tasks?label=prod", "/?label=prod"] {
        let wrong = world.get(path).await;
        assert_eq!(wrong.status(), 400);
        assert!(
            wrong
                .text()
                .await
                .unwrap()
                .contains("a name and a value, such as team=infra")
        );
    }
    let task = world.json(&format!("/api/tasks/{first}")).await;
    assert_eq!(task["labels"], json!({"env": "prod", "text": "a, b\\"}));
    // A click adds the label to the filter.
    let page = world.page("/?label=env%3Dprod").await;
    let link = "/?label=env%3Dprod%2Ctext%3Da%5C%2C%20b%5C%5C";
    assert!(
        page.contains(&format!(r#"<a class="label" href="{link}">text=a, b\</a>"#)),
        "{page}"
    );
    let page = world.page(link).await;
    assert!(page.contains(&first) && !page.contains(&second), "{page}");
    assert!(
        world
            .page(&format!("/tasks/{second}"))
            .await
            .contains(r#"href="/?label=text%3Dx""#)
    );
    let client = world
        .client
        .request("tasks/get", json!({"taskId": second}))
        .await
        .unwrap();
    assert_eq!(
        client["_meta"]["dev.longhaul/labels"],
        json!({"env": "prod", "text": "x"})
    );
    let metrics = world.get("/metrics").await.text().await.unwrap();
    let counted = r#"longhaul_labelled_tasks_ended_total{label="env",value="prod",outcome="succeeded"} 2"#;
    assert!(
        metrics.contains(counted) && !metrics.contains(r#"label="text""#),
        "{metrics}"
    );
}

#[tokio::test]
async fn tasks_are_filtered_and_paged() {
    let world = World::new(true).await;
    let failed = world.ended("fails", json!({"text": "the DISK is full"})).await;
    let running = world.running("runs").await;
    let (asking, _) = world.asking().await;
    // Ids of one millisecond are in no order of their own.
    let mut by_id = [failed.clone(), running.clone(), asking.clone()];
    by_id.sort();
    let [oldest, second, newest] = &by_id;
    let found = async |query: &str| world.json(&format!("/api/tasks?{query}")).await;
    assert_eq!(ids(&found("").await), [newest, second, oldest]);
    assert_eq!(ids(&found("state=failed").await), [&failed]);
    assert_eq!(ids(&found("state=live&tool=gated").await), [&running]);
    assert_eq!(ids(&found("asks=yes").await), [&asking]);
    assert_eq!(ids(&found("text=disk%20is").await), [&failed]);
    assert_eq!(ids(&found("older=1h").await), [""; 0]);
    assert_eq!(ids(&found("younger=1h&order=oldest").await), [oldest, second, newest]);
    let first = found("limit=2").await;
    assert_eq!(ids(&first), [newest, second]);
    let rest = found(&format!("limit=2&after={}", first["next"].as_str().unwrap())).await;
    assert_eq!((ids(&rest), rest.get("next")), (vec![oldest.as_str()], None));
    assert_eq!(
        world.get("/api/tasks?sate=failed").await.status(),
        400,
        "a parameter that is mistyped"
    );
    for (query, said) in [
        ("state=runing", "`state` cannot be"),
        ("after=garbage", "it must be the whole id of a task"),
        ("parent=01m8", "it must be the whole id of a task"),
    ] {
        for path in ["/api/tasks?", "/?"] {
            let wrong = world.get(&format!("{path}{query}")).await;
            assert_eq!(wrong.status(), 400, "{query}");
            let text = wrong.text().await.unwrap();
            assert!(text.contains(said), "{text}");
        }
    }
    // A tool that nobody knows is no error: it may have been removed with its last task.
    let none = found("tool=fail").await;
    assert_eq!(ids(&none), [""; 0]);
    let hint = none["hint"].as_str().unwrap();
    assert!(
        hint.starts_with("there is no tool `fail`, and no task of one; the tools are asks, fails, "),
        "{hint}"
    );
    assert!(world.page("/?tool=fail").await.contains("there is no tool `fail`"));
    assert_eq!(found("tool=fails&state=live").await.get("hint"), None);
}

/// A list says what was made of a task, so that nobody makes it again.
#[tokio::test]
async fn a_retried_task_is_marked_in_lists() {
    let world = World::new(true).await;
    let failed = world.ended("fails", json!({"text": "no"})).await;
    let other = world.ended("fails", json!({"text": "neither"})).await;
    let (_, done) = world.act(&format!("/api/tasks/{failed}/retry")).await;
    let new = done["task"].as_str().unwrap();
    let listed = world.json("/api/tasks?state=failed").await;
    let retried_as = |id: &str| {
        let tasks = listed["tasks"].as_array().unwrap();
        tasks.iter().find(|task| task["id"] == id).unwrap()["retriedAs"].clone()
    };
    assert_eq!((retried_as(&failed), retried_as(&other)), (json!(new), Value::Null));
    let page = world.page("/?state=failed").await;
    let link = format!(r#"retried as <a class="id" href="/tasks/{new}""#);
    assert_eq!(page.matches(&link).count(), 1, "{page}");
}

/// Whoever has as much as may be is refused, and an operator is told so before anybody complains.
#[tokio::test]
async fn a_principal_at_its_limit_is_a_problem() {
    let quota = Quota {
        live_per_principal: Some(2),
        live_in_all: Some(3),
        ..Quota::default()
    };
    let world = World::with_quota(quota).await;
    let found = async || {
        let problems = world.json("/api/problems").await;
        let problems = problems["problems"].as_array().unwrap().clone();
        // The others are those of the upstream `far`.
        problems.into_iter().skip(2).collect::<Vec<_>>()
    };
    world.running("one").await;
    assert_eq!(found().await, [Value::Null; 0]);
    world.running("two").await;
    // What was found a moment ago is said again.
    let problems = loop {
        let problems = found().await;
        if !problems.is_empty() {
            break problems;
        }
    };
    let [problem] = &problems[..] else {
        panic!("{problems:?}")
    };
    let principal = longhaul::Principal::local();
    let what = format!(
        "{} has 2 live tasks, and may have 2: its calls are refused",
        principal.as_str()
    );
    assert_eq!(problem["what"], what);
    assert_eq!(
        problem["command"],
        json!(["tasks", "--state", "live", "--principal", principal.as_str()])
    );
    let refused = world.client.start("gated", json!({"text": "three"})).await;
    assert!(refused.is_err());
    world.gate.add_permits(2);
    while !found().await.is_empty() {}
}

/// A plain call is in memory and has no id that clients know. The operator sees it and can end it.
#[tokio::test]
async fn plain_calls_are_seen_and_ended() {
    let world = World::new(true).await;
    let client = longhaul::testing::Client::connect(&world.server, longhaul::Era::Legacy)
        .await
        .unwrap();
    let calling = tokio::spawn(async move { client.call("gated", json!({"text": "plain"})).await });
    let id = loop {
        let page = world.json("/api/tasks?text=plain").await;
        if let [id] = ids(&page)[..] {
            assert_eq!(page["tasks"][0]["announced"], false);
            break id.to_owned();
        }
    };
    assert_eq!(world.json("/api/stats").await["running"], 1);
    assert_eq!(
        world.json(&format!("/api/tasks/{id}")).await["arguments"],
        json!({"text": "plain"})
    );
    assert_eq!(world.act(&format!("/api/tasks/{id}/cancel")).await.0, 200);
    assert!(
        calling.await.unwrap().is_err(),
        "its caller learns that it was cancelled"
    );
}

/// Attempts that failed one after another are a problem, until one task succeeds.
#[tokio::test]
async fn a_tool_that_fails_again_and_again_is_named() {
    let world = World::new(true).await;
    let mut last = String::new();
    for _ in 0..5 {
        last = world.ended("fails", json!({"text": "the tape is torn"})).await;
    }
    let problem = loop {
        let problems = world.json("/api/problems").await["problems"].clone();
        let mut found = problems.as_array().unwrap().iter();
        if let Some(found) = found.find(|problem| problem["page"] == format!("/tasks/{last}")) {
            break found.clone();
        }
    };
    let what = problem["what"].as_str().unwrap();
    assert!(what.starts_with("the last 5 attempts of fails have failed"), "{what}");
    assert_eq!(problem["command"], json!(["pause", "fails"]));
    let page = world.page("/upstreams").await;
    assert!(page.contains(&format!(r#"<a href="/tasks/{last}">"#)), "{page}");
}

/// The page and the doctor have it from one place.
#[tokio::test]
async fn what_is_wrong_is_said_with_what_to_do() {
    let world = World::new(true).await;
    let found = async || {
        world.json("/api/problems").await["problems"]
            .as_array()
            .unwrap()
            .clone()
    };
    let [far, left_out] = &found().await[..] else {
        panic!("{:?}", found().await)
    };
    let what = "the tool gated of the upstream far is not offered: `near` has one of this name";
    assert_eq!(left_out["what"], what);
    assert_eq!(far["what"], "the upstream far does not answer: connection refused");
    assert_eq!(far.get("command"), None, "it offers no tools whose calls could wait");
    world.act("/api/tools/gated/pause").await;
    let task = world.client.start("gated", json!({"text": "waits"})).await.unwrap();
    world.state(task.id(), "queued").await;
    // What was found a moment ago is said again.
    let problems = loop {
        let problems = found().await;
        if problems.len() > 2 {
            break problems;
        }
    };
    let what = problems[2]["what"].as_str().unwrap();
    assert!(what.starts_with("1 task of gated is queued, the first for "), "{what}");
    assert_eq!(problems[2]["command"], json!(["resume", "gated"]));
    let page = world.page("/").await;
    for problem in &problems[..2] {
        let what = problem["what"].as_str().unwrap();
        // As HTML has it.
        assert!(page.contains(what.split('`').next().unwrap()), "{page}");
    }
    assert!(page.contains(r#"<a href="/upstreams">show</a>"#), "{page}");
    // What was found before an action is not told after it.
    assert_eq!(found().await.len(), 3);
    world.act("/api/tools/gated/resume").await;
    assert_eq!(found().await.len(), 2);
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
        page.contains(&format!("<a class=\"id\" href=\"/tasks/{id}\" title")),
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
    assert!(gated["queueAgeMs"].is_u64());
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
    // What was counted counts for a moment.
    while world.json("/api/stats").await["running"] != 0 {
        tokio::task::yield_now().await;
    }
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
    assert!(one["principal"].is_string() && one["oldestMs"].is_u64(), "{one}");
    let counts = ["queued", "blocked", "asking"].map(|name| one[name].as_u64().unwrap());
    assert_eq!(counts, [0, 0, 1]);
    let live = ["running", "suspended"].map(|name| one[name].as_u64().unwrap());
    assert_eq!(live.iter().sum::<u64>(), 2);
}

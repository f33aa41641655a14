//! What an operator sees.

use crate::world::World;
use longhaul::Quota;
use serde_json::{Value, json};

fn ids(page: &Value) -> Vec<&str> {
    let tasks = page["tasks"].as_array().unwrap();
    tasks.iter().map(|task| task["id"].as_str().unwrap()).collect()
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
    let link = format!(r#"<a href="/tasks/{new}">retried as {new}</a>"#);
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

//! What an operator does.

use crate::world::{World, answered};
use reqwest::{Method, header};
use serde_json::{Value, json};

#[tokio::test]
async fn a_task_is_cancelled_and_made_again() {
    let world = World::new(true).await;
    let id = world.running("first").await;
    assert_eq!(
        world.act(&format!("/api/tasks/{id}/retry")).await.0,
        409,
        "it has not ended"
    );
    assert_eq!(
        world.act(&format!("/api/tasks/{id}/cancel")).await,
        (200, json!({"done": true}))
    );
    world.state(&id, "cancelled").await;
    assert_eq!(world.act(&format!("/api/tasks/{id}/cancel")).await.0, 409, "it is over");
    let (status, retried) = world.act(&format!("/api/tasks/{id}/retry")).await;
    assert_eq!(status, 200);
    let new = retried["task"].as_str().unwrap();
    assert_ne!(new, id);
    assert_eq!(
        world.act(&format!("/api/tasks/{id}/retry")).await.1["task"],
        new,
        "it is made once"
    );
    assert_eq!(world.json(&format!("/api/tasks/{id}")).await["retriedAs"], new);
    world.gate.add_permits(1);
    let task = world.state(new, "succeeded").await;
    assert_eq!(
        (&task["retryOf"], &task["arguments"]),
        (&json!(id), &json!({"text": "first"}))
    );
    assert_eq!(
        task["principal"],
        world.json(&format!("/api/tasks/{id}")).await["principal"]
    );
    assert_eq!(
        world.act(&format!("/api/tasks/{new}/retry")).await.0,
        409,
        "it has succeeded"
    );
    // The client that had the old one knows the new one, too.
    assert_eq!(world.client.follow(new).get().await.unwrap()["status"], "completed");
}

#[tokio::test]
async fn an_operator_calls_a_tool() {
    let world = World::new(true).await;
    let form = world.page("/tools/gated/call").await;
    assert!(form.contains(r#"name="field.text""#), "{form}");
    let (status, address) = world
        .submit("/tools/gated/call", "key=arguments&field.text=by+hand")
        .await;
    assert_eq!(status, 303);
    let id = address.strip_prefix("/tasks/").unwrap();
    world.gate.add_permits(1);
    let task = world.state(id, "succeeded").await;
    assert_eq!(
        (&task["arguments"], &task["principal"]),
        (&json!({"text": "by hand"}), &json!("local"))
    );

    let call = async |tool: &str, body: Value| {
        let request = world.request(Method::POST, &format!("/api/tools/{tool}/call"));
        answered(request.json(&body)).await
    };
    let (status, called) = call("asks", json!({"arguments": {}})).await;
    assert_eq!(status, 200, "{called}");
    let asks = called["task"].as_str().unwrap();
    while world.json(&format!("/api/tasks/{asks}")).await["asks"] != true {}
    for (tool, body, wanted, said) in [
        ("nothing", json!({"arguments": {}}), 404, "no such tool"),
        ("gated", json!({"arguments": {"text": 1}}), 400, "text"),
        ("gated", json!({"text": "x"}), 400, "arguments"),
    ] {
        let (status, error) = call(tool, body).await;
        assert_eq!(status, wanted, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
    let (status, _) = world.submit("/tools/gated/call", "key=arguments").await;
    assert_eq!(status, 400, "the text is missing");
    let lines = world.audit.lines();
    let made = lines.iter().filter(|line| line["action"] == "create");
    let made: Vec<_> = made.filter(|line| line["principal"] == "operator").collect();
    let outcomes: Vec<&Value> = made.iter().map(|line| &line["outcome"]).collect();
    assert_eq!(outcomes, ["ok", "ok", "unknown", "failed"]);
}

#[tokio::test]
async fn a_finished_task_is_deleted() {
    let world = World::new(true).await;
    let live = world.running("live").await;
    let delete = |id: &str| answered(world.request(Method::DELETE, &format!("/api/tasks/{id}")));
    assert_eq!(delete(&live).await.0, 409);
    let ended = world.ended("fails", json!({"text": "no"})).await;
    assert_eq!(delete(&ended).await, (200, json!({"done": true})));
    assert_eq!(delete(&ended).await.0, 404);
    assert!(world.client.follow(ended).get().await.is_err());
}

/// The rule of the page and of the command.
#[tokio::test]
async fn values_that_do_not_fit_the_form_are_no_answer() {
    let world = World::new(true).await;
    let (id, key) = world.asking().await;
    for content in [
        json!({"sure": "yes", "count": 3}),
        json!({"sure": true, "count": -1}),
        json!({"sure": true}),
    ] {
        let body = json!({"key": key, "answer": {"action": "accept", "content": content}}).to_string();
        let request = world
            .request(Method::POST, &format!("/api/tasks/{id}/answer"))
            .header(header::CONTENT_TYPE, "application/json");
        let (status, error) = answered(request.body(body)).await;
        assert_eq!(
            (status, &error["error"]["kind"]),
            (400, &json!("invalid")),
            "{content}: {error}"
        );
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("the answer does not fit the form: "), "{message}");
    }
    let task = world.json(&format!("/api/tasks/{id}")).await;
    assert_eq!(task["asks"], true, "the question is still open");
}

#[tokio::test]
async fn a_question_is_answered_once_and_only_as_it_asks() {
    let world = World::new(true).await;
    let (id, key) = world.asking().await;
    let path = format!("/api/tasks/{id}/answer");
    let answer = |key: &str, answer: serde_json::Value| {
        let body = json!({"key": key, "answer": answer}).to_string();
        let request = world
            .request(Method::POST, &path)
            .header(header::CONTENT_TYPE, "application/json");
        answered(request.body(body))
    };
    let (status, error) = answer(&key, json!({"action": "perhaps"})).await;
    assert_eq!((status, &error["error"]["kind"]), (400, &json!("invalid")), "{error}");
    assert_eq!(answer("in-99", json!({"action": "decline"})).await.0, 409);
    let accepted = json!({"action": "accept", "content": {"sure": true, "count": 3}});
    assert_eq!(answer(&key, accepted.clone()).await, (200, json!({"done": true})));
    assert_eq!(answer(&key, accepted).await.0, 409, "answered already");
    let task = world.state(&id, "succeeded").await;
    assert_eq!(task["outcome"]["result"]["content"][0]["text"], "sure: true, 3 times");
    // It leaves a trace, without what was answered.
    let [settled] = &task["settledQuestions"].as_array().unwrap()[..] else {
        panic!("{task}")
    };
    assert_eq!(
        (&settled["question"], &settled["how"], &settled["by"]),
        (&json!("Are you <b>sure</b>?"), &json!("accepted"), &json!("operator"))
    );
    assert!(
        settled["settledAt"].as_str() >= settled["askedAt"].as_str(),
        "{settled}"
    );
    assert!(!settled.to_string().contains("count"), "{settled}");
    let page = world.page(&format!("/tasks/{id}")).await;
    assert!(page.contains("accepted by the operator"), "{page}");

    let (id, _) = world.asking().await;
    let task = world.client.follow(id.clone());
    for (key, _) in task.questions().await.unwrap() {
        task.answer(&key, json!({"action": "decline"})).await.unwrap();
    }
    let task = world.state(&id, "failed").await;
    let settled = &task["settledQuestions"][0];
    assert_eq!(
        (&settled["how"], &settled["by"]),
        (&json!("declined"), &json!("client")),
        "{task}"
    );
}

#[tokio::test]
async fn only_blocked_tasks_are_released() {
    let world = World::new(true).await;
    let id = world.running("runs").await;
    let (status, error) = world.act(&format!("/api/tasks/{id}/release")).await;
    assert_eq!(
        (status, &error["error"]["message"]),
        (409, &json!("the task is not blocked"))
    );
}

#[tokio::test]
async fn unknown_tasks_are_unknown() {
    let world = World::new(true).await;
    for id in ["01m8a8y1pyxt3y4ytpzk743y8jp8bwgsb1p4", "x", "%2e%2e"] {
        for action in ["cancel", "retry", "release"] {
            let (status, error) = world.act(&format!("/api/tasks/{id}/{action}")).await;
            assert_eq!(
                (status, &error["error"]["kind"]),
                (404, &json!("not_found")),
                "{id} {action}"
            );
        }
        assert_eq!(world.get(&format!("/api/tasks/{id}")).await.status(), 404);
    }
}

#[tokio::test]
async fn actions_are_audited_also_when_they_fail() {
    let world = World::new(true).await;
    let id = world.ended("fails", json!({"text": "secret of the arguments"})).await;
    world.act(&format!("/api/tasks/{id}/cancel")).await;
    let new = world.act(&format!("/api/tasks/{id}/retry")).await.1["task"].clone();
    answered(world.request(Method::DELETE, &format!("/api/tasks/{id}"))).await;
    let by = "the server's user";
    let of = |action: &str, outcome: &str, detail: String| json!({"action": action, "outcome": outcome, "principal": "operator", "task": id, "address": "127.0.0.1", "detail": detail});
    let begins = |action: &str| of(action, "ok", format!("{by}; begins"));
    let mut refused = of("cancel", "failed", format!("{by}; the task is over"));
    refused["code"] = json!(-32603);
    let retried = of("retry", "ok", format!("{by}; new task {}", new.as_str().unwrap()));
    let deleted = of("delete", "ok", by.to_owned());
    assert_eq!(
        world.audit.lines(),
        [
            begins("cancel"),
            refused,
            begins("retry"),
            retried,
            begins("delete"),
            deleted
        ]
    );
}

#[tokio::test]
async fn a_drained_server_is_not_ready_and_stops() {
    let world = World::new(true).await;
    assert_eq!(world.get("/readyz").await.text().await.unwrap(), "ready\n");
    assert_eq!(world.act("/api/drain").await, (200, json!({"stopping": true})));
    world.stop.cancelled().await;
    let lines = world.audit.lines();
    assert!(lines.iter().all(|line| line["action"] == "drain"), "{lines:?}");
    let details: Vec<&str> = lines.iter().map(|line| line["detail"].as_str().unwrap()).collect();
    assert_eq!(details, ["the server's user; begins", "the server's user"]);
}

#[tokio::test]
async fn a_server_is_not_ready_while_what_runs_has_time_to_end() {
    let world = World::new(true).await;
    let id = world.running("runs").await;
    let drains = json!({"stopping": true, "timeoutMs": 600_000});
    assert_eq!(world.act("/api/drain?timeout=10m").await, (200, drains));
    world.server.engine().unwrap().drain_begun().await;
    let answer = world.get("/readyz").await;
    let (status, why) = (answer.status(), answer.text().await.unwrap());
    assert_eq!(status, 503);
    assert!(why.starts_with("the server drains: it begins nothing more"), "{why}");
    assert_eq!(world.json("/api/nodes").await["nodes"][0]["cordon"], "draining");
    let problems = world.json("/api/problems").await["problems"].to_string();
    assert!(
        problems.contains("drains, and no other server begins work") && !problems.contains("no server lives"),
        "{problems}"
    );
    assert!(!world.stop.is_cancelled());
    world.gate.add_permits(1);
    world.state(&id, "succeeded").await;
    world.stop.cancelled().await;
}

/// Tasks and plain calls of a paused tool wait; what runs runs on.
#[tokio::test]
async fn nothing_of_a_paused_tool_begins() {
    let world = World::new(true).await;
    let running = world.running("runs").await;
    assert_eq!(world.act("/api/tools/gated/pause").await, (200, json!({"done": true})));
    let task = world.client.start("gated", json!({"text": "waits"})).await.unwrap();
    let waiting = world.state(task.id(), "queued").await;
    assert_eq!(waiting["waitsFor"], "queued; the tool is paused");
    let client = longhaul::testing::Client::connect(&world.server, longhaul::Era::Legacy)
        .await
        .unwrap();
    let call = tokio::spawn(async move { client.call("gated", json!({"text": "plain"})).await.unwrap().text() });
    while world.json("/api/stats").await["queued"] != 2 {}
    world.gate.add_permits(3);
    world.state(&running, "succeeded").await;
    assert_eq!(world.ended("fails", json!({"text": "another tool"})).await.len(), 36);
    assert_eq!(world.json("/api/stats").await["queued"], 2);
    assert_eq!(world.act("/api/tools/gated/resume").await.0, 200);
    world.state(task.id(), "succeeded").await;
    assert_eq!(call.await.unwrap(), "through");
    assert_eq!(world.act("/api/tools/nothing/pause").await.0, 404);
    assert_eq!(world.act("/api/upstreams/nothing/resume").await.0, 404);
    let lines = world.audit.lines();
    assert_eq!(
        (&lines[0]["action"], &lines[0]["tool"]),
        (&json!("pause"), &json!("gated"))
    );
    assert_eq!(
        (&lines[5]["action"], &lines[5]["outcome"]),
        (&json!("pause"), &json!("unknown"))
    );
    assert_eq!(
        (&lines[6]["action"], &lines[6]["outcome"]),
        (&json!("resume"), &json!("unknown"))
    );
    assert_eq!(lines.len(), 7, "each action on what there is has two");
}

#[tokio::test]
async fn a_queued_task_is_raised() {
    let world = World::new(true).await;
    let running = world.running("runs").await;
    assert_eq!(
        world.act(&format!("/api/tasks/{running}/raise")).await.1["error"]["message"],
        "the task is not queued"
    );
    world.running("runs, too").await;
    let mut ids = Vec::new();
    for text in ["first", "second"] {
        let task = world.client.start("gated", json!({"text": text})).await.unwrap();
        world.state(task.id(), "queued").await;
        ids.push(task.id().to_owned());
    }
    let raised = world.act(&format!("/api/tasks/{}/raise", ids[1])).await;
    assert_eq!(raised, (200, json!({"done": true})));
    let page = world.page(&format!("/tasks/{}", ids[0])).await;
    let form = format!(r#"action="/tasks/{}/raise""#, ids[0]);
    assert!(page.contains(&form), "{page}");
    let waits = async || {
        let of = async |id: &String| world.json(&format!("/api/tasks/{id}")).await["waitsFor"].clone();
        (of(&ids[0]).await, of(&ids[1]).await)
    };
    let is_behind = |words: &serde_json::Value| {
        words
            .as_str()
            .unwrap()
            .starts_with("queued behind 1 of its principal's tasks")
    };
    let (first, second) = waits().await;
    assert!(is_behind(&first) && !is_behind(&second), "{first} {second}");
    assert_eq!(
        world.submit(&format!("/tasks/{}/raise", ids[0]), "").await,
        (303, format!("/tasks/{}", ids[0]))
    );
    let (first, second) = waits().await;
    assert!(!is_behind(&first) && is_behind(&second), "{first} {second}");
    let raises = world.audit.lines();
    let raises = raises.iter().filter(|line| line["action"] == "raise");
    assert_eq!(
        raises.map(|line| line["outcome"].as_str().unwrap()).collect::<Vec<_>>(),
        ["ok", "failed", "ok", "ok", "ok", "ok"],
        "each has a line before it begins"
    );
}

#[tokio::test]
async fn a_durable_task_is_reset_to_before_an_entry() {
    let world = World::new(true).await;
    let id = world.ended("stepped", json!({"text": "s"})).await;
    let task = world.json(&format!("/api/tasks/{id}")).await;
    assert_eq!(task["outcome"]["result"]["content"][0]["text"], "1 2");
    let reset = async |body: &str| {
        let request = world.request(Method::POST, &format!("/api/tasks/{id}/reset"));
        answered(
            request
                .header(header::CONTENT_TYPE, "application/json")
                .body(body.to_owned()),
        )
        .await
    };
    for (body, status) in [("{}", 400), (r#"{"before": 0}"#, 400), (r#"{"before": 3}"#, 400)] {
        assert_eq!(reset(body).await.0, status, "{body}");
    }
    let (status, done) = reset(r#"{"before": 2}"#).await;
    assert_eq!(status, 200, "{done}");
    let new = done["task"].as_str().unwrap();
    let task = world.state(new, "succeeded").await;
    assert_eq!(
        task["outcome"]["result"]["content"][0]["text"], "1 3",
        "the first step is kept"
    );
    assert_eq!((&task["retryOf"], &task["resetBefore"]), (&json!(id), &json!(2)));
    assert_eq!(world.json(&format!("/api/tasks/{id}")).await["resetAs"], new);
    let none = world.json("/api/bulk/delete?tool=steped").await;
    let hint = none["hint"].as_str().unwrap();
    assert!(hint.starts_with("there is no tool `steped`"), "{hint}");
    let list = world.json("/api/tasks?tool=stepped&order=oldest").await;
    assert_eq!(list["tasks"][0]["resetAs"], new, "lists say so, too");
    assert_eq!(reset(r#"{"before": 2}"#).await.1["task"], new, "it is made once");
    let (status, refused) = reset(r#"{"before": 1}"#).await;
    assert_eq!(status, 409);
    assert!(refused["error"]["message"].as_str().unwrap().contains(new), "{refused}");
    let plain = world.ended("fails", json!({"text": "no"})).await;
    let request = world.request(Method::POST, &format!("/api/tasks/{plain}/reset"));
    assert_eq!(
        answered(request.json(&json!({"before": 1}))).await.0,
        409,
        "it keeps no journal"
    );
}

/// It goes on as another one, so a retry would be a second successor.
#[tokio::test]
async fn a_task_that_was_reset_is_not_retried() {
    let world = World::new(true).await;
    let id = world.ended("stepped", json!({"text": "fails"})).await;
    let retry = format!(r#"action="/tasks/{id}/retry""#);
    assert!(world.page(&format!("/tasks/{id}")).await.contains(&retry));
    let all = "/api/bulk/retry?state=failed&tool=stepped";
    assert_eq!(world.json(all).await["tasks"], 1);
    let request = world.request(Method::POST, &format!("/api/tasks/{id}/reset"));
    let (status, done) = answered(request.json(&json!({"before": 1}))).await;
    assert_eq!(status, 200, "{done}");
    let new = done["task"].as_str().unwrap();
    let (status, refused) = world.act(&format!("/api/tasks/{id}/retry")).await;
    assert_eq!(status, 409, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains(new), "{refused}");
    world.state(new, "failed").await;
    assert_eq!(world.json(all).await["tasks"], 1, "the new one alone");
    assert_eq!(world.act(all).await.1, json!({"done": 1, "refused": 0, "refusals": []}));
    assert!(!world.json(&format!("/api/tasks/{new}")).await["retriedAs"].is_null());
    assert!(!world.page(&format!("/tasks/{id}")).await.contains(&retry));
}

/// Only what the filter finds and what can be acted on is; each action is in the audit log.
#[tokio::test]
async fn many_tasks_are_acted_on_at_once() {
    let world = World::new(true).await;
    let running = [world.running("one").await, world.running("two").await];
    let failed = world.ended("fails", json!({"text": "no"})).await;
    let count = async |path: &str| world.json(path).await;
    assert_eq!(
        count("/api/bulk/cancel?tool=gated").await,
        json!({"tasks": 2, "orMore": false})
    );
    let first = world.act("/api/bulk/cancel?tool=gated&limit=1").await.1;
    assert_eq!(first["done"], 1, "as many as it may be");
    let rest = format!("/api/bulk/cancel?tool=gated&after={}", first["next"].as_str().unwrap());
    assert_eq!(
        world.act(&rest).await.1,
        json!({"done": 1, "refused": 0, "refusals": []})
    );
    for id in &running {
        world.state(id, "cancelled").await;
    }
    assert_eq!(count("/api/bulk/cancel?tool=gated").await["tasks"], 0);
    let all = count("/api/bulk/retry?state=failed,cancelled").await;
    assert_eq!(all["tasks"], 3);
    let retried = world.act("/api/bulk/retry?state=failed").await.1;
    assert_eq!(retried, json!({"done": 1, "refused": 0, "refusals": []}));
    let again = world.json(&format!("/api/tasks/{failed}")).await["retriedAs"].clone();
    world.state(again.as_str().unwrap(), "failed").await;
    let both = format!(
        "/api/bulk/retry?state=failed&tool=fails&after={}",
        again.as_str().unwrap()
    );
    assert_eq!(count(&both).await["tasks"], 0, "it was retried");
    assert_eq!(
        world.act(&both).await.1,
        json!({"done": 0, "refused": 0, "refusals": []})
    );
    let deleted = world.act("/api/bulk/delete?state=ended").await.1;
    assert_eq!(deleted, json!({"done": 4, "refused": 0, "refusals": []}));
    assert_eq!(world.json("/api/tasks").await["tasks"], json!([]));
    let lines = world.audit.lines();
    let of = |action: &str| lines.iter().filter(|line| line["action"] == action).count();
    assert_eq!(
        [of("cancel"), of("retry"), of("delete")],
        [4, 2, 8],
        "each has two lines"
    );
}

#[tokio::test]
async fn an_action_on_many_tasks_needs_a_filter_that_fits_it() {
    let world = World::new(true).await;
    let running = world.running("runs").await;
    for (path, status, says) in [
        (
            "cancel",
            400,
            "a filter is wanted: `state` (live, or one of queued, running, suspended and blocked), or",
        ),
        (
            "cancel?after=01m8a8y1pyxt3y4ytpzk743y8jp8bwgsb1p4",
            400,
            "a filter is wanted",
        ),
        ("cancel?state=failed", 400, "it must be live, or one of queued"),
        ("release?state=live,ended&order=oldest", 400, "`order` cannot be"),
        ("cancel?state=live&limit=501", 400, "`limit` cannot be"),
        ("cancel?sate=live", 400, "unknown field"),
        ("pause?state=live", 404, "there are cancel, retry, release, delete"),
    ] {
        for method in [Method::GET, Method::POST] {
            let answer = world
                .request(method.clone(), &format!("/api/bulk/{path}"))
                .send()
                .await
                .unwrap();
            let (was, text) = (answer.status().as_u16(), answer.text().await.unwrap());
            assert_eq!(was, status, "{method} {path}: {text}");
            assert!(text.contains(says), "{method} {path}: {text}");
        }
    }
    world.state(&running, "running").await;
}

/// A server without a shared store has no host to give up.
#[tokio::test]
async fn giving_up_the_host_of_an_unknown_server_is_refused_and_recorded() {
    let world = World::new(true).await;
    let (status, refused) = world.act("/api/nodes/4711/give-up").await;
    assert_eq!(
        (status, &refused["error"]["kind"]),
        (404, &json!("not_found")),
        "{refused}"
    );
    let lines = world.audit.lines();
    let outcomes: Vec<_> = lines.iter().filter(|line| line["action"] == "give-up").collect();
    assert_eq!(outcomes.len(), 2, "{lines:?}");
    assert_eq!(outcomes[1]["outcome"], "unknown");
    assert!(outcomes[1]["detail"].to_string().contains("node 4711"));
}

/// The page, the list of nodes, what is wrong, and the audit log show a cordon; tasks wait meanwhile.
#[tokio::test]
async fn a_cordoned_server_begins_nothing_and_says_so() {
    let world = World::new(true).await;
    let node = async || world.json("/api/nodes").await["nodes"][0].clone();
    let number = node().await["node"].to_string();
    let path = |action: &str| format!("/api/nodes/{number}/{action}");
    assert_eq!(world.act(&path("cordon")).await, (200, json!({"done": true})));
    assert_eq!(node().await["cordon"], "cordoned");
    assert!(
        world
            .page("/nodes")
            .await
            .contains(&format!("action=\"/nodes/{number}/uncordon\""))
    );
    let problems = world.json("/api/problems").await["problems"].to_string();
    assert!(problems.contains("is cordoned"), "{problems}");
    let answer = world.get("/readyz").await;
    assert_eq!(answer.status(), 200);
    let ready = answer.text().await.unwrap();
    assert!(ready.starts_with("ready, but this server is cordoned"), "{ready}");
    let task = world.client.start("gated", json!({"text": "waits"})).await.unwrap();
    let waiting = world.state(task.id(), "queued").await;
    assert_eq!(waiting["waitsFor"], "queued; it waits for a server that runs tasks");
    assert_eq!(world.act(&path("uncordon")).await, (200, json!({"done": true})));
    world.state(task.id(), "running").await;
    assert!(node().await["cordon"].is_null());
    let (status, refused) = world.act("/api/nodes/4711/cordon").await;
    assert_eq!((status, &refused["error"]["kind"]), (404, &json!("not_found")));
    let lines = world.audit.lines();
    let of = |action: &str| lines.iter().filter(|line| line["action"] == action).count();
    assert_eq!((of("cordon"), of("uncordon")), (4, 2), "{lines:?}");
}

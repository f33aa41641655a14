//! What is in a line of the audit log: who did what, and nothing of what was said.

use super::{
    Authenticated,
    audit::{Told, audited_by},
    of,
};
use crate::{
    clock::TestClock,
    request::{Post, act, act_as_task},
    rounds::accept,
    server::{cancel, get, update},
    stage::HANDED_OFF,
};
use serde_json::{Value, json};

/// In all that a client sends and receives here besides names.
const SECRET: &str = "hunter2";

/// The lines since the last time, without their times, each of which has all that it can have and nothing else.
fn lines(told: &Told, session: &str) -> Vec<Value> {
    let lines = told.take_whole();
    for line in &lines {
        assert!(line["time"].is_string(), "{line}");
        let text = line.to_string();
        assert!(!text.contains(SECRET) && !text.contains(session), "{text}");
    }
    let without_time = lines.into_iter().map(|mut line| {
        line.as_object_mut().unwrap().remove("time");
        line
    });
    without_time.collect()
}

/// A line about a request of Ann's, whose client is in this session.
fn line(action: &str, outcome: &str, method: &str, members: Value, session: Option<&str>) -> Value {
    let mut line = json!({
        "action": action, "outcome": outcome, "method": method, "principal": "key:ann", "address": "127.0.0.1",
    });
    if let Some(session) = session {
        (line["session"], line["client"], line["clientVersion"]) = (session.into(), "t".into(), "1".into());
    }
    for (name, value) in members.as_object().unwrap() {
        line[name] = value.clone();
    }
    line
}

/// With a legacy session of Ann's, and its name in the log.
async fn audited() -> (Authenticated, std::sync::Arc<Told>, String, String) {
    let (served, told) = audited_by(TestClock::default(), |_| ()).await;
    let session = served.session("ann").await;
    let tasks = Post::legacy(Some(&session), "tasks/list", json!({}));
    served.result("ann", tasks).await;
    let name = told.take_whole()[0]["session"].as_str().unwrap().to_owned();
    (served, told, session, name)
}

/// Ann's call, with what must not be recorded in its arguments.
fn secret(mut call: Value) -> Value {
    call["arguments"]["note"] = SECRET.into();
    call
}

/// Each way in which a call is given a task, and one line of it.
#[tokio::test]
async fn s_07_each_task_that_is_given_out_is_one_line() {
    let (served, told, session, name) = audited().await;
    let call = |tool: &str, task: &str, of: Option<&str>, action: &str| {
        let members = match action {
            "create" => json!({"tool": tool, "task": task}),
            _ => json!({"tool": tool}),
        };
        line(action, "ok", "tools/call", members, of)
    };
    let legacy = |call: Value| Post::legacy(Some(&session), "tools/call", secret(call));
    let modern = |call: Value| Post::modern("tools/call", secret(call));

    let task = served.task("ann", legacy(act_as_task("optional", "wait"))).await;
    assert_eq!(lines(&told, &session), [call("optional", &task, Some(&name), "create")]);
    // It can never run, and is a task all the same.
    let mut wrong = act_as_task("optional", "");
    wrong["arguments"]["act"] = 5.into();
    let task = served.task("ann", legacy(wrong)).await;
    assert_eq!(lines(&told, &session), [call("optional", &task, Some(&name), "create")]);
    let keyed = modern(act("optional", "wait")).keyed(SECRET);
    let task = served.task("ann", keyed.clone()).await;
    assert_eq!(lines(&told, &session), [call("optional", &task, None, "create")]);
    // The same call again is given the same task.
    assert_eq!(served.task("ann", keyed).await, task);
    assert_eq!(lines(&told, &session), [call("optional", &task, None, "create")]);
    // A call that becomes a task while it runs was recorded as a call.
    let task = served.task("ann", modern(act("after_a_moment", "wait"))).await;
    let both = |tool: &str, task: &str, of| [call(tool, task, of, "call"), call(tool, task, of, "create")];
    assert_eq!(lines(&told, &session), both("after_a_moment", &task, None));
    served.result("ann", legacy(act(HANDED_OFF, "wait"))).await;
    let recorded = lines(&told, &session);
    let task = recorded[1]["task"].as_str().unwrap().to_owned();
    assert_eq!(recorded, both(HANDED_OFF, &task, Some(&name)));
}

/// Each of the other actions.
#[tokio::test]
async fn s_07_each_action_is_one_line_that_says_who_and_never_what() {
    let (served, told, session, name) = audited().await;
    let asking = act_as_task("optional", "ask_all name");
    let create = Post::legacy(Some(&session), "tools/call", secret(asking));
    let task = served.task("ann", create).await;
    let question = served.question("ann", &task).await;
    // What many reads leave out is over.
    served.tokens.clock.advance(std::time::Duration::from_secs(1));
    served.result("ann", get(&task)).await;
    told.take_whole();

    let of_task = || json!({"task": task});
    let answers = json!({question: accept("name", SECRET)});
    served.result("ann", update(&task, answers)).await;
    let answer = line("answer", "ok", "tasks/update", of_task(), None);
    assert_eq!(lines(&told, &session), [answer]);
    // Its result has the answer in it.
    let legacy = |method: &str| Post::on_task(&session, method, &task);
    let result = served.result("ann", legacy("tasks/result").json_only()).await;
    assert!(result.to_string().contains(SECRET), "{result}");
    let read = line("read", "ok", "tasks/result", of_task(), Some(&name));
    assert_eq!(lines(&told, &session), [read]);
    let mut connection = served.server.connect().await;
    connection.error(&of("ann", legacy("tasks/cancel"))).await;
    let failed = json!({"task": task, "code": -32602});
    let too_late = line("cancel", "failed", "tasks/cancel", failed, Some(&name));
    assert_eq!(lines(&told, &session), [too_late]);
    served.result("ann", legacy("dev.longhaul/tasks/delete")).await;
    let deleted = line("delete", "ok", "dev.longhaul/tasks/delete", of_task(), Some(&name));
    assert_eq!(lines(&told, &session), [deleted]);
    let call = secret(act("optional", "wait"));
    let running = served.task("ann", Post::modern("tools/call", call)).await;
    told.take_whole();
    served.result("ann", cancel(&running)).await;
    let cancelled = line("cancel", "ok", "tasks/cancel", json!({"task": running}), None);
    assert_eq!(lines(&told, &session), [cancelled]);
    // Without the permission, and without a known token.
    let call = secret(act("optional", "wait"));
    let refused = of("ann-reader", Post::modern("tools/call", call.clone()));
    assert_eq!(connection.exchange(&refused).await.status(), 403);
    let denied = line("call", "denied", "tools/call", json!({"tool": "optional"}), None);
    assert_eq!(lines(&told, &session), [denied]);
    let refused = of(SECRET, Post::modern("tools/call", call));
    assert_eq!(connection.exchange(&refused).await.status(), 401);
    let denied = json!({
        "action": "denied", "outcome": "denied", "address": "127.0.0.1", "detail": "the token is unknown",
    });
    assert_eq!(lines(&told, &session), [denied]);
}

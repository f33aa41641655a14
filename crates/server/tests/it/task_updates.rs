//! Updates of a task's resources: its log, its output, its history.

use crate::{
    client::Connection,
    clock::{TestClock, until},
    request::Post,
    server::{Options, Server, get},
    stage::Stage,
};
use longhaul_command::in_process;
use longhaul_core::{BoxFuture, Json, Outcome, TaskPolicy, text_result};
use longhaul_runtime::{ExecutionEnd, Executor, ExecutorAttempt, TaskContext, ToolSettings};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Emits output each time the test allows it, `MOST` times.
struct Emitting(Stage);

const MOST: usize = 20;

impl Executor for Emitting {
    fn replays(&self) -> bool {
        true
    }

    fn run(self: Arc<Self>, _: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Box::pin(async move {
            for nth in 1..=MOST {
                self.0.released.reaches(nth).await;
                let block = json!({"type": "text", "text": nth.to_string()});
                cx.emit(Json::from(block)).await.unwrap();
            }
            self.0.released.reaches(MOST + 1).await;
            ExecutionEnd::Finished(Outcome::result(text_result("done", false)))
        })
    }
}

/// A server, and a task that emits output.
async fn emitting(clock: TestClock) -> (Server, String) {
    let server = Server::with(Options::with_clock(&clock)).await;
    let executor: Arc<dyn Executor> = Arc::new(Emitting(server.stage.clone()));
    let settings = ToolSettings {
        policy: TaskPolicy::Always,
        retention: 3_600_000,
        ..ToolSettings::new("emitting", in_process::KIND, Json::trusted("{}"), executor)
    };
    server.put_tool(settings).await;
    let call = Post::modern("tools/call", json!({"name": "emitting", "arguments": {}}));
    let task = server.task(&call).await;
    (server, task)
}

fn parts(task: &str) -> [String; 4] {
    ["log", "output", "history", "artifacts"].map(|part| format!("longhaul://task/{task}/{part}"))
}

/// A modern subscription, and which of the resources were accepted.
async fn listen(server: &Server, uris: &[String]) -> (Connection, Value) {
    let filter = json!({"notifications": {"resourceSubscriptions": uris}});
    let listen = Post::modern("subscriptions/listen", filter).id(json!("sub-1"));
    let mut client = server.stream(&listen).await;
    let acknowledged = client.pushed().await;
    let accepted = acknowledged["params"]["notifications"]["resourceSubscriptions"].clone();
    (client, accepted)
}

async fn updated(stream: &mut Connection) -> String {
    let message = stream.next("notifications/resources/updated").await;
    message["params"]["uri"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn subscribers_are_notified_when_task_resources_grow_in_both_eras() {
    let (server, task) = emitting(TestClock::default()).await;
    let session = server.session().await;
    let uris = parts(&task);
    for uri in &uris {
        let subscribe = Post::legacy(Some(&session), "resources/subscribe", json!({"uri": uri}));
        assert_eq!(server.result(&subscribe).await, json!({}));
    }
    let legacy = server.listen(&session).await;
    let (modern, accepted) = listen(&server, &uris).await;
    assert_eq!(accepted, json!(uris));
    server.stage.logged.count();
    server.stage.released.count();
    for mut stream in [legacy, modern] {
        let mut seen = BTreeSet::new();
        while seen.len() < uris.len() {
            seen.insert(updated(&mut stream).await);
        }
        assert_eq!(seen, BTreeSet::from(uris.clone()));
    }
}

/// Many changes within a second are one update, and the last change is never left out.
#[tokio::test]
async fn updates_of_a_task_resource_are_sent_once_a_second() {
    let clock = TestClock::standing();
    let (server, task) = emitting(clock.clone()).await;
    let output = [format!("longhaul://task/{task}/output")];
    let read = Post::modern("resources/read", json!({"uri": output[0]}));
    let (mut stream, _) = listen(&server, &output).await;
    server.stage.released.count();
    updated(&mut stream).await;
    for _ in 1..MOST {
        server.stage.released.count();
    }
    until(async || server.result(&read).await["contents"].as_array().unwrap().len() >= MOST).await;
    assert!(!stream.has_news(), "the second is not over");
    clock.advance(Duration::from_secs(1));
    updated(&mut stream).await;
    server.stage.released.count();
    server.poll(&task, "completed").await;
    clock.advance(Duration::from_secs(1));
    assert!(!stream.has_news(), "its end gives nothing out");
}

/// Invariant 5: what is not there, and what is another's, are refused with the error of the era, and cause no update later.
#[tokio::test]
async fn unknown_resources_cannot_be_subscribed_to() {
    let (server, session) = Server::with_session().await;
    let task = server.task(&Post::call("optional", "say")).await;
    let none = ["test://none".to_owned(), "longhaul://task/nobodys/journal".to_owned()];
    let missing: Vec<String> = parts("nobodys").into_iter().chain(none).collect();
    for uri in &missing {
        let subscribe = |method| Post::legacy(Some(&session), method, json!({"uri": uri}));
        let refused = server.exchange(&subscribe("resources/subscribe")).await.json();
        let unread = server.exchange(&subscribe("resources/read")).await.json();
        assert_eq!(refused["error"]["code"], -32002);
        assert_eq!(refused["error"], unread["error"]);
    }
    let log = parts(&task)[0].clone();
    let (_stream, accepted) = listen(&server, &[&missing[..], std::slice::from_ref(&log)].concat()).await;
    assert_eq!(accepted, json!([log]));
    // An update of one range would be sent for each change of another.
    let stretch = json!({"uri": format!("{log}?offset=1")});
    let stretch = Post::legacy(Some(&session), "resources/subscribe", stretch);
    assert_eq!(server.error(&stretch).await, (200, -32602));
    assert_eq!(server.result(&get(&task)).await["taskId"], task.as_str());
}

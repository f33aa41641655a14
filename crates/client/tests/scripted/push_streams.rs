//! A legacy session has one push stream in a process, whoever wants it: some servers send a question on each.

use crate::{
    peer::{Peer, event_stream, legacy, plain},
    task::legacy_task,
};
use longhaul_client::{CallResponse, Client, Connection, InputResponse, Inputs, TaskHandle};
use longhaul_core::{BoxFuture, Clock, UnixMillis};
use serde_json::{Map, Value, json};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// The push streams that a server has seen, by session.
#[derive(Clone, Default)]
struct PushStreams(Arc<Mutex<HashMap<String, Vec<UnboundedSender<String>>>>>);

impl PushStreams {
    fn count(&self) -> usize {
        self.0.lock().unwrap().values().map(Vec::len).sum()
    }

    fn open(&self) -> usize {
        let streams = self.0.lock().unwrap();
        streams.values().flatten().filter(|stream| !stream.is_closed()).count()
    }

    async fn until(&self, fits: impl Fn(&Self) -> bool) {
        while !fits(self) {
            tokio::task::yield_now().await;
        }
    }

    /// Ends them.
    fn end(&self) {
        self.0.lock().unwrap().clear();
    }
}

/// A server whose tasks end when they are read for the third time. `greeting` is sent first on each push stream.
fn server(streams: &PushStreams, greeting: Option<Value>, answer_status: u16) -> Peer {
    let (streams, polls) = (streams.clone(), Mutex::new(HashMap::<String, usize>::new()));
    legacy(json!({"requests": {"tools": {"call": {}}}}), move |seen| {
        let named = |task: &str, status| legacy_task(status, json!({"taskId": task}));
        let mut polls = polls.lock().unwrap();
        match seen.method() {
            "tools/call" => {
                let task = format!("t-{}", polls.len() + 1);
                polls.insert(task.clone(), 0);
                seen.result(json!({"task": named(&task, "working")}))
            }
            "tasks/get" => {
                let task = seen.params()["taskId"].as_str().unwrap();
                let read = polls.get_mut(task).unwrap();
                *read += 1;
                seen.result(named(task, if *read < 3 { "working" } else { "cancelled" }))
            }
            "" if seen.verb == "GET" => {
                let (sender, receiver) = unbounded_channel();
                if let Some(greeting) = &greeting {
                    sender.send(format!("data: {greeting}\n\n")).unwrap();
                }
                let session = seen.header("mcp-session-id").unwrap().to_owned();
                streams.0.lock().unwrap().entry(session).or_default().push(sender);
                event_stream(receiver)
            }
            "" if seen.verb == "POST" => plain(answer_status, ""),
            _ => plain(405, ""),
        }
    })
}

async fn call(connection: &Connection) -> TaskHandle {
    let tools = connection.list_tools().await.unwrap();
    let tool = tools.iter().find(|tool| tool.name == "optional").unwrap();
    match connection.call_tool(tool, &Map::new(), &mut |_| {}).await.unwrap() {
        CallResponse::Task(task) => task,
        CallResponse::Done(outcome) => panic!("{outcome:?}"),
    }
}

fn answering() -> Arc<Inputs> {
    Arc::new(Inputs::new().elicit(|_| async { Ok(InputResponse::accept(json!({}))) }))
}

#[tokio::test]
async fn all_tasks_of_a_session_share_one_push_stream() {
    let streams = PushStreams::default();
    let peer = server(&streams, None, 202);
    let connect = || peer.connection_with(|options| options.inputs = Some(answering())).0;
    let first = connect();
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(call(&first).await.reference().unwrap().clone());
    }
    assert_eq!((streams.count(), streams.open()), (1, 1));
    // One that has ended is opened again, once.
    streams.end();
    streams.until(|streams| streams.open() == 1).await;
    first.task("t-1").get().await.unwrap();
    assert_eq!(streams.count(), 1);
    drop(first);
    streams.until(|streams| streams.open() == 0).await;
    streams.end();
    let second = connect();
    let (one, other) = (Client::new(second.clone()), Client::new(second.clone()));
    for (task, client) in tasks.iter().zip([&one, &other, &other]) {
        let task = client.connection().resume_task(task).await;
        task.wait(&mut |_| {}).await.unwrap();
    }
    assert_eq!((streams.count(), streams.open()), (1, 1));
}

/// A clock whose pauses do not end.
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> UnixMillis {
        UnixMillis(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// The next connection of the process to the session would have a second stream otherwise.
#[tokio::test]
async fn a_dropped_connection_closes_its_push_stream_while_the_server_does_not_take_an_answer() {
    let question = json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {
        "message": "Proceed?", "requestedSchema": {"type": "object", "properties": {}},
    }});
    let streams = PushStreams::default();
    let peer = server(&streams, Some(question), 503);
    let (connection, _) = peer.connection_with(|options| {
        options.clock = Arc::new(Stopped);
        options.inputs = Some(answering());
    });
    connection.list_tools().await.unwrap();
    let is_response = |body: &Value| body["result"].is_object() && body["method"].is_null();
    while !peer.seen().iter().any(|seen| is_response(&seen.body)) {
        tokio::task::yield_now().await;
    }
    assert_eq!(streams.open(), 1);
    drop(connection);
    streams.until(|streams| streams.open() == 0).await;
}

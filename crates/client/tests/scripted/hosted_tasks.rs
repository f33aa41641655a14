//! A server that asks for answers as tasks of the client, and polls them.

use crate::pipe::Server;
use longhaul_client::{Connection, InputResponse, Inputs, Options, RpcFailure, SystemClock};
use longhaul_core::{BoxFuture, Clock, UnixMillis};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// What the user does.
#[derive(Clone, Default)]
struct User {
    /// The user answers once for each.
    answers: Arc<Notify>,
    /// Someone waits for the user's answer as long as this is shared.
    waits: Arc<()>,
}

/// A clock whose time a test sets.
#[derive(Default)]
struct ManualClock(AtomicI64);

impl Clock for ManualClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(self.0.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        SystemClock.sleep(duration)
    }
}

/// A legacy server and its client, after the handshake.
struct Peers {
    server: Server,
    connection: Connection,
    user: User,
    clock: Arc<ManualClock>,
    declared: Value,
    requests: u64,
}

impl Peers {
    async fn connected(hosts_tasks: bool) -> Self {
        let (user, clock) = (User::default(), Arc::new(ManualClock::default()));
        let asked = user.clone();
        let inputs = Inputs::new().elicit(move |question| {
            let user = asked.clone();
            async move {
                let waits = Arc::clone(&user.waits);
                user.answers.notified().await;
                drop(waits);
                match question.message() {
                    "fail" => Err(RpcFailure {
                        code: -1,
                        message: "no".into(),
                        data: None,
                    }),
                    _ => Ok(InputResponse::accept(json!({"name": "Ada"}))),
                }
            }
        });
        let mut options = Options::named("test", "0");
        options.inputs = Some(inputs.into());
        options.hosts_tasks = hosts_tasks;
        options.clock = clock.clone();
        let (connection, mut server) = Server::connected_with(options, 1 << 20);
        let opening = connection.clone();
        let shake = async {
            let discover = server.next().await;
            server
                .send(&json!({"jsonrpc": "2.0", "id": discover["id"], "error": {"code": -32601, "message": "?"}}))
                .await;
            let initialize = server.next().await;
            server
                .answer(
                    &initialize,
                    json!({"protocolVersion": "2025-11-25", "capabilities": {}}),
                )
                .await;
            assert_eq!(server.next().await["method"], "notifications/initialized");
            initialize["params"]["capabilities"].clone()
        };
        let (opened, declared) = tokio::join!(opening.server(), shake);
        opened.unwrap();
        let requests = 0;
        Self {
            server,
            connection,
            user,
            clock,
            declared,
            requests,
        }
    }

    /// Sends a request and returns its id.
    async fn send(&mut self, method: &str, params: Value) -> u64 {
        self.requests += 1;
        self.server
            .send(&json!({"jsonrpc": "2.0", "id": self.requests, "method": method, "params": params}))
            .await;
        self.requests
    }

    /// Sends a request and returns the client's response.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        let response = self.server.next().await;
        assert_eq!(response["id"], id);
        response
    }

    async fn create(&mut self, message: &str) -> Value {
        let params = json!({"message": message, "requestedSchema": {"type": "object", "properties": {}}, "task": {"ttl": 60_000}});
        let created = self.ask("elicitation/create", params).await["result"]["task"].clone();
        assert_eq!(created["status"], "working", "{created}");
        created["taskId"].clone()
    }

    async fn status(&mut self, id: &Value) -> Value {
        self.ask("tasks/get", json!({"taskId": id})).await["result"]["status"].clone()
    }

    async fn until(&mut self, id: &Value, status: &str) {
        for _ in 0..10_000 {
            if self.status(id).await == status {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("it does not become {status}");
    }
}

#[tokio::test]
async fn an_answer_is_a_task_of_the_client_if_the_server_asks_so() {
    let mut peers = Peers::connected(true).await;
    assert_eq!(
        peers.declared["tasks"],
        json!({"list": {}, "cancel": {}, "requests": {"elicitation": {"create": {}}}})
    );
    let [answered, failed, cancelled] = [
        peers.create("name?").await,
        peers.create("fail").await,
        peers.create("never").await,
    ];
    let listed = peers.ask("tasks/list", json!({})).await["result"]["tasks"].clone();
    let ids: Vec<_> = listed.as_array().unwrap().iter().map(|task| &task["taskId"]).collect();
    assert_eq!(ids.len(), 3);

    // The request that waits is answered when the task has ended, and the others at once.
    let waiting = peers.send("tasks/result", json!({"taskId": answered})).await;
    assert_eq!(peers.status(&answered).await, "working");
    peers.user.answers.notify_one();
    let result = peers.server.next().await;
    assert_eq!(result["id"], waiting);
    assert_eq!(result["result"]["content"], json!({"name": "Ada"}));
    assert_eq!(
        result["result"]["_meta"]["io.modelcontextprotocol/related-task"],
        json!({"taskId": answered})
    );
    assert_eq!(peers.status(&answered).await, "completed");

    peers.user.answers.notify_one();
    peers.until(&failed, "failed").await;
    assert_eq!(
        peers.ask("tasks/result", json!({"taskId": failed})).await["error"]["code"],
        -1
    );

    let now = peers.ask("tasks/cancel", json!({"taskId": cancelled})).await;
    assert_eq!(now["result"]["status"], "cancelled");
    peers.user.answers.notify_one();
    assert_eq!(peers.status(&cancelled).await, "cancelled");
    for (method, id) in [
        ("tasks/cancel", &cancelled),
        ("tasks/cancel", &answered),
        ("tasks/get", &json!("unknown")),
        ("tasks/result", &Value::Null),
    ] {
        assert_eq!(
            peers.ask(method, json!({"taskId": id})).await["error"]["code"],
            -32602,
            "{method} {id}"
        );
    }
    assert_eq!(
        peers.ask("tasks/result", json!({"taskId": cancelled})).await["error"]["code"],
        -32603
    );
    // The handlers of all three are gone.
    while Arc::strong_count(&peers.user.waits) > 2 {
        tokio::task::yield_now().await;
    }

    // Behind its time, a task is gone.
    peers.clock.0.store(60_000, Ordering::Relaxed);
    for id in [answered, failed, cancelled] {
        assert_eq!(
            peers.ask("tasks/get", json!({"taskId": id})).await["error"]["code"],
            -32602
        );
    }
}

#[tokio::test]
async fn tasks_of_the_client_are_bounded_and_end_with_the_connection() {
    let mut peers = Peers::connected(true).await;
    for _ in 0..64 {
        peers.create("never").await;
    }
    let params = json!({"message": "one more", "task": {}});
    let refused = peers.ask("elicitation/create", params).await;
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    let waits = Arc::clone(&peers.user.waits);
    assert!(Arc::strong_count(&waits) > 64);
    drop(peers);
    for _ in 0..10_000 {
        if Arc::strong_count(&waits) == 1 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{} handlers still wait", Arc::strong_count(&waits) - 1);
}

#[tokio::test]
async fn a_client_that_hosts_no_tasks_answers_at_once() {
    let mut peers = Peers::connected(false).await;
    assert_eq!(peers.declared.get("tasks"), None);
    peers.user.answers.notify_one();
    let answered = peers
        .ask("elicitation/create", json!({"message": "name?", "task": {}}))
        .await;
    assert_eq!(answered["result"]["action"], "accept");
    assert_eq!(peers.ask("tasks/list", json!({})).await["error"]["code"], -32601);
    peers.connection.close().await;
}

//! Two MCP servers on one schema, as behind a load balancer.

use crate::server::{Schema, Server as Database};
use longhaul::{Era, Server, ServerHandle, TaskContext, Tool, ToolResult, testing::Client};
use longhaul_store_postgres::{PostgresOptions, PostgresStore};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{runtime::Runtime, sync::Semaphore};

/// What the steps of a test have done, on whichever node.
#[derive(Clone)]
struct Effects {
    built: Arc<AtomicU32>,
    shipped: Arc<AtomicU32>,
    /// A permit for each attempt that may go on after its first step.
    gate: Arc<Semaphore>,
}

impl Effects {
    fn new() -> Self {
        Self {
            built: Arc::default(),
            shipped: Arc::default(),
            gate: Arc::new(Semaphore::new(0)),
        }
    }

    async fn ship(self, cx: TaskContext) -> ToolResult<String> {
        let count = |counter: &Arc<AtomicU32>| {
            let counter = Arc::clone(counter);
            move || std::future::ready(ToolResult::Ok(counter.fetch_add(1, Ordering::Relaxed) + 1))
        };
        let built: u32 = cx.step("build", count(&self.built)).await?;
        cx.status("built");
        self.gate.acquire().await.unwrap().forget();
        let shipped: u32 = cx.step("ship", count(&self.shipped)).await?;
        Ok(format!("{built} {shipped}"))
    }
}

/// A server that is a node of its own.
async fn node(schema: &Schema, effects: &Effects) -> ServerHandle {
    let options = PostgresOptions {
        node_lease: 1_500,
        ..schema.options()
    };
    let store = PostgresStore::open(&schema.address, options).await.unwrap();
    let effects = effects.clone();
    let ship = move |cx: TaskContext| effects.clone().ship(cx);
    let server = Server::new("node", "1.0.0").tool(Tool::durable("ship", ship));
    server.store(Arc::new(store)).start().await.unwrap()
}

/// Reads the task until it is as wanted.
async fn until(client: &Client, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for _ in 0..600 {
        last = client.follow(id).get().await.unwrap();
        if wanted(&last) {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it stays {last}");
}

/// A client that is sent to another node with each request sees one server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_the_same_on_every_node() {
    let database = Database::find().await;
    let (schema, effects) = (Schema::new(&database), Effects::new());
    let nodes = [node(&schema, &effects).await, node(&schema, &effects).await];
    let mut clients = Vec::new();
    for node in &nodes {
        clients.push(Client::connect(node, Era::Modern).await.unwrap());
    }
    let task = clients[0].start("ship", json!({})).await.unwrap();
    let id = task.id().to_owned();
    until(&clients[1], &id, |task| task["statusMessage"] == "built").await;
    effects.gate.add_permits(1);
    let done = until(&clients[1], &id, |task| task["status"] == "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "1 1", "{done}");
    for node in nodes {
        node.stop().await;
    }
}

/// The other node takes its work over once its lease has run out, and goes on behind what is recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_work_of_a_node_that_dies_is_taken_over() {
    let database = Database::find().await;
    let (schema, effects) = (Schema::new(&database), Effects::new());
    let survivor = node(&schema, &effects).await;
    let client = Client::connect(&survivor, Era::Modern).await.unwrap();
    // It dies with its runtime: nothing of it is told to stop.
    let dies = Runtime::new().unwrap();
    let id = {
        let (address, name, effects) = (schema.address.clone(), schema.name.clone(), effects.clone());
        let begun = dies.spawn(async move {
            let schema = Schema { address, name };
            let doomed = node(&schema, &effects).await;
            std::mem::forget(schema);
            let client = Client::connect(&doomed, Era::Modern).await.unwrap();
            let task = client.start("ship", json!({})).await.unwrap();
            task.id().to_owned()
        });
        begun.await.unwrap()
    };
    until(&client, &id, |task| task["statusMessage"] == "built").await;
    dies.shutdown_background();
    effects.gate.add_permits(1);
    let done = until(&client, &id, |task| task["status"] == "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "1 1", "no step ran twice: {done}");
    survivor.stop().await;
}

//! Data directories with many finished tasks, made through `Store` as a server would.

use futures_util::{StreamExt, stream};
use longhaul_core::{
    Entropy, HostId, Json, NodeId, Origin, Outcome, Owner, Principal, SpecId, TaskHeader, TaskId, ToolSpec, UnixMillis,
    store::{LeaseStore, NewTask, QueueStore, TaskStore},
    text_result,
};
use longhaul_store::{SqliteOptions, SqliteStore};
use std::{
    path::Path,
    time::{Instant, SystemTime},
};

const DAY: u64 = 24 * 3_600_000;

struct System;

impl Entropy for System {
    fn fill(&self, bytes: &mut [u8]) {
        std::fs::File::open("/dev/urandom")
            .and_then(|mut file| std::io::Read::read_exact(&mut file, bytes))
            .unwrap();
    }
}

/// Fills `directory` with `count` finished tasks and returns their ids, the oldest first.
pub(crate) fn fill(directory: &Path, count: usize, result_bytes: usize) -> Vec<TaskId> {
    let begun = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = SqliteStore::open(directory, SqliteOptions::default()).unwrap();
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_millis() as i64;
    let result = text_result(&"x".repeat(result_bytes), false);
    let spec = SpecId::named("retained");
    let ids = runtime.block_on(async {
        let node = store
            .open_node(&HostId("data-dir".into()).into(), UnixMillis(now))
            .await
            .unwrap()
            .node;
        let definition = Json::trusted(r#"{"retry":{"attempts":1,"backoff":0,"on":[]},"executor":{}}"#);
        store
            .put_spec(ToolSpec {
                id: spec.clone(),
                kind: "in_process".into(),
                definition,
            })
            .await
            .unwrap();
        let new = |nth: usize| finished(node, &spec, &result, UnixMillis(now - count as i64 + nth as i64));
        let mut creates = stream::iter(0..count).map(|nth| store.create(new(nth))).buffered(4096);
        let mut ids = Vec::with_capacity(count);
        while let Some(created) = creates.next().await {
            ids.push(created.unwrap().into_task().id.clone());
        }
        ids
    });
    eprintln!("filled with {count} in {:.1?}", begun.elapsed());
    ids
}

fn finished(node: NodeId, spec: &SpecId, result: &Json, at: UnixMillis) -> NewTask {
    NewTask {
        header: TaskHeader {
            id: TaskId::mint(at, &System),
            owner: Owner {
                principal: Principal::local(),
                session: None,
            },
            tool: "add".into(),
            spec: spec.clone(),
            origin: Origin::Modern,
            accepted_by: node,
            created_at: at,
            deadline: None,
            queue_timeout: None,
            retention: DAY,
            lineage: None,
            labels: longhaul_core::Labels::default(),
            group: None,
        },
        announced: true,
        in_memory: false,
        priority: longhaul_core::Priority::default(),
        arguments: Json::trusted(r#"{"a":1,"b":2}"#),
        requestor: Json::trusted("{}"),
        claim: None,
        confirmation: None,
        outcome: Some(Outcome::result(result.clone())),
        idempotency: None,
        unique: None,
        quota: longhaul_core::Quota::default(),
        parent: None,
        history: None,
        replaces: None,
        schedule: None,
    }
}

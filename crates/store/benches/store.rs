//! How fast SQLite keeps and finds tasks, with few and with very many kept. Prints; asserts nothing.
//!
//! `cargo fixture -p longhaul-store -- [KEPT]`, where `KEPT` is how many finished tasks to keep meanwhile (default 100000). The data
//! directory is made where `TMPDIR` says; on a disk, if an fsync is to mean something.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use longhaul_core::{
    AttemptEnd, Entropy, Entry, EntryKey, EntryKind, Event, Json, NodeId, Origin, Outcome, Owner, Principal, Scope,
    SpecId, TaskHeader, TaskId, ToolSpec, UnixMillis,
    store::{Change, NewTask, QueueStore, TaskStore, TimerStore},
};
use longhaul_store::{SqliteOptions, SqliteStore};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

const NODE: NodeId = NodeId(1);

struct Random;

impl Entropy for Random {
    fn fill(&self, bytes: &mut [u8]) {
        fastrand::fill(bytes);
    }
}

fn new_task(at: u64, outcome: Option<Outcome>) -> NewTask {
    let at = UnixMillis(1_700_000_000_000 + at as i64);
    NewTask {
        header: TaskHeader {
            id: TaskId::mint(at, &Random),
            owner: Owner {
                principal: Principal::local(),
                session: None,
            },
            tool: "add".into(),
            spec: SpecId::named("spec"),
            origin: Origin::Modern,
            accepted_by: NODE,
            created_at: at,
            deadline: None,
            queue_timeout: Some(86_400_000),
            retention: 86_400_000,
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
        outcome,
        idempotency: None,
        unique: None,
        quota: longhaul_core::Quota::default(),
        parent: None,
        history: None,
        replaces: None,
        schedule: None,
    }
}

fn result() -> Outcome {
    let text = "x".repeat(1000);
    Outcome::result(Json::from(
        serde_json::json!({"content": [{"type": "text", "text": text}]}),
    ))
}

/// Lets `waiters` loop over `work` until `total` are done; prints the rate and the slowest one.
async fn measure<F, W>(name: &str, waiters: usize, total: u64, work: W)
where
    F: Future<Output = ()> + Send + 'static,
    W: Fn(u64) -> F + Clone + Send + Sync + 'static,
{
    let next = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..waiters {
        let (next, work) = (next.clone(), work.clone());
        running.spawn(async move {
            let mut slowest = Duration::ZERO;
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= total {
                    return slowest;
                }
                let begun = Instant::now();
                work(n).await;
                slowest = slowest.max(begun.elapsed());
            }
        });
    }
    let slowest = running.join_all().await.into_iter().max().unwrap();
    let rate = total as f64 / begun.elapsed().as_secs_f64();
    println!("{name:<28} {waiters:>4} waiters {rate:>10.0}/s   slowest {slowest:>9.1?}");
}

async fn creates(store: &Arc<SqliteStore>, waiters: usize, total: u64) {
    let store = store.clone();
    measure("create", waiters, total, move |n| {
        let store = store.clone();
        async move { drop(store.create(new_task(n, None)).await.unwrap()) }
    })
    .await;
}

async fn lives(store: &Arc<SqliteStore>, waiters: usize, total: u64) {
    let store = store.clone();
    measure("create, start, finish, get", waiters, total, move |n| {
        let store = store.clone();
        async move {
            let mut new = new_task(n, None);
            new.claim = Some((NODE, None));
            let task = store.create(new).await.unwrap().into_task();
            let fence = task.active_attempt().map(|attempt| attempt.fence());
            let change = |event| Change {
                fence,
                ..Change::of(&task.id, event, UnixMillis(task.created_at.0 + 1))
            };
            store.apply(change(Event::Started)).await.unwrap();
            let end = Event::AttemptEnded(AttemptEnd::Finished(result()));
            store.apply(change(end)).await.unwrap();
            store
                .get(&Scope::of(Principal::local()), &task.id)
                .await
                .unwrap()
                .unwrap();
        }
    })
    .await;
}

/// One step per commit, each task on its own, as durable tools do.
async fn steps(store: &Arc<SqliteStore>, waiters: usize, total: u64, bytes: usize) {
    let mut idle = Vec::new();
    for n in 0..waiters {
        let mut new = new_task(n as u64, None);
        new.claim = Some((NODE, None));
        idle.push(store.create(new).await.unwrap().into_task());
    }
    let (store, idle) = (store.clone(), Arc::new(std::sync::Mutex::new(idle)));
    let name = format!("journal a step of {bytes} B");
    measure(&name, waiters, total, move |_| {
        let (store, idle) = (store.clone(), idle.clone());
        async move {
            let task = idle.lock().unwrap().pop().unwrap();
            let entry = Entry {
                seq: task.journaled + 1,
                key: EntryKey {
                    path: "".into(),
                    kind: EntryKind::Step,
                    name: "build".into(),
                    nth: 1,
                },
                beside: false,
                value: Json::from(serde_json::json!("x".repeat(bytes))),
                at: UnixMillis(1_700_000_000_001),
                epoch: 1,
            };
            let change = Change {
                fence: task.active_attempt().map(|attempt| attempt.fence()),
                ..Change::of(&task.id, Event::Journaled(entry), UnixMillis(1_700_000_000_001))
            };
            let task = store.apply(change).await.unwrap();
            idle.lock().unwrap().push(task);
        }
    })
    .await;
}

async fn gets(store: &Arc<SqliteStore>, ids: Arc<Vec<TaskId>>) {
    let (scope, count) = (Scope::of(Principal::local()), 200_000);
    let begun = Instant::now();
    for n in 0..count {
        let id = &ids[n * 7_919 % ids.len()];
        store.get(&scope, id).await.unwrap().unwrap();
    }
    let each = begun.elapsed() / count as u32;
    println!(
        "get, one thread, of {:<9} {each:>10.2?} each   resident {} KiB",
        ids.len(),
        resident()
    );
}

/// Many finished tasks, created through the store.
async fn keep(store: &Arc<SqliteStore>, count: u64) -> Vec<TaskId> {
    let kept = Arc::new(std::sync::Mutex::new(Vec::with_capacity(count as usize)));
    let outcome = result();
    let (store, ids) = (store.clone(), kept.clone());
    measure("create finished, 1 KB", 512, count, move |n| {
        let (store, ids, outcome) = (store.clone(), ids.clone(), outcome.clone());
        async move {
            let task = store.create(new_task(n / 100, Some(outcome))).await.unwrap();
            ids.lock().unwrap().push(task.into_task().id.clone());
        }
    })
    .await;
    std::mem::take(&mut kept.lock().unwrap())
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap_or_default();
    line.split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse().ok())
        .unwrap_or(0)
}

async fn deletes(store: &Arc<SqliteStore>, count: usize) {
    let far = UnixMillis(i64::MAX - 1);
    let begun = Instant::now();
    let mut deleted = 0;
    while deleted < count {
        let ids = store.expired(far, 500).await.unwrap();
        if ids.is_empty() {
            break;
        }
        deleted += store
            .delete(&longhaul_core::HostId("here".into()), ids, far)
            .await
            .unwrap();
    }
    println!(
        "delete in batches of 500     {:>10.0}/s",
        deleted as f64 / begun.elapsed().as_secs_f64()
    );
}

#[tokio::main]
async fn main() {
    let kept = std::env::args()
        .skip(1)
        .find_map(|arg| arg.parse().ok())
        .unwrap_or(100_000);
    let directory = tempfile::tempdir().unwrap();
    let open = || Arc::new(SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap());
    let store = open();
    let definition = Json::trusted("{}");
    let spec = ToolSpec {
        id: SpecId::named("spec"),
        kind: "fixture".into(),
        definition,
    };
    store.put_spec(spec).await.unwrap();

    let one = store
        .create(new_task(0, Some(result())))
        .await
        .unwrap()
        .into_task()
        .id
        .clone();
    gets(&store, Arc::new(vec![one])).await;
    let ids = Arc::new(keep(&store, kept).await);
    gets(&store, ids.clone()).await;
    for (waiters, total) in [(1, 2_000), (16, 30_000), (64, 100_000)] {
        creates(&store, waiters, total).await;
    }
    for (waiters, total) in [(1, 500), (16, 10_000), (64, 30_000)] {
        lives(&store, waiters, total).await;
    }
    for (waiters, total, bytes) in [(1, 1_000, 200), (64, 60_000, 200), (64, 30_000, 4_000)] {
        steps(&store, waiters, total, bytes).await;
    }
    let log = std::fs::metadata(directory.path().join("longhaul.db-wal"))
        .unwrap()
        .len();
    println!("write-ahead log: {} KiB", log / 1024);
    drop(store);
    let begun = Instant::now();
    let store = open();
    store
        .get(&Scope::of(Principal::local()), &ids[0])
        .await
        .unwrap()
        .unwrap();
    println!("reopen to first answer       {:>10.1?}", begun.elapsed());
    deletes(&store, ids.len() / 2).await;
    gets(&store, Arc::new(ids[ids.len() / 2..].to_vec())).await;
}

//! What concurrency keys cost: claims and ends of queued tasks, without keys and with a thousand values, in turns. Prints medians; asserts nothing.
//!
//! `cargo bench -p longhaul-store --bench groups -- [QUEUED]`, where `QUEUED` is how many tasks are queued (default 100000). The data directories are made where `TMPDIR`
//! says.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use longhaul_core::{
    AttemptEnd, ConcurrencyGroup, Entropy, Event, HostId, Json, NodeId, Origin, Outcome, Owner, Principal, SpecId,
    TaskHeader, TaskId, ToolSpec, UnixMillis,
    store::{Change, Claim, LeaseStore, NewTask, QueueStore, TaskStore},
};
use longhaul_store::{SqliteOptions, SqliteStore};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

const VALUES: u64 = 1_000;
/// So many tasks are claimed and ended of each store, in so many turns.
const ENDED: usize = 5_000;
const TURNS: usize = 50;
const AT: UnixMillis = UnixMillis(1_700_000_000_000);

struct Random;

impl Entropy for Random {
    fn fill(&self, bytes: &mut [u8]) {
        fastrand::fill(bytes);
    }
}

fn new_task(node: NodeId, group: Option<ConcurrencyGroup>) -> NewTask {
    NewTask {
        header: TaskHeader {
            id: TaskId::mint(AT, &Random),
            owner: Owner {
                principal: Principal::local(),
                session: None,
            },
            tool: "deploy".into(),
            spec: SpecId::named("spec"),
            origin: Origin::Modern,
            accepted_by: node,
            created_at: AT,
            deadline: None,
            queue_timeout: Some(86_400_000),
            retention: 86_400_000,
            lineage: None,
            labels: longhaul_core::Labels::default(),
            group,
        },
        announced: true,
        in_memory: false,
        priority: longhaul_core::Priority::default(),
        arguments: Json::trusted(r#"{"branch":"main"}"#),
        requestor: Json::trusted("{}"),
        claim: None,
        confirmation: None,
        outcome: None,
        idempotency: None,
        unique: None,
        quota: longhaul_core::Quota::default(),
        parent: None,
        history: None,
        replaces: None,
        schedule: None,
    }
}

/// A store with queued tasks, and what working on them has taken.
struct Measured {
    name: &'static str,
    store: Arc<SqliteStore>,
    node: NodeId,
    claims: Vec<Duration>,
    ends: Vec<Duration>,
    _directory: tempfile::TempDir,
}

impl Measured {
    async fn new(name: &'static str, queued: u64, values: Option<u64>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap());
        let spec = ToolSpec {
            id: SpecId::named("spec"),
            kind: "fixture".into(),
            definition: Json::trusted("{}"),
        };
        store.put_spec(spec).await.unwrap();
        store.put_limit("deploy", None, values.map(|_| 1)).await.unwrap();
        let node = store.open_node(&HostId("here".into()).into(), AT).await.unwrap().node;
        let begun = Instant::now();
        let mut creating = JoinSet::new();
        for first in 0..512 {
            let store = Arc::clone(&store);
            creating.spawn(async move {
                for nth in (first..queued).step_by(512) {
                    let group = values.map(|values| {
                        let mut digest = [0; 32];
                        digest[..8].copy_from_slice(&(nth % values).to_le_bytes());
                        ConcurrencyGroup(digest)
                    });
                    store.create(new_task(node, group)).await.unwrap();
                }
            });
        }
        creating.join_all().await;
        let rate = queued as f64 / begun.elapsed().as_secs_f64();
        println!("{name:<20} create, 512 waiters {rate:>10.0}/s");
        Self {
            name,
            store,
            node,
            claims: Vec::new(),
            ends: Vec::new(),
            _directory: directory,
        }
    }

    /// One turn.
    async fn work(&mut self) {
        for _ in 0..ENDED / TURNS {
            let claim = Claim {
                tool: "deploy".into(),
                node: self.node,
                host: None,
                limit: 1,
                at: AT,
                rate: None,
            };
            let begun = Instant::now();
            let task = self.store.claim(claim).await.unwrap().remove(0).task;
            self.claims.push(begun.elapsed());
            let end = Event::AttemptEnded(AttemptEnd::Finished(Outcome::result(Json::trusted("{}"))));
            let end = Change {
                fence: task.active_attempt().map(|attempt| attempt.fence()),
                ..Change::of(&task.id, end, AT)
            };
            let begun = Instant::now();
            self.store.apply(end).await.unwrap();
            self.ends.push(begun.elapsed());
        }
    }

    fn print(&self, beside: &Self) {
        let [claim, end, other_claim, other_end] =
            [&self.claims, &self.ends, &beside.claims, &beside.ends].map(|times| median(times));
        let ratio = |time: Duration, other: Duration| time.as_secs_f64() / other.as_secs_f64();
        println!(
            "{:<20} claim {claim:>10.1?} ({:.2})   end {end:>10.1?} ({:.2})",
            self.name,
            ratio(claim, other_claim),
            ratio(end, other_end),
        );
    }
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::main]
async fn main() {
    let queued = std::env::args().skip(1).find_map(|arg| arg.parse().ok());
    let queued = queued.unwrap_or(100_000);
    let mut without = Measured::new("without keys", queued, None).await;
    let mut with = Measured::new("with 1,000 values", queued, Some(VALUES)).await;
    for _ in 0..TURNS {
        without.work().await;
        with.work().await;
    }
    without.print(&without);
    with.print(&without);
}

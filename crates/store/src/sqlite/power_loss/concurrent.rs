//! Concurrent tasks.

use super::{World, now, tasks};
use crate::{
    contract::fixture::{answered, asked, finished},
    sqlite::{SqliteOptions, SqliteStore},
};
use longhaul_core::{
    Event, Task, TaskId,
    store::{Idempotency, StoreError},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};
use tempfile::TempDir;

const TASKS: usize = 84;

/// Concurrent tasks, with a loss of power now and then: what it leaves can be opened, is sound, and holds all that was acknowledged.
#[test]
fn invariant_1_a_loss_of_power_loses_nothing_acknowledged() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .build()
        .unwrap();
    let left = runtime.block_on(async {
        let workload = Arc::new(Workload {
            world: World::new(true).await,
            acknowledged: Mutex::default(),
        });
        let mut tasks = tokio::task::JoinSet::new();
        for nth in 0..TASKS {
            tasks.spawn(workload.clone().run_task(nth));
        }
        tasks.join_all().await.into_iter().flatten().collect::<Vec<_>>()
    });
    assert!(left.len() > 10, "{} losses of power", left.len());
    for (left, acknowledged) in left {
        let store = SqliteStore::open(left.path(), SqliteOptions::default()).unwrap();
        let (sound, counted, there) = now(&store, |now| {
            let sound: String = now
                .pragma_query_value(None, "integrity_check", |row| row.get(0))
                .unwrap();
            let counted = "SELECT live = (SELECT count(*) FROM tasks WHERE state < 3) FROM usage_in_all";
            let counted: bool = now.query_row(counted, [], |row| row.get(0)).unwrap();
            (sound, counted, tasks(now))
        });
        assert_eq!(sound, "ok");
        assert!(counted, "what is there is what is counted");
        for (id, version) in acknowledged {
            let found = there.get(&id).copied();
            assert!(
                found >= Some(version),
                "{id} was acknowledged with version {version}, and is left with {found:?}"
            );
        }
    }
}

/// The state shared by all tasks.
struct Workload {
    world: World,
    /// The versions of tasks, as they were answered.
    acknowledged: Mutex<HashMap<TaskId, u64>>,
}

type AfterLoss = Option<(TempDir, HashMap<TaskId, u64>)>;

impl Workload {
    /// The caller has its answer.
    fn acknowledged(&self, task: &Task) {
        let mut acknowledged = self.acknowledged.lock().unwrap();
        let version = acknowledged.entry(task.id.clone()).or_default();
        *version = task.version.max(*version);
    }

    /// Runs one task; after some of them the power is lost.
    async fn run_task(self: Arc<Self>, nth: usize) -> AfterLoss {
        let mut new = self.world.new_call(nth);
        match nth % 6 {
            // A task from its beginning.
            0 => {
                new.announced = true;
                let task = self.world.create(new).await;
                self.acknowledged(&task);
            }
            // A plain call.
            1 => {
                let task = self.world.create(new).await;
                self.acknowledged(&task);
                for event in [Event::Started, finished("done")] {
                    self.acknowledged(&self.world.apply(&task, event).await.unwrap());
                }
            }
            // A task that is promoted while its end is written.
            2 => {
                let task = self.world.create(new).await;
                let (promoted, ended) = tokio::join!(
                    self.world.apply(&task, Event::Promoted),
                    self.world.apply(&task, finished("done"))
                );
                self.acknowledged(&ended.unwrap());
                if let Some(promoted) = promoted {
                    self.acknowledged(&promoted);
                }
            }
            // A task with a question.
            3 => {
                let task = self.world.create(new).await;
                self.acknowledged(&self.world.apply(&task, asked(1)).await.unwrap());
                self.acknowledged(&self.world.apply(&task, answered(1, "yes")).await.unwrap());
                self.acknowledged(&self.world.apply(&task, finished("done")).await.unwrap());
            }
            // A task with an idempotency key.
            4 => {
                new.idempotency = Some(Idempotency {
                    key: format!("k{nth}").into(),
                    digest: [0; 32],
                });
                let task = self.world.create(new).await;
                self.acknowledged(&task);
                self.acknowledged(&self.world.apply(&task, finished("done")).await.unwrap());
            }
            // A task whose change fails, so that each change of its batch is tried alone.
            _ => {
                let fails = self
                    .world
                    .store
                    .write(0, |_| Err::<Result<(), StoreError>, _>(rusqlite::Error::InvalidQuery));
                let (task, failed) = tokio::join!(self.world.create(new), fails);
                assert!(failed.is_err());
                self.acknowledged(&self.world.apply(&task, Event::Promoted).await.unwrap());
            }
        }
        (nth % 12 < 6).then(|| {
            let acknowledged = self.acknowledged.lock().unwrap().clone();
            (
                self.world
                    .disk
                    .after_a_loss_of_power(&mut fastrand::Rng::with_seed(nth as u64)),
                acknowledged,
            )
        })
    }
}

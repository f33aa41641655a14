//! Many changes at once.

use super::{World, now, tasks};
use crate::{
    contract::fixture::{answered, asked, finished},
    sqlite::{SqliteOptions, SqliteStore, durability::Durability},
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

const LIVES: usize = 84;

/// Many at once, a loss of power now and then: whatever it leaves can be opened, is sound, and holds all that anyone was told.
#[test]
fn invariant_1_a_loss_of_power_takes_nothing_that_anyone_was_told_of() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .build()
        .unwrap();
    let left = runtime.block_on(async {
        let lived = Arc::new(Lived {
            world: World::new(true).await,
            told: Mutex::default(),
        });
        let mut lives = tokio::task::JoinSet::new();
        for nth in 0..LIVES {
            lives.spawn(lived.clone().life(nth));
        }
        lives.join_all().await.into_iter().flatten().collect::<Vec<_>>()
    });
    assert!(left.len() > 10, "{} losses of power", left.len());
    for (left, told) in left {
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
        for (id, version) in told {
            let found = there.get(&id).copied();
            assert!(
                found >= Some(version),
                "{id} was acknowledged with version {version}, and is left with {found:?}"
            );
        }
    }
}

/// What the lives have in common.
struct Lived {
    world: World,
    /// What someone outside can know of.
    told: Mutex<HashMap<TaskId, u64>>,
}

type Left = Option<(TempDir, HashMap<TaskId, u64>)>;

impl Lived {
    /// The client has its answer.
    fn tell(&self, task: &Task) {
        self.told.lock().unwrap().insert(task.id.clone(), task.version);
    }

    /// One task's life; the power is lost after some.
    async fn life(self: Arc<Self>, nth: usize) -> Left {
        let mut new = self.world.plain(nth);
        match nth % 6 {
            // A task from its beginning.
            0 => {
                new.announced = true;
                let task = self.world.create(new).await;
                self.tell(&task);
            }
            // A plain call.
            1 => {
                let task = self.world.create(new).await;
                self.world.apply(&task, Event::Started).await.unwrap();
                self.world.apply(&task, finished("done")).await.unwrap();
            }
            // One that is promoted while its end is written.
            2 => {
                let task = self.world.create(new).await;
                let (promoted, ended) = tokio::join!(
                    self.world.apply(&task, Event::Promoted),
                    self.world.apply(&task, finished("done"))
                );
                assert!(ended.is_some());
                if let Some(promoted) = promoted {
                    self.tell(&promoted);
                    self.tell(&ended.unwrap());
                }
            }
            // One that asks.
            3 => {
                let task = self.world.create(new).await;
                self.tell(&self.world.apply(&task, asked(1)).await.unwrap());
                self.tell(&self.world.apply(&task, answered(1, "yes")).await.unwrap());
                self.tell(&self.world.apply(&task, finished("done")).await.unwrap());
            }
            // One that its caller can come back for.
            4 => {
                new.idempotency = Some(Idempotency {
                    key: format!("k{nth}").into(),
                    digest: [0; 32],
                });
                let task = self.world.create(new).await;
                self.tell(&task);
                self.tell(&self.world.apply(&task, finished("done")).await.unwrap());
            }
            // One that takes the batch it is in apart.
            _ => {
                let fails = self.world.store.write(0, Durability::Synced, |_| {
                    Err::<Result<(), StoreError>, _>(rusqlite::Error::InvalidQuery)
                });
                let (task, failed) = tokio::join!(self.world.create(new), fails);
                assert!(failed.is_err());
                self.tell(&self.world.apply(&task, Event::Promoted).await.unwrap());
            }
        }
        (nth % 12 < 6).then(|| {
            let told = self.told.lock().unwrap().clone();
            (
                self.world
                    .disk
                    .after_a_loss_of_power(&mut fastrand::Rng::with_seed(nth as u64)),
                told,
            )
        })
    }
}

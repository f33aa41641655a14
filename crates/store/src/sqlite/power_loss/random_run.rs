//! Random changes, one after the other.

use super::{Disk, count, now, tasks};
use crate::{
    MemoryStore,
    contract::differential::{Chooser, StoreCall, perform},
};

/// After each step the disk is certain to hold all that there is.
#[test]
fn invariant_1_what_was_acknowledged_is_synced() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for seed in [11, 12] {
        runtime.block_on(random_run(seed));
    }
}

async fn random_run(seed: u64) {
    let disk = Disk::new(false);
    let mut store = disk.open();
    let model = MemoryStore::new();
    let mut chooser = Chooser::new(seed);
    for nth in 0..1_000 {
        let step = chooser.next(&model).await;
        if let StoreCall::Reopen = step {
            drop(store);
            store = disk.open();
            continue;
        }
        chooser.learn(&step, &perform(&model, &step).await);
        let _ = perform(&*store, &step).await;
        let synced = disk.synced();
        let there = now(&store, |now| {
            (tasks(now), count(now, "nodes"), count(now, "ended_sessions"))
        });
        assert_eq!(
            (&synced.tasks, synced.nodes, synced.sessions),
            (&there.0, there.1, there.2),
            "seed {seed}, step {nth}: {step:?} is not on the disk"
        );
    }
}

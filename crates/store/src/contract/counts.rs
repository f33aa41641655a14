//! Counts of live tasks.

use super::{Fresh, fixture::*};
use longhaul_core::{AttemptEnd, CancelMode, Event, store::Counts};

/// Live tasks by state. A task that is over is not counted, even while its attempt still stops.
pub async fn live_tasks_are_counted(fresh: Fresh) {
    let bench = Bench::fresh(fresh).await;
    assert_eq!(bench.store.counts().await, Ok(Counts::default()));
    bench.create(new_task("a", bench.node, 1)).await;
    bench.create(new_task("b", bench.node, 1)).await;
    bench.running("c", 1).await;
    let (suspended, fence) = bench.running("d", 1).await;
    let waits = Event::AttemptEnded(AttemptEnd::Suspended { until: None, woken: 0 });
    bench
        .apply(&suspended.id, Some(fence), vec![asked(1), waits], 2)
        .await
        .expect("it parks");
    let (blocked, fence) = bench.running("f", 1).await;
    bench
        .apply(&blocked.id, Some(fence), vec![block("v2", 50, 100)], 2)
        .await
        .expect("it is blocked");
    let (over, _) = bench.running("e", 1).await;
    bench
        .apply(&over.id, None, vec![Event::CancelRequested(CancelMode::AtOnce)], 3)
        .await
        .expect("it is cancelled");
    let counts = Counts {
        queued: 2,
        running: 1,
        suspended: 1,
        blocked: 1,
    };
    assert_eq!(bench.store.counts().await, Ok(counts));
}

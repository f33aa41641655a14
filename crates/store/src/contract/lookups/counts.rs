//! Counts of live tasks.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{
    AttemptEnd, CancelMode, Event, State, UnixMillis,
    store::{Counts, LiveTasks},
};

/// Live tasks by state. A task that is over is not counted, even while its attempt still stops.
pub async fn live_tasks_are_counted(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    assert_eq!(fixture.store.counts().await, Ok(Counts::default()));
    fixture.create(new_task("a", fixture.node, 1)).await;
    fixture.create(new_task("b", fixture.node, 1)).await;
    fixture.running("c", 1).await;
    let (suspended, fence) = fixture.running("d", 1).await;
    let waits = Event::AttemptEnded(AttemptEnd::Suspended { until: None, woken: 0 });
    fixture
        .apply(&suspended.id, Some(fence), vec![asked(1), waits], 2)
        .await
        .expect("it parks");
    let (blocked, fence) = fixture.running("f", 1).await;
    fixture
        .apply(&blocked.id, Some(fence), vec![block("v2", 50, 100)], 2)
        .await
        .expect("it is blocked");
    let (over, _) = fixture.running("e", 1).await;
    fixture
        .apply(&over.id, None, vec![Event::CancelRequested(CancelMode::AtOnce)], 3)
        .await
        .expect("it is cancelled");
    let counts = Counts {
        queued: 2,
        running: 1,
        suspended: 1,
        blocked: 1,
    };
    assert_eq!(fixture.store.counts().await, Ok(counts));
    let group = |state, count, asking, ready_at| LiveTasks {
        tool: "tool".into(),
        state,
        count,
        asking,
        ready_at: UnixMillis(ready_at),
    };
    let live = vec![
        group(State::Blocked, 1, 0, 1),
        group(State::Queued, 2, 0, 1),
        group(State::Running, 1, 0, 1),
        group(State::Suspended, 1, 1, 1),
    ];
    assert_eq!(fixture.store.live_tasks().await, Ok(live));
}

//! Invariant 2: a done task never changes.

use super::{Fresh, fixture::*};
use longhaul_core::{
    AttemptEnd, CancelMode, Event, InputKey, Outcome, State, StopReason, UnixMillis, Verdict, store::ApplyError,
};

/// Whatever event arrives, with or without a fence: the outcome and all that a reader sees stay.
pub async fn invariant_2_a_done_task_never_changes(fresh: Fresh) {
    let bench = Bench::fresh(fresh).await;
    let (task, fence) = bench.running("a", 1).await;
    bench
        .apply(&task.id, Some(fence), vec![Event::Started, asked(1)], 2)
        .await
        .expect("it works");
    // Cancelled at once: the task is over while its worker, which holds the fence, still stops.
    bench
        .apply(&task.id, None, vec![Event::CancelRequested(CancelMode::AtOnce)], 3)
        .await
        .expect("it is cancelled");
    let over = bench.get_unscoped(&task.id).await;
    assert_eq!(
        (over.task.state, &over.outcome),
        (State::Done(Verdict::Cancelled), &Some(Outcome::Cancelled))
    );
    assert_eq!(over.inputs, []);

    let refused = [
        Event::Claimed {
            node: bench.node,
            host: None,
        },
        Event::Reported {
            status: Some("late".into()),
            progress: None,
        },
        asked(2),
        answered(1, "late"),
        Event::InputWithdrawn { key: InputKey::nth(1) },
        Event::CancelRequested(CancelMode::Cooperative),
        Event::DeadlinePassed,
        Event::QueueTimedOut,
        Event::Promoted,
        Event::Abandoned(answer_text("late")),
        Event::TtlExtended {
            until: UnixMillis(i64::MAX),
        },
    ];
    for event in refused {
        let name = event.name();
        let answer = bench.apply(&task.id, Some(fence), vec![event], 4).await;
        assert!(matches!(answer, Err(ApplyError::Illegal(_))), "{name}: {answer:?}");
        assert_eq!(bench.get_unscoped(&task.id).await, over, "{name}");
    }
    for end in [
        finished("late"),
        Event::AttemptEnded(AttemptEnd::Stopped(StopReason::Cancel)),
    ] {
        let late = bench.apply(&task.id, Some(fence), vec![end.clone()], 5).await;
        let now = bench.get_unscoped(&task.id).await;
        assert_eq!(
            (now.task.state, &now.outcome),
            (over.task.state, &over.outcome),
            "{end:?}"
        );
        assert_eq!(
            (now.task.ended_at, now.task.announced_until),
            (over.task.ended_at, over.task.announced_until)
        );
        // The first event ends the attempt, and with it the fence.
        assert!(late.is_ok() || late == Err(ApplyError::Stale), "{late:?}");
    }
}

/// A legacy call with bad arguments gets a task that is over at once.
pub async fn a_task_may_be_over_as_it_is_created(fresh: Fresh) {
    let bench = Bench::fresh(fresh).await;
    let mut new = new_task("a", bench.node, 7);
    let outcome = Outcome::tool_error("`path` is missing");
    new.outcome = Some(outcome.clone());
    let task = bench.create(new).await;
    let record = bench.get("alice", &task.id).await.expect("its owner sees it");
    assert_eq!(
        (record.task.state, record.outcome),
        (State::Done(Verdict::ToolError), Some(outcome))
    );
    assert_eq!(bench.claim("tool", 1, 100).await, []);
}

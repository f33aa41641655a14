//! Invariant 2: a done task never changes.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{
    AttemptEnd, CancelMode, Event, InputKey, Outcome, State, StopReason, UnixMillis, Verdict, store::ApplyError,
};

/// Whatever event arrives, with or without a fence: the outcome and all that a reader sees stay.
pub async fn invariant_2_a_done_task_never_changes(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, fence) = fixture.running("a", 1).await;
    fixture
        .apply(&task.id, Some(fence), vec![Event::Started, asked(1)], 2)
        .await
        .expect("it works");
    // Cancelled at once: the task is over while its worker, which holds the fence, still stops.
    fixture
        .apply(&task.id, None, vec![Event::CancelRequested(CancelMode::AtOnce)], 3)
        .await
        .expect("it is cancelled");
    let over = fixture.get_unscoped(&task.id).await;
    assert_eq!(
        (over.task.state, &over.outcome),
        (State::Done(Verdict::Cancelled), &Some(Outcome::Cancelled))
    );
    assert_eq!(over.inputs, []);

    let refused = [
        Event::Claimed {
            node: fixture.node,
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
        Event::Raised {
            ready_at: UnixMillis(0),
        },
        Event::Promoted,
        Event::Abandoned(answer_text("late")),
        Event::RetryAwaited {
            until: UnixMillis(i64::MAX),
        },
        Event::TtlExtended {
            until: UnixMillis(i64::MAX),
        },
    ];
    for event in refused {
        let name = event.name();
        let answer = fixture.apply(&task.id, Some(fence), vec![event], 4).await;
        assert!(matches!(answer, Err(ApplyError::Illegal(_))), "{name}: {answer:?}");
        assert_eq!(fixture.get_unscoped(&task.id).await, over, "{name}");
    }
    for end in [
        finished("late"),
        Event::AttemptEnded(AttemptEnd::Stopped(StopReason::Cancel)),
    ] {
        let late = fixture.apply(&task.id, Some(fence), vec![end.clone()], 5).await;
        let now = fixture.get_unscoped(&task.id).await;
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
pub async fn a_task_may_be_over_as_it_is_created(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let mut new = new_task("a", fixture.node, 7);
    let outcome = Outcome::tool_error("`path` is missing");
    new.outcome = Some(outcome.clone());
    let task = fixture.create(new).await;
    let record = fixture.get("alice", &task.id).await.expect("its owner sees it");
    assert_eq!(
        (record.task.state, record.outcome),
        (State::Done(Verdict::ToolError), Some(outcome))
    );
    assert_eq!(fixture.claim("tool", 1, 100).await, []);
}

//! Invariant 3: every effect of a worker carries its fence; a stale one is refused.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{AttemptEnd, Event, Fence, InputKey, NodeId, UnixMillis, store::ApplyError};

/// The fence of an earlier attempt, of another node, or of no attempt is refused.
pub async fn invariant_3_a_stale_fence_is_refused(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, first) = fixture.running("a", 1).await;
    let failed = AttemptEnd::Failed {
        outcome: answer_text("no"),
        retry_at: Some(UnixMillis(2)),
        asks_again: false,
    };
    fixture
        .apply(&task.id, Some(first), vec![Event::AttemptEnded(failed)], 2)
        .await
        .expect("queued again");
    let queued = fixture.get_unscoped(&task.id).await;
    assert_eq!(
        fixture.apply(&task.id, Some(first), vec![finished("late")], 3).await,
        Err(ApplyError::Stale)
    );
    assert_eq!(fixture.get_unscoped(&task.id).await, queued);

    let second = fence(&fixture.claim("tool", 1, 3).await[0].task);
    let running = fixture.get_unscoped(&task.id).await;
    let stale = [
        first,
        Fence {
            epoch: second.epoch + 1,
            ..second
        },
        Fence {
            node: NodeId(second.node.0 + 1),
            ..second
        },
    ];
    for stale in stale {
        // Also for events that need no fence: a fence that is sent must be valid.
        for event in [finished("late"), Event::Started, answered(1, "x"), Event::Promoted] {
            let answer = fixture.apply(&task.id, Some(stale), vec![event.clone()], 4).await;
            assert_eq!(answer, Err(ApplyError::Stale), "{stale:?} {event:?}");
        }
        assert_eq!(fixture.get_unscoped(&task.id).await, running);
    }
    fixture
        .apply(&task.id, Some(second), vec![finished("done")], 5)
        .await
        .expect("the holder may");
    assert_eq!(
        fixture.apply(&task.id, Some(second), vec![finished("twice")], 6).await,
        Err(ApplyError::Stale)
    );
    assert_eq!(fixture.get_unscoped(&task.id).await.outcome, Some(answer_text("done")));
}

/// Events of a worker are refused without a fence.
pub async fn workers_must_show_a_fence(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, fence) = fixture.running("a", 1).await;
    fixture
        .apply(&task.id, Some(fence), vec![asked(1)], 2)
        .await
        .expect("a question");
    let before = fixture.get_unscoped(&task.id).await;
    let events = [
        Event::Started,
        Event::Reported {
            status: None,
            progress: None,
        },
        asked(2),
        Event::InputWithdrawn { key: InputKey::nth(1) },
        finished("forged"),
    ];
    for event in events {
        let answer = fixture.apply(&task.id, None, vec![event.clone()], 3).await;
        assert_eq!(answer, Err(ApplyError::Stale), "{event:?}");
    }
    assert_eq!(fixture.get_unscoped(&task.id).await, before);
}

//! Acknowledged changes stay, also when the store is closed and opened again.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{Event, State, UnixMillis, Verdict};

/// Every kind of change is read back unchanged.
pub async fn changes_survive_reopening(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let queued = fixture
        .create(of_session(new_task("a-queued", fixture.node, 1), "session"))
        .await;
    let (running, fence) = fixture.running("b-running", 2).await;
    let report = Event::Reported {
        status: Some("half \u{1F40C}\0 done".into()),
        progress: Some(longhaul_core::Progress {
            current: 1.5,
            total: Some(3.0),
        }),
    };
    let running = fixture
        .apply(
            &running.id,
            Some(fence),
            vec![Event::Started, report, asked(1), asked(2), answered(1, "yes")],
            3,
        )
        .await
        .expect("a worker's report is kept");
    let (done, fence) = fixture.running("c-done", 4).await;
    let done = fixture
        .apply(&done.id, Some(fence), vec![finished("42")], 5)
        .await
        .expect("it ends");
    let before = [
        fixture.get_unscoped(&queued.id).await,
        fixture.get_unscoped(&running.id).await,
        fixture.get_unscoped(&done.id).await,
    ];
    assert_eq!(before[1].inputs.len(), 1, "one question is open");
    assert_eq!(before[2].outcome, Some(answer_text("42")));
    assert_eq!(before[2].task.state, State::Done(Verdict::Succeeded));

    let fixture = fixture.restart().await;
    let after = [
        fixture.get_unscoped(&queued.id).await,
        fixture.get_unscoped(&running.id).await,
        fixture.get_unscoped(&done.id).await,
    ];
    assert_eq!(after, before);
    let answer = fixture.input(&running.id, 1).await.expect("the answer is kept");
    assert_eq!(answer.asked_at, UnixMillis(3));
    assert!(matches!(answer.state, longhaul_core::InputState::Answered(json) if json.as_str().contains("yes")));
}

/// A fence of an earlier node never becomes valid again.
pub async fn nodes_are_never_numbered_twice(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let first = fixture.node;
    let fixture = fixture.restart().await;
    let second = fixture.node;
    let third = fixture.restart().await.node;
    assert!(first < second && second < third, "{first:?}, {second:?}, {third:?}");
}

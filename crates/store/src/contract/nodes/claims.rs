//! Taking work from a queue.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{AttemptEnd, Event, State};
use std::collections::BTreeSet;

/// Of many concurrent claimers each task goes to one.
pub async fn no_task_is_given_to_two_claimers(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    for n in 0..30 {
        fixture.create(new_task(&format!("t{n:02}"), fixture.node, n)).await;
    }
    let mut taken = Vec::new();
    // Started together, so that a concurrent store handles them at the same time.
    let claims: Vec<_> = (0..20).map(|_| Box::pin(fixture.claim("tool", 2, 100))).collect();
    for claim in together(claims).await {
        taken.extend(claim);
    }
    let names: BTreeSet<_> = taken.iter().map(|claimed| claimed.task.id.clone()).collect();
    assert_eq!((taken.len(), names.len()), (30, 30));
    for claimed in taken {
        assert_eq!(claimed.arguments.as_str(), format!(r#"{{"of":"{}"}}"#, claimed.task.id));
        let attempt = claimed.task.active_attempt().expect("an attempt");
        assert_eq!(
            (claimed.task.state, attempt.epoch, attempt.node),
            (State::Running, 1, fixture.node)
        );
    }
}

/// Oldest first, by `ready_at` and then by id; what is not ready yet, and what another tool waits for, stays.
pub async fn a_queue_is_in_order_of_readiness(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    for (name, at) in [("d", 5), ("c", 7), ("b", 5), ("a", 9)] {
        fixture.create(new_task(name, fixture.node, at)).await;
    }
    let mut other = new_task("0", fixture.node, 1);
    other.header.tool = "other".into();
    fixture.create(other).await;
    let names = |claimed: Vec<longhaul_core::store::Claimed>| -> Vec<String> {
        claimed.iter().map(|claimed| claimed.task.id.to_string()).collect()
    };
    assert_eq!(names(fixture.claim("tool", 10, 4).await), [] as [&str; 0]);
    assert_eq!(names(fixture.claim("tool", 2, 8).await), ["b", "d"]);
    assert_eq!(names(fixture.claim("tool", 10, 8).await), ["c"]);

    let task = fixture.get_unscoped(&id("c")).await.task;
    let failed = Event::AttemptEnded(AttemptEnd::Failed {
        outcome: answer_text("no"),
        retry_at: Some(longhaul_core::UnixMillis(50)),
        asks_again: false,
    });
    fixture
        .apply(&task.id, Some(fence(&task)), vec![failed], 9)
        .await
        .expect("it is queued again");
    assert_eq!(names(fixture.claim("tool", 10, 49).await), ["a"]);
    let again = fixture.claim("tool", 10, 50).await;
    assert_eq!(again[0].task.active_attempt().map(|attempt| attempt.epoch), Some(2));
    assert_eq!(names(again), ["c"]);
}

/// Then no other claimer gets it.
pub async fn a_task_may_be_claimed_as_it_is_created(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, _) = fixture.running("a", 1).await;
    assert_eq!(task.state, State::Running);
    assert_eq!(fixture.get_unscoped(&task.id).await.task, task);
    assert_eq!(fixture.claim("tool", 10, 100).await, []);
}

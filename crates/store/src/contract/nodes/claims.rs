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

/// One task at a time, also of many claimers, and the next one when its time has come. A claim that takes nothing does not count.
pub async fn starts_of_a_tool_with_a_rate_are_spaced(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    for n in 0..9 {
        fixture.create(new_task(&format!("t{n}"), fixture.node, n)).await;
    }
    let mut other = new_task("o", fixture.node, 1);
    other.header.tool = "other".into();
    fixture.create(other).await;
    let rate = "10/m".parse().ok();
    let last_start = async |fixture: &Fixture, tool: &str| {
        let last = fixture.store.last_start(tool).await.expect("a read");
        last.map(|last| last.0)
    };
    assert_eq!(fixture.claim_at_rate("none", rate, 9, 50).await, []);
    assert_eq!(last_start(&fixture, "none").await, None);
    assert_eq!(last_start(&fixture, "tool").await, None);
    assert_eq!(fixture.claim_at_rate("tool", rate, 9, 100).await.len(), 1);
    assert_eq!(last_start(&fixture, "tool").await, Some(100));
    assert_eq!(fixture.claim_at_rate("other", rate, 9, 101).await.len(), 1);
    assert_eq!(fixture.claim_at_rate("tool", rate, 9, 6_099).await, []);
    let fixture = fixture.restart().await;
    assert_eq!(fixture.claim_at_rate("tool", rate, 9, 6_099).await, []);
    for at in [6_100, 12_100] {
        // Started together, so that a concurrent store handles them at the same time.
        let claims: Vec<_> = (0..8)
            .map(|_| Box::pin(fixture.claim_at_rate("tool", rate, 2, at)))
            .collect();
        let taken: usize = together(claims).await.iter().map(Vec::len).sum();
        assert_eq!((taken, last_start(&fixture, "tool").await), (1, Some(at)));
    }
    // Without a rate nothing holds them.
    assert_eq!(fixture.claim("tool", 9, 12_101).await.len(), 6);
}

/// Then no other claimer gets it.
pub async fn a_task_may_be_claimed_as_it_is_created(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, _) = fixture.running("a", 1).await;
    assert_eq!(task.state, State::Running);
    assert_eq!(fixture.get_unscoped(&task.id).await.task, task);
    assert_eq!(fixture.claim("tool", 10, 100).await, []);
}

//! After a restart.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{
    AttemptState, CancelMode, Event, HostId, State, UnixMillis,
    store::{ApplyError, TaskLookup},
};

/// The new node takes over what ran, in the state it was in; the old fence is stale, the epoch stays.
pub async fn orphans_are_adopted_with_their_epoch(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (live, old) = fixture.running("a", 1).await;
    fixture
        .apply(&live.id, Some(old), vec![Event::Started], 2)
        .await
        .expect("it starts");
    let (stopping, _) = fixture.running("b", 1).await;
    fixture
        .apply(&stopping.id, None, vec![Event::CancelRequested(CancelMode::AtOnce)], 2)
        .await
        .expect("cancelled");
    fixture.create(new_task("c", fixture.node, 1)).await;
    let own = fixture.store.adopt(fixture.node, &host(), 10, UnixMillis(3)).await;
    assert_eq!(own, Ok(vec![]), "live nodes keep their attempts");

    let fixture = fixture.restart().await;
    let first = fixture
        .store
        .adopt(fixture.node, &host(), 1, UnixMillis(3))
        .await
        .expect("an answer");
    assert_eq!(first.len(), 1);
    let rest = fixture
        .store
        .adopt(fixture.node, &host(), 10, UnixMillis(3))
        .await
        .expect("an answer");
    assert_eq!(
        fixture.store.adopt(fixture.node, &host(), 10, UnixMillis(3)).await,
        Ok(vec![])
    );
    let adopted = [first, rest].concat();
    let seen: Vec<_> = adopted
        .iter()
        .map(|claimed| {
            let attempt = claimed.task.active_attempt().expect("an attempt");
            (
                claimed.task.id.to_string(),
                claimed.task.is_done(),
                attempt.state,
                attempt.epoch,
                attempt.node,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("a".to_owned(), false, AttemptState::Live, 1, fixture.node),
            ("b".to_owned(), true, AttemptState::Stopping, 1, fixture.node)
        ]
    );
    assert_eq!(adopted[0].arguments.as_str(), r#"{"of":"a"}"#);
    assert_eq!(
        fixture.apply(&live.id, Some(old), vec![finished("old")], 4).await,
        Err(ApplyError::Stale)
    );
    let done = fixture
        .apply(&live.id, Some(fence(&adopted[0].task)), vec![finished("new")], 5)
        .await
        .expect("it ends");
    assert!(matches!(done.state, State::Done(_)));
}

/// An attempt of another host can only be adopted there. A store that only one process can open is one host.
pub async fn orphans_of_other_hosts_are_left(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let there = HostId("there".into());
    for (name, bound) in [("a", None), ("b", Some(host())), ("c", Some(there.clone()))] {
        let mut new = new_task(name, fixture.node, 1);
        new.claim = Some((fixture.node, bound));
        fixture.create(new).await;
    }
    let fixture = fixture.restart().await;
    let here = fixture
        .store
        .adopt(fixture.node, &host(), 10, UnixMillis(2))
        .await
        .expect("an answer");
    let many_nodes = fixture.store.capabilities().many_nodes;
    let mut expected = vec![id("a"), id("b"), id("c")];
    let of_the_other = expected.split_off(if many_nodes { 2 } else { 3 });
    assert_eq!(
        here.iter().map(|claimed| claimed.task.id.clone()).collect::<Vec<_>>(),
        expected
    );
    let elsewhere = fixture
        .store
        .adopt(fixture.node, &there, 10, UnixMillis(2))
        .await
        .expect("an answer");
    assert_eq!(
        elsewhere
            .iter()
            .map(|claimed| claimed.task.id.clone())
            .collect::<Vec<_>>(),
        of_the_other
    );
}

/// A plain call whose caller is gone.
pub async fn orphaned_calls_are_found(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    for (name, announced) in [("a", false), ("b", true), ("c", false), ("d", false)] {
        let mut new = new_task(name, fixture.node, 1);
        new.announced = announced;
        fixture.create(new).await;
    }
    fixture
        .apply(&id("c"), None, vec![Event::CancelRequested(CancelMode::AtOnce)], 2)
        .await
        .expect("it is over");
    assert_eq!(
        fixture.store.find(TaskLookup::OrphanedCalls(fixture.node), 10).await,
        Ok(vec![]),
        "their front lives"
    );
    let mut asked = new_task("asked", fixture.node, 1);
    asked.announced = false;
    fixture.create(asked).await;
    let until = UnixMillis(900);
    let awaited = fixture
        .apply(&id("asked"), None, vec![Event::RetryAwaited { until }], 2)
        .await
        .expect("its client may come back to another node");
    assert_eq!((awaited.retry_until, awaited.wake_at()), (Some(until), Some(until)));
    let fixture = fixture.restart().await;
    let mut new = new_task("e", fixture.node, 3);
    new.announced = false;
    fixture.create(new).await;
    let names = |tasks: Vec<longhaul_core::Task>| tasks.iter().map(|task| task.id.to_string()).collect::<Vec<_>>();
    assert_eq!(
        names(
            fixture
                .store
                .find(TaskLookup::OrphanedCalls(fixture.node), 1)
                .await
                .expect("an answer")
        ),
        ["a"]
    );
    assert_eq!(
        names(
            fixture
                .store
                .find(TaskLookup::OrphanedCalls(fixture.node), 10)
                .await
                .expect("an answer")
        ),
        ["a", "d"]
    );
    assert_eq!(fixture.get_unscoped(&id("asked")).await.task.retry_until, Some(until));
    let due = fixture
        .store
        .find(TaskLookup::DueTimers(until), 10)
        .await
        .expect("an answer");
    assert_eq!(names(due), ["asked"]);
}

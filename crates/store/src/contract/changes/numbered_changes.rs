//! A worker that does not know whether a change was made makes it again, and it is made once.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{
    AttemptEnd, Entry, Event, Json, Task, UnixMillis,
    store::{ApplyError, Change},
};

fn numbered(task: &Task, number: u32, events: Vec<Event>) -> Change {
    Change {
        number: Some(number),
        ..change(&task.id, Some(fence(task)), events, 2)
    }
}

/// The first entry with another value.
fn other_value() -> Entry {
    Entry {
        value: Json::trusted("2"),
        ..step(1, "one")
    }
}

/// A change that is made again changes nothing, whatever was written since, and also if it has ended its attempt.
pub async fn a_numbered_change_is_made_once(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, _) = fixture.running("a", 1).await;
    let changes = [
        numbered(&task, 1, vec![Event::Started]),
        numbered(&task, 2, vec![asked(1), Event::Journaled(step(1, "one"))]),
        numbered(&task, 5, vec![Event::Journaled(other_value())]),
        numbered(&task, 6, vec![finished("done")]),
    ];
    for (nth, change) in changes.iter().enumerate() {
        let made = fixture.store.apply(change.clone()).await.expect("it is made");
        let (record, journal) = (fixture.get_unscoped(&task.id).await, fixture.journal(&task.id).await);
        for earlier in &changes[..=nth] {
            assert_eq!(
                fixture.store.apply(earlier.clone()).await,
                Ok(made.clone()),
                "{earlier:?}"
            );
        }
        assert_eq!(fixture.get_unscoped(&task.id).await, record);
        assert_eq!(fixture.journal(&task.id).await, journal);
    }
    let late = fixture
        .store
        .apply(numbered(&task, 7, vec![Event::Journaled(step(2, "late"))]))
        .await;
    assert_eq!(late, Err(ApplyError::Stale));
}

/// Numbers belong to an attempt: they survive its adoption, and the next one begins anew.
pub async fn numbers_belong_to_an_attempt(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, _) = fixture.running("a", 1).await;
    let first = numbered(&task, 1, vec![Event::Journaled(step(1, "one"))]);
    fixture.store.apply(first.clone()).await.expect("it is made");
    let fixture = fixture.restart().await;
    let adopted = fixture
        .store
        .adopt(fixture.node, &host(), 9, UnixMillis(3))
        .await
        .expect("an adoption");
    let task = adopted[0].task.clone();
    assert_eq!(task.attempt.as_ref().map(|attempt| attempt.changes), Some(1));
    assert_eq!(
        fixture.store.apply(first).await,
        Err(ApplyError::Stale),
        "its node is dead"
    );
    let again = numbered(&task, 1, vec![Event::Journaled(other_value())]);
    assert_eq!(fixture.store.apply(again).await, Ok(task.clone()));
    let failed = Event::AttemptEnded(AttemptEnd::Failed {
        outcome: answer_text("no"),
        retry_at: Some(UnixMillis(4)),
        asks_again: false,
    });
    let end = numbered(&task, 2, vec![failed]);
    fixture.store.apply(end).await.expect("queued again");
    let next = fixture.claim("tool", 1, 4).await.remove(0).task;
    assert_eq!(next.attempt.as_ref().map(|attempt| attempt.changes), Some(0));
    let start = numbered(&next, 1, vec![Event::Started]);
    assert!(fixture.store.apply(start).await.expect("it is made").version > next.version);
}

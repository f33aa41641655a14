//! Changes that only time causes.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::UnixMillis;
use longhaul_core::store::TaskLookup;

/// Earliest first, and only tasks that are due. A task whose time moved is found at the new time.
pub async fn due_tasks_are_listed_earliest_first(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    assert_eq!(fixture.store.next_wake().await, Ok(None));
    for (name, deadline) in [("a", 300), ("b", 100), ("c", 200)] {
        let mut new = new_task(name, fixture.node, 0);
        new.header.deadline = Some(deadline);
        fixture.create(new).await;
    }
    let names = |tasks: Vec<longhaul_core::Task>| tasks.iter().map(|task| task.id.to_string()).collect::<Vec<_>>();
    assert_eq!(fixture.store.next_wake().await, Ok(Some(UnixMillis(100))));
    assert_eq!(
        names(
            fixture
                .store
                .find(TaskLookup::DueTimers(UnixMillis(99)), 10)
                .await
                .expect("a list")
        ),
        [] as [&str; 0]
    );
    assert_eq!(
        names(
            fixture
                .store
                .find(TaskLookup::DueTimers(UnixMillis(250)), 10)
                .await
                .expect("a list")
        ),
        ["b", "c"]
    );
    assert_eq!(
        names(
            fixture
                .store
                .find(TaskLookup::DueTimers(UnixMillis(250)), 1)
                .await
                .expect("a list")
        ),
        ["b"]
    );
    let due = fixture
        .store
        .find(TaskLookup::DueTimers(UnixMillis(250)), 1)
        .await
        .expect("a list");
    let events = due[0].due(UnixMillis(250));
    fixture
        .apply(&due[0].id, None, events, 250)
        .await
        .expect("what is due is legal");
    assert_eq!(
        names(
            fixture
                .store
                .find(TaskLookup::DueTimers(UnixMillis(250)), 10)
                .await
                .expect("a list")
        ),
        ["c"]
    );
    assert_eq!(fixture.store.next_wake().await, Ok(Some(UnixMillis(200))));
    // Their retention is an hour: half of it before the end, a task that still lives is given more.
    let last = fixture.create(new_task("d", fixture.node, 0)).await;
    assert_eq!(last.wake_at(), Some(UnixMillis((HOUR / 2) as i64)));
}

//! Changes that only time causes.

use super::{Fresh, fixture::*};
use longhaul_core::UnixMillis;

/// Earliest first, and only tasks that are due. A task whose time moved is found at the new time.
pub async fn due_tasks_are_listed_earliest_first(fresh: Fresh) {
    let bench = Bench::fresh(fresh).await;
    assert_eq!(bench.store.next_wake().await, Ok(None));
    for (name, deadline) in [("a", 300), ("b", 100), ("c", 200)] {
        let mut new = new_task(name, bench.node, 0);
        new.header.deadline = Some(deadline);
        bench.create(new).await;
    }
    let names = |tasks: Vec<longhaul_core::Task>| tasks.iter().map(|task| task.id.to_string()).collect::<Vec<_>>();
    assert_eq!(bench.store.next_wake().await, Ok(Some(UnixMillis(100))));
    assert_eq!(
        names(bench.store.due(UnixMillis(99), 10).await.expect("a list")),
        [] as [&str; 0]
    );
    assert_eq!(
        names(bench.store.due(UnixMillis(250), 10).await.expect("a list")),
        ["b", "c"]
    );
    assert_eq!(names(bench.store.due(UnixMillis(250), 1).await.expect("a list")), ["b"]);
    let due = bench.store.due(UnixMillis(250), 1).await.expect("a list");
    let events = due[0].due(UnixMillis(250));
    bench
        .apply(&due[0].id, None, events, 250)
        .await
        .expect("what is due is legal");
    assert_eq!(
        names(bench.store.due(UnixMillis(250), 10).await.expect("a list")),
        ["c"]
    );
    assert_eq!(bench.store.next_wake().await, Ok(Some(UnixMillis(200))));
    // Their retention is an hour: half of it before the end, a task that still lives is given more.
    let last = bench.create(new_task("d", bench.node, 0)).await;
    assert_eq!(last.wake_at(), Some(UnixMillis((HOUR / 2) as i64)));
}

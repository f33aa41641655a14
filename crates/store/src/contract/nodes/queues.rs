//! Which queues there are.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{Event, Principal, Priority, UnixMillis, store::ToolLimit};

/// Each tool with a queue, once, and when its first task is ready.
pub async fn queues_are_known_by_their_tools(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    assert_eq!(fixture.store.queued_tools().await, Ok(vec![]));
    for (name, tool, at) in [
        ("a", "pack", 30),
        ("b", "hash", 20),
        ("c", "pack", 10),
        ("d", "pack", 40),
    ] {
        let mut new = new_task(name, fixture.node, at);
        new.header.tool = tool.into();
        fixture.create(new).await;
    }
    let tools = fixture.store.queued_tools().await.expect("the tools");
    assert_eq!(tools.iter().map(|tool| &**tool).collect::<Vec<_>>(), ["hash", "pack"]);
    let next_ready = async |tool: &str| {
        let place = fixture.store.next_ready(tool, UnixMillis(100)).await.expect("a read");
        place.map(|place| place.ready_at.0)
    };
    assert_eq!(next_ready("pack").await, Some(10));
    assert_eq!(next_ready("hash").await, Some(20));
    assert_eq!(next_ready("has").await, None);
    fixture.claim("hash", 1, 100).await;
    fixture.claim("pack", 1, 100).await;
    assert_eq!(next_ready("hash").await, None);
    assert_eq!(next_ready("pack").await, Some(30));
    assert_eq!(fixture.store.queued_tools().await.expect("the tools").len(), 1);
}

/// Counts the tasks of its principal before a task, up to a limit, in the order in which tasks are claimed.
pub async fn the_position_in_a_queue_is_known(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let mut tasks = Vec::new();
    for (name, principal, tool, at) in [
        ("a", "alice", "pack", 30),
        ("b", "alice", "hash", 5),
        ("c", "alice", "pack", 10),
        ("d", "alice", "pack", 30),
        ("e", "bob", "pack", 11),
        ("f", "bob", "pack", 12),
        ("g", "bob", "pack", 40),
    ] {
        let mut new = new_task(name, fixture.node, at);
        new.header.owner.principal = Principal::named(principal);
        new.header.tool = tool.into();
        tasks.push(fixture.create(new).await);
    }
    for (task, most, before) in [
        (0, 9, 1),
        (1, 9, 0),
        (2, 9, 0),
        (3, 9, 2),
        (3, 1, 1),
        (4, 9, 0),
        (5, 9, 1),
        (6, 9, 2),
    ] {
        assert_eq!(
            fixture.store.queued_before(&tasks[task], most).await,
            Ok(before),
            "{}",
            tasks[task].id
        );
    }
    fixture.claim("pack", 1, 100).await;
    assert_eq!(fixture.store.queued_before(&tasks[3], 9).await, Ok(1));
    assert_eq!(fixture.store.queued_before(&tasks[6], 9).await, Ok(2));
}

/// The higher priority first, and of one priority the earlier. What is not ready yet keeps nothing of a lower priority waiting.
pub async fn a_queue_is_in_order_of_priority(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let mut tasks = Vec::new();
    for (name, priority, at) in [
        ("a", 0, 1),
        ("b", 5, 50),
        ("c", 5, 3),
        ("d", 9, 80),
        ("e", 0, 2),
        ("f", 5, 3),
        ("g", 7, 60),
    ] {
        let mut new = new_task(name, fixture.node, at);
        new.priority = Priority::new(priority).expect("a priority");
        tasks.push(fixture.create(new).await);
    }
    let fixture = fixture.restart().await;
    let next = async |at| {
        let place = fixture.store.next_ready("tool", UnixMillis(at)).await.expect("a read");
        place.map(|place| (place.priority.get(), place.ready_at.0))
    };
    // Before anything is ready, what is ready first; then what is claimed first.
    for (at, place) in [(0, (0, 1)), (2, (0, 1)), (10, (5, 3)), (60, (7, 60)), (90, (9, 80))] {
        assert_eq!(next(at).await, Some(place), "at {at}");
    }
    for (task, before) in [(0, 5), (1, 4), (2, 2), (3, 0), (4, 6), (5, 3), (6, 1)] {
        let counted = fixture.store.queued_before(&tasks[task], 9).await;
        assert_eq!(counted, Ok(before), "{}", tasks[task].id);
    }
    assert_eq!(fixture.store.queued_before(&tasks[4], 3).await, Ok(3));

    let claim = async |limit, at| -> Vec<String> {
        let claimed = fixture.claim("tool", limit, at).await;
        claimed.iter().map(|claimed| claimed.task.id.to_string()).collect()
    };
    assert_eq!(claim(1, 0).await, [] as [&str; 0]);
    assert_eq!(claim(2, 10).await, ["c", "f"]);
    assert_eq!(claim(1, 10).await, ["a"]);
    // An operator's wish comes before all of them.
    let (first, raised) = (
        id("e"),
        vec![Event::Raised {
            ready_at: UnixMillis(0),
        }],
    );
    let raised = fixture.apply(&first, None, raised, 11);
    assert_eq!(raised.await.expect("it is queued").priority, Priority::HIGHEST);
    assert_eq!(next(60).await, Some((9, 0)));
    assert_eq!(claim(9, 60).await, ["e", "g", "b"]);
    assert_eq!(next(60).await, Some((9, 80)));
    assert_eq!(claim(9, 90).await, ["d"]);
}

/// The limit that was put last, over a restart.
pub async fn limits_are_kept_by_tool(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    assert_eq!(fixture.store.limits().await, Ok(vec![]));
    for (tool, most) in [
        ("pack", Some(1)),
        ("hash", Some(2)),
        ("pack", Some(3)),
        ("hash", None),
        ("look", None),
    ] {
        fixture.store.put_limit(tool, most, None).await.expect("it is written");
    }
    let fixture = fixture.restart().await;
    assert_eq!(
        fixture.store.limits().await,
        Ok(vec![ToolLimit {
            tool: "pack".into(),
            concurrency: 3
        }])
    );
}

/// A pause lasts over a restart, until it is ended. The store itself gives paused tools' tasks to whoever claims them.
pub async fn pauses_are_kept_by_tool(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    assert_eq!(fixture.store.paused().await, Ok(vec![]));
    for (tool, paused) in [
        ("pack", true),
        ("hash", true),
        ("look", true),
        ("pack", true),
        ("look", false),
        ("never", false),
    ] {
        fixture.store.set_paused(tool, paused).await.expect("it is written");
    }
    let fixture = fixture.restart().await;
    assert_eq!(fixture.store.paused().await, Ok(vec!["hash".into(), "pack".into()]));
}

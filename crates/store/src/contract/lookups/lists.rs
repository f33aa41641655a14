//! Lists.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{Principal, Scope, SessionKey, TaskId, store::TaskLookup};

/// Newest first; each page begins where the one before it ended, and the last page is marked as the last.
pub async fn lists_go_from_new_to_old_in_pages(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    for n in [3, 0, 4, 1, 2] {
        fixture.create(new_task(&format!("t{n}"), fixture.node, n)).await;
    }
    let (mut before, mut seen): (Option<TaskId>, Vec<String>) = (None, Vec::new());
    loop {
        let page = fixture
            .store
            .list(&scope("alice"), before.as_ref(), 2)
            .await
            .expect("a page");
        seen.extend(page.tasks.iter().map(|task| task.id.to_string()));
        before = page.tasks.last().map(|task| task.id.clone());
        assert_eq!(page.more, seen.len() < 5);
        if !page.more {
            break;
        }
    }
    assert_eq!(seen, ["t4", "t3", "t2", "t1", "t0"]);
    let whole = fixture.store.list(&scope("alice"), None, 5).await.expect("a page");
    assert!(!whole.more, "exactly as many as asked for");
}

/// A session's live tasks are found without those that are over, unannounced, or another's.
pub async fn a_sessions_live_tasks_are_found_oldest_first(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    for n in [2, 0, 1] {
        let new = of_session(new_task(&format!("t{n}"), fixture.node, n), "one");
        fixture.create(new).await;
    }
    let mut over = of_session(new_task("over", fixture.node, 3), "one");
    over.outcome = Some(longhaul_core::Outcome::Cancelled);
    fixture.create(over).await;
    let mut unannounced = of_session(new_task("unannounced", fixture.node, 4), "one");
    unannounced.announced = false;
    fixture.create(unannounced).await;
    fixture
        .create(of_session(new_task("other", fixture.node, 5), "two"))
        .await;
    let live = async |owner: &str, after: Option<&str>, limit| {
        let (owner, session) = (Principal::named(owner), SessionKey::named("one"));
        let after = after.map(id);
        let live = TaskLookup::LiveInSession { owner, session, after };
        let tasks = fixture.store.find(live, limit).await;
        let tasks = tasks.expect("a list").into_iter().map(|task| task.id.to_string());
        tasks.collect::<Vec<_>>()
    };
    assert_eq!(live("alice", None, 10).await, ["t0", "t1", "t2"]);
    assert_eq!(live("alice", None, 2).await, ["t0", "t1"]);
    assert_eq!(live("alice", Some("t1"), 10).await, ["t2"]);
    assert!(
        live("bob", None, 10).await.is_empty(),
        "a foreign session (invariant 5)"
    );
}

/// Without authentication a session lists its own tasks only; reading by id is not narrowed.
pub async fn a_session_filters_lists_and_nothing_else(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    fixture.create(of_session(new_task("a", fixture.node, 1), "one")).await;
    fixture.create(of_session(new_task("b", fixture.node, 2), "two")).await;
    fixture.create(new_task("c", fixture.node, 3)).await;
    let narrowed = |session: &str| Scope {
        principal: Principal::named("alice"),
        session: Some(SessionKey::named(session)),
    };
    for (session, expected) in [("one", vec!["a"]), ("two", vec!["b"]), ("three", vec![])] {
        let page = fixture.store.list(&narrowed(session), None, 10).await.expect("a list");
        let ids: Vec<String> = page.tasks.iter().map(|task| task.id.to_string()).collect();
        assert_eq!(ids, expected, "session {session}");
        assert!(
            fixture
                .store
                .get(&narrowed(session), &id("b"))
                .await
                .expect("a read")
                .is_some()
        );
    }
}

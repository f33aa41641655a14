//! Lists.

use super::{Fresh, fixture::*};
use longhaul_core::{Principal, Scope, SessionKey, TaskId};

/// Newest first; each page begins where the one before it ended, and the last says so.
pub async fn lists_go_from_new_to_old_in_pages(fresh: Fresh) {
    let bench = Bench::fresh(fresh).await;
    for n in [3, 0, 4, 1, 2] {
        bench.create(new_task(&format!("t{n}"), bench.node, n)).await;
    }
    let (mut before, mut seen): (Option<TaskId>, Vec<String>) = (None, Vec::new());
    loop {
        let page = bench
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
    let whole = bench.store.list(&scope("alice"), None, 5).await.expect("a page");
    assert!(!whole.more, "exactly as many as asked for");
}

/// Without authentication a session lists its own tasks only; reading by id is not narrowed (C-24).
pub async fn a_session_narrows_a_list_and_nothing_else(fresh: Fresh) {
    let bench = Bench::fresh(fresh).await;
    bench.create(of_session(new_task("a", bench.node, 1), "one")).await;
    bench.create(of_session(new_task("b", bench.node, 2), "two")).await;
    bench.create(new_task("c", bench.node, 3)).await;
    let narrowed = |session: &str| Scope {
        principal: Principal::named("alice"),
        session: Some(SessionKey::named(session)),
    };
    for (session, expected) in [("one", vec!["a"]), ("two", vec!["b"]), ("three", vec![])] {
        let page = bench.store.list(&narrowed(session), None, 10).await.expect("a list");
        let ids: Vec<String> = page.tasks.iter().map(|task| task.id.to_string()).collect();
        assert_eq!(ids, expected, "session {session}");
        assert!(
            bench
                .store
                .get(&narrowed(session), &id("b"))
                .await
                .expect("a read")
                .is_some()
        );
    }
}

//! Invariant 5: one principal cannot learn that another's task exists.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{Event, Principal, Scope, SessionKey};

/// A foreign task answers exactly like an unknown one, and is in no list.
pub async fn invariant_5_a_principal_cannot_learn_of_anothers_task(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let task = fixture.create(of_session(new_task("a", fixture.node, 1), "hers")).await;
    assert!(fixture.get("alice", &task.id).await.is_some());
    for stranger in ["bob", "alic", "alice ", "Alice", ""] {
        let foreign = fixture.store.get(&scope(stranger), &task.id).await;
        let unknown = fixture.store.get(&scope(stranger), &id("unknown")).await;
        assert_eq!(foreign, unknown, "{stranger:?}");
        assert_eq!(foreign, Ok(None));
        for session in [None, Some("hers")] {
            let scope = Scope {
                principal: Principal::named(stranger),
                session: session.map(SessionKey::named),
            };
            let page = fixture.store.list(&scope, None, 10).await.expect("a list");
            assert!(page.tasks.is_empty() && !page.more, "{stranger:?}");
            let page = fixture.store.list(&scope, Some(&id("zzz")), 10).await.expect("a list");
            assert!(page.tasks.is_empty() && !page.more, "{stranger:?}");
        }
    }
}

/// Its id is not announced, so clients cannot read it, but the runtime can. Clients can read it once it is promoted.
pub async fn a_task_never_announced_is_not_shown(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let mut new = new_task("a", fixture.node, 1);
    new.announced = false;
    let task = fixture.create(new).await;
    assert_eq!(fixture.get("alice", &task.id).await, None);
    assert_eq!(fixture.get_unscoped(&task.id).await.task, task);
    assert_eq!(
        fixture
            .store
            .list(&scope("alice"), None, 10)
            .await
            .expect("a list")
            .tasks,
        []
    );
    let task = fixture
        .apply(&task.id, None, vec![Event::Promoted], 2)
        .await
        .expect("it is announced");
    assert_eq!(
        fixture.get("alice", &task.id).await.map(|record| record.task),
        Some(task.clone())
    );
    assert_eq!(
        fixture
            .store
            .list(&scope("alice"), None, 10)
            .await
            .expect("a list")
            .tasks,
        [task]
    );
}

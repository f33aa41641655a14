//! Callers may have so much and no more.

use crate::support::{CallOf, World, settle};
use longhaul_core::{Quota, QuotaExceeded, QuotaScope, State, store::CreateError};

/// A call that is refused starts nothing and keeps no slot; when a task ends there is room for the next.
#[tokio::test]
async fn a_call_beyond_the_quota_is_refused() {
    let mut world = World::in_memory().with_slots(2);
    world.quota = Quota {
        live_per_principal: Some(1),
        ..Quota::default()
    };
    let (engine, mut runs) = world.scripted().await;
    let first = engine.create(engine.call("a")).await.unwrap();
    let scope = QuotaScope::Principal;
    let exceeded = CreateError::from(QuotaExceeded::TooManyLive { scope, limit: 1 });
    for _ in 0..3 {
        assert_eq!(engine.create(engine.call("a")).await, Err(exceeded.clone()));
        assert_eq!(engine.begin(engine.call("a")).await.map(|_| ()), Err(exceeded.clone()));
    }
    runs.next().await.finish("done");
    world.outcome(&engine, &first.id).await;
    settle().await;
    assert!(runs.started().is_none());
    let next = engine.create(engine.call("a")).await.unwrap();
    assert_eq!(next.state, State::Running, "the refused ones kept no slot");
}

//! When the server says that it takes no work.

use crate::world::World;
use serde_json::json;
use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

/// What `/readyz` reads says nothing of writes.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "another process gives no sign")]
async fn a_store_that_can_only_be_read_takes_no_work() {
    let world = World::new(true).await;
    world.refuses.store(true, Ordering::Relaxed);
    assert!(world.client.start("gated", json!({"text": "x"})).await.is_err());
    let answer = world.get("/readyz").await;
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.text().await.unwrap(), "the role has lost a right\n");
    let problems = world.json("/api/problems").await;
    assert!(problems.to_string().contains("the role has lost a right"), "{problems}");

    // Once a write was made, what has failed does not count any more.
    world.refuses.store(false, Ordering::Relaxed);
    world.running("x").await;
    let begun = Instant::now();
    while world.get("/readyz").await.status() != 200 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is not ready");
        tokio::task::yield_now().await;
    }
}

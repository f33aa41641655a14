//! When the server says that it takes no work.

use crate::world::World;
use serde_json::json;
use std::sync::atomic::Ordering;

/// What `/readyz` reads says nothing of writes.
#[tokio::test]
async fn a_store_that_can_only_be_read_takes_no_work() {
    let world = World::new(true).await;
    world.refuses.store(true, Ordering::Relaxed);
    assert!(world.client.start("gated", json!({"text": "x"})).await.is_err());
    let answer = world.get("/readyz").await;
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.text().await.unwrap(), "the role has lost a right\n");
    let problems = world.json("/api/problems").await;
    assert!(problems.to_string().contains("the role has lost a right"), "{problems}");
}

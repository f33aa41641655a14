//! Which queues there are.

use super::{Fresh, fixture::*};
use longhaul_core::UnixMillis;

/// Each tool with a queue, once, and the moment its first task is ready.
pub async fn queues_are_known_by_their_tools(fresh: Fresh) {
    let bench = Bench::fresh(fresh).await;
    assert_eq!(bench.store.queued_tools().await, Ok(vec![]));
    for (name, tool, at) in [
        ("a", "pack", 30),
        ("b", "hash", 20),
        ("c", "pack", 10),
        ("d", "pack", 40),
    ] {
        let mut new = new_task(name, bench.node, at);
        new.tool = tool.into();
        bench.create(new).await;
    }
    let tools = bench.store.queued_tools().await.expect("the tools");
    assert_eq!(tools.iter().map(|tool| &**tool).collect::<Vec<_>>(), ["hash", "pack"]);
    assert_eq!(bench.store.next_ready("pack").await, Ok(Some(UnixMillis(10))));
    assert_eq!(bench.store.next_ready("hash").await, Ok(Some(UnixMillis(20))));
    assert_eq!(bench.store.next_ready("has").await, Ok(None));
    bench.claim("hash", 1, 100).await;
    bench.claim("pack", 1, 100).await;
    assert_eq!(bench.store.next_ready("hash").await, Ok(None));
    assert_eq!(bench.store.next_ready("pack").await, Ok(Some(UnixMillis(30))));
    assert_eq!(bench.store.queued_tools().await.expect("the tools").len(), 1);
}

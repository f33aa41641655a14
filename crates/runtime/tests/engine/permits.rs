//! The limit of a tool holds for all nodes of a store together.

use crate::support::{CallOf, Run, Runs, World, settle};
use longhaul_core::HostId;
use longhaul_runtime::Engine;
use longhaul_store::MemoryStore;
use std::sync::Arc;

const LEASE: u64 = 15_000;

struct Host {
    world: World,
    engine: Engine,
    runs: Runs,
    running: Vec<Run>,
}

impl Host {
    async fn start(world: World, name: &str, limit: usize) -> Self {
        let mut world = world;
        world.host = HostId(name.into());
        let (engine, runs) = world.playing(|tool| tool.concurrency = Some(limit)).await;
        let running = Vec::new();
        Self {
            world,
            engine,
            runs,
            running,
        }
    }

    async fn create(&self, count: usize) {
        for _ in 0..count {
            self.engine.create(self.engine.call("a")).await.unwrap();
        }
    }

    /// How many run here now.
    fn count(&mut self) -> usize {
        while let Some(run) = self.runs.started() {
            self.running.push(run);
        }
        self.running.retain(|run| !run.is_dropped());
        self.running.len()
    }

    fn finish_one(&mut self) {
        self.running.remove(0).finish("done");
    }
}

async fn hosts(limit: usize) -> (Host, Host) {
    let mut world = World::in_memory();
    world.store = Arc::new(MemoryStore::of_many_nodes(world.clock.clone(), LEASE));
    let here = Host::start(world.clone(), "here", limit).await;
    (here, Host::start(world, "there", limit).await)
}

#[tokio::test]
async fn all_that_may_run_does_and_no_more() {
    let (mut here, mut there) = hosts(3).await;
    here.create(10).await;
    here.world.pass(60_000).await;
    let mut ended = 0;
    while ended < 10 {
        let running = here.count() + there.count();
        assert_eq!(running, (10 - ended).min(3), "after {ended}");
        if ended > 3 && running == 3 {
            assert!(here.count() > 0 && there.count() > 0, "both have their share");
        }
        let host = if here.count() > 0 { &mut here } else { &mut there };
        host.finish_one();
        ended += 1;
        there.world.pass(20_000).await;
    }
}

#[tokio::test]
async fn each_node_gets_its_turn() {
    let (mut here, mut there) = hosts(1).await;
    here.create(20).await;
    here.world.pass(30_000).await;
    let mut turns = [0, 0];
    for _ in 0..10 {
        assert_eq!(here.count() + there.count(), 1);
        let (turn, host) = if here.count() > 0 {
            (0, &mut here)
        } else {
            (1, &mut there)
        };
        turns[turn] += 1;
        host.world.pass(10_000).await;
        host.finish_one();
        settle().await;
        host.world.pass(10_000).await;
    }
    assert!(turns.iter().all(|turns| *turns >= 3), "{turns:?}");
}

#[tokio::test]
async fn the_permits_of_a_node_that_stops_are_free_at_once() {
    let (mut here, mut there) = hosts(1).await;
    here.create(1).await;
    settle().await;
    assert_eq!(here.count(), 1);
    there.create(1).await;
    here.world.pass(30_000).await;
    assert_eq!(there.count(), 0);
    here.finish_one();
    settle().await;
    here.engine.end().await;
    there.world.pass(10_000).await;
    assert_eq!(there.count(), 1);
}

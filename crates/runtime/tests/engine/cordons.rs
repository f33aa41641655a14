//! Nodes that begin nothing: cordoned ones, and those that drain.

use crate::support::{CallOf, Runs, World, beside, settle, text};
use longhaul_core::{HostId, State};
use longhaul_runtime::{Cordon, CordonError, Engine, QueueWait};
use longhaul_store::MemoryStore;
use std::{sync::Arc, time::Duration};

const LEASE: u64 = 15_000;

fn shared() -> World {
    let mut world = World::in_memory();
    world.store = Arc::new(MemoryStore::of_many_nodes(world.clock.clone(), LEASE));
    world
}

async fn start(world: &World, host: &'static str) -> (Engine, Runs) {
    let mut world = world.clone();
    world.host = HostId(host.into());
    world.scripted().await
}

/// A node that another one has cordoned passes on what is called there, tasks and plain calls, and goes on with what runs.
#[tokio::test]
async fn a_cordoned_node_begins_nothing() {
    let world = shared();
    let (here, mut runs_here) = start(&world, "here").await;
    let first = here.create(here.call("a")).await.unwrap();
    let running = runs_here.next().await;
    let (there, mut runs_there) = start(&world, "there").await;
    there.set_cordoned(here.node_id(), true).await.unwrap();
    settle().await;
    assert_eq!(here.cordon(here.node_id()), Some(Cordon::Cordoned));
    assert_eq!(there.cordon(here.node_id()), Some(Cordon::Cordoned));
    assert_eq!(there.cordon(there.node_id()), None);
    let task = here.create(here.call("a")).await.unwrap();
    assert_eq!(runs_there.next().await.attempt.task, task.id);
    let mut call = here.begin(here.call("a")).await.unwrap();
    runs_there.next().await.finish("plain");
    assert_eq!(call.ended(|_| ()).await.unwrap(), text("plain"));
    assert!(runs_here.started().is_none());
    running.finish("done");
    world.until(&here, &first.id, |task| task.is_done()).await;

    there.set_cordoned(there.node_id(), true).await.unwrap();
    let waits = there.create(there.call("a")).await.unwrap();
    settle().await;
    let record = world.task(&waits.id).await;
    assert_eq!(record.state, State::Queued);
    assert_eq!(there.queue_wait(&record).await.unwrap(), Some(QueueWait::NoWorker));
    there.set_cordoned(here.node_id(), false).await.unwrap();
    assert_eq!(runs_here.next().await.attempt.task, waits.id);
    assert!(matches!(
        there.set_cordoned(longhaul_core::NodeId(99), true).await,
        Err(CordonError::NotAlive)
    ));
}

/// A cordon ends with its node, and leaves nothing.
#[tokio::test]
async fn a_cordon_ends_with_its_node() {
    let world = World::in_memory();
    let (engine, _) = start(&world, "here").await;
    engine.set_cordoned(engine.node_id(), true).await.unwrap();
    let task = engine.create(engine.call("a")).await.unwrap();
    settle().await;
    engine.end().await;
    let (_engine, mut runs) = start(&world, "here").await;
    assert_eq!(runs.next().await.attempt.task, task.id);
    assert!(world.store.paused().await.unwrap().is_empty());
}

/// A drain waits for what runs, begins nothing meanwhile, and ends when its time is over.
#[tokio::test]
async fn a_drain_waits_for_what_runs() {
    let world = World::in_memory();
    let (engine, mut runs) = start(&world, "here").await;
    let task = engine.create(engine.call("a")).await.unwrap();
    let run = runs.next().await;
    let draining = engine.clone();
    let drain = beside(async move { draining.drain(Duration::from_secs(600)).await });
    settle().await;
    assert_eq!(engine.cordon(engine.node_id()), Some(Cordon::Drains));
    let later = engine.create(engine.call("a")).await.unwrap();
    settle().await;
    assert!(runs.started().is_none() && !drain.is_finished());
    run.finish("done");
    while !drain.is_finished() {
        world.clock.advance(20);
        settle().await;
    }
    assert!(world.task(&task.id).await.is_done());
    engine.end().await;

    let (engine, mut runs) = start(&world, "here").await;
    assert_eq!(runs.next().await.attempt.task, later.id);
    let draining = engine.clone();
    let drain = beside(async move { draining.drain(Duration::from_secs(2)).await });
    for _ in 0..99 {
        world.clock.advance(20);
        settle().await;
    }
    assert!(!drain.is_finished(), "its time is not over");
    while !drain.is_finished() {
        world.clock.advance(20);
        settle().await;
    }
}

//! Fault injection: nodes crash and start, lose their lease while they run, and clocks jump.

use crate::{
    deploys::Build,
    executor::Process,
    ports::{self, Skew},
    schedules,
    store::NodeStore,
    tool::{CheckingStepObserver, command::CommandProvider, tools},
    world::{Node, World},
};
use longhaul_core::Quota;
use longhaul_runtime::{Catalog, Engine, EngineOptions};
use longhaul_store::PlainCallStore;
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// How often the operator checks for blocked tasks, in milliseconds, and how often a task is unblocked before it is cancelled.
const OPERATOR_INTERVAL: u64 = 10_000;
const MAX_UNBLOCKS: u32 = 2;

/// Injects faults for a while, and then leaves healthy nodes running, with correct clocks. In some worlds all nodes are started again after the faults. In
/// others the surviving nodes go on, so that no restart repairs what a node has lost.
pub(crate) async fn inject(world: Arc<World>) {
    let without_crashes = world.one_in(4);
    let rounds = world.between(3..=14);
    for _ in 0..world.node_count {
        start(&world, 0);
    }
    for _ in 0..rounds {
        world.sleep(world.between(100..=15_000)).await;
        if !without_crashes {
            inject_one(&world);
        } else if let Some(node) = world.random_node().filter(|_| world.one_in(3)) {
            jump(&world, &node.skew);
        }
        if world.one_in(2) {
            schedules::operate_one(&world);
        }
    }
    world.note(Process::WORLD, |_| "faults are over".to_owned());
    // The last nodes of a world with deploys run the original build.
    let all_die = !without_crashes && (world.deploys.is_some() || world.one_in(2));
    for process in (1..=world.last_process()).map(Process) {
        if all_die || world.check(|checker| checker.has_lost_its_lease(process)) {
            world.crash(process);
        }
    }
    world.end_faults();
    for node in world.nodes() {
        node.skew.store(world.max_skew(), Ordering::SeqCst);
    }
    world.sleep(1_000).await;
    operate(&world).await;
}

/// Acts as the operator after the faults: starts nodes if none is left, unblocks each blocked task, and cancels those that changed code has written
/// to and the original code cannot replay.
async fn operate(world: &Arc<World>) {
    loop {
        // The last one may have been shutting down when the faults ended.
        if world.nodes().is_empty() {
            for _ in 0..world.node_count {
                start(world, world.max_skew());
            }
        }
        world.sleep(OPERATOR_INTERVAL).await;
        let Some(Node { engine, .. }) = world.nodes().into_iter().next() else {
            continue;
        };
        let Ok(blocked) = engine.blocked(None, 1_000).await else {
            continue;
        };
        for task in blocked {
            let tries = task.blocked.as_ref().map_or(0, |blocked| blocked.tries);
            if tries < MAX_UNBLOCKS || !world.check(|checker| checker.was_changed(&world.disk, &task.id)) {
                let _ = engine.unblock(&task.id).await;
            } else if let Ok(Some(waiting)) = engine.rejoin(&task.id).await {
                world.check(|checker| checker.cancel_requested(&task.id));
                waiting.handle().abandon();
            }
        }
    }
}

fn inject_one(world: &Arc<World>) {
    let nodes = world.nodes();
    match world.between(0..=9) {
        0..3 => {
            if let Some(node) = world.random_node() {
                world.crash(node.process);
            }
        }
        4 => {
            if let Some(node) = world.random_node() {
                jump(world, &node.skew);
            }
        }
        5 => {
            if let Some(node) = world.random_node() {
                let engine = node.engine.clone();
                let ending = Arc::clone(world);
                world.executor.spawn(
                    Process::WORLD,
                    Box::pin(async move {
                        ending.note(node.process, |_| "begins to shut down".to_owned());
                        engine.release(Duration::from_secs(5)).await;
                        engine.end().await;
                        ending.crash(node.process);
                    }),
                );
            }
        }
        3 | 6 => {
            if let Some(node) = world.random_node() {
                world.cut_off(node.process);
            }
        }
        _ if nodes.len() > world.node_count => {
            if let Some(node) = world.random_node() {
                world.crash(node.process);
            }
        }
        _ => {}
    }
    if world.nodes().is_empty() || (world.nodes().len() <= world.node_count && world.one_in(3)) {
        let skew = if world.one_in(3) { world.draw_jump() } else { 0 };
        world.record_skew(skew);
        start(world, skew);
    }
}

fn jump(world: &World, skew: &Skew) {
    let by = world.draw_jump();
    let skew = skew.fetch_add(by, Ordering::SeqCst) + by;
    world.record_skew(skew);
    world.note(Process::WORLD, |_| format!("a clock jumps by {by} ms"));
}

/// Starts a node whose clock is off by `skew`.
fn start(world: &Arc<World>, skew: i64) {
    let process = world.new_process();
    let skew: Skew = Arc::new(AtomicI64::new(skew));
    let world = Arc::clone(world);
    let starting = Arc::clone(&world);
    starting.executor.spawn(process, Box::pin(run(world, process, skew)));
}

async fn run(world: Arc<World>, process: Process, skew: Skew) {
    let faults_are_over = world.faults_are_over();
    let build = match &world.deploys {
        Some(deploys) if !faults_are_over => deploys.draw(),
        _ => Build::Original,
    };
    let host = world.free_host();
    let Ok(catalog) = Catalog::new(tools(&world, process, &host, build)) else {
        return;
    };
    let options = EngineOptions {
        store: Arc::new(PlainCallStore::in_front_of(Arc::new(NodeStore::new(&world, process)))),
        ports: ports::ports(&world.executor, process, &skew, world.fork_rng()),
        node: host.clone().into(),
        lost_after: longhaul_runtime::HOST_LOST_AFTER,
        catalog,
        providers: vec![Arc::new(CommandProvider {
            world: Arc::clone(&world),
            process,
            host: host.clone(),
        })],
        max_running: (faults_are_over || world.one_in(2)).then(|| usize::try_from(world.between(1..=4)).unwrap_or(1)),
        quota: Quota::default(),
        suspend_after: longhaul_runtime::SUSPEND_AFTER,
        build: longhaul_runtime::BuildId::named(build.name()),
        step_observer: Some(Arc::new(CheckingStepObserver {
            world: Arc::clone(&world),
            process,
        })),
        may_begin: None,
        cipher: None,
    };
    match Engine::start(options).await {
        Ok((engine, recovered)) => {
            world.note(process, |_| format!("has started, {}: {recovered:?}", build.name()));
            let (die, died) = watch::channel(false);
            world.add_node(Node {
                process,
                engine: engine.clone(),
                host,
                skew,
                died,
                die: Arc::new(die),
            });
            schedules::offer(&world, &engine).await;
        }
        Err(error) => {
            world.note(process, |_| format!("cannot start: {error}"));
            let dying = Arc::clone(&world);
            world
                .executor
                .spawn(Process::WORLD, Box::pin(async move { dying.crash(process) }));
        }
    }
}

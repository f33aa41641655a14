//! Nodes of one store that offer different tools: a task waits for a node that has its tool.

use crate::support::{CallOf, Effects, Script, World, program, text, tool};
use longhaul_core::{Failure, HostId, Outcome, State, store::NodeRole};
use longhaul_runtime::{Engine, QueueWait, Tool, ToolSettings};
use longhaul_store::MemoryStore;
use std::sync::Arc;

const LEASE: u64 = 15_000;

fn shared() -> World {
    let mut world = World::in_memory();
    world.store = Arc::new(MemoryStore::of_many_nodes(world.clock.clone(), LEASE));
    world
}

async fn start(world: &World, host: &'static str, role: NodeRole, tools: Vec<ToolSettings>) -> Engine {
    let mut world = world.clone();
    world.host = HostId(host.into());
    world.role = role;
    world.start(tools).await
}

#[tokio::test]
async fn a_queued_task_waits_for_a_node_that_has_its_tool() {
    let world = shared();
    let (front_script, _runs) = Script::new();
    let front = start(&world, "front", NodeRole::Front, vec![tool("a", front_script)]).await;
    let (other_script, _other_runs) = Script::new();
    let without = start(&world, "without", NodeRole::Worker, vec![tool("b", other_script)]).await;
    let task = front.create(front.call("a")).await.unwrap();
    world.pass(60_000).await;
    assert_eq!(world.state(&task.id).await, State::Queued);
    let task = world.task(&task.id).await;
    assert_eq!(without.queue_wait(&task).await.unwrap(), Some(QueueWait::OtherServer));

    // Without time passing: a tool that comes is not waited for until the next re-read.
    let (script, mut runs) = Script::new();
    without.put_tool(Tool::new(tool("a", script)).unwrap()).await.unwrap();
    let run = runs.next().await;
    assert_eq!((&run.attempt.task, run.attempt.epoch), (&task.id, 1));
    run.finish("done");
    assert_eq!(world.outcome(&without, &task.id).await, text("done"));
}

/// The node that takes a durable task over cannot run it; one that can resumes it behind its journal.
#[tokio::test]
async fn a_durable_task_that_is_taken_over_waits_for_a_node_that_has_its_tool() {
    let world = shared();
    let (effects, started) = (Effects::default(), Effects::default());
    let code = |effects: &Effects, started: &Effects| {
        let (effects, started) = (effects.clone(), started.clone());
        program("a", move |cx| {
            let (effects, started) = (effects.clone(), started.clone());
            async move {
                effects.step(&cx, "one").await?;
                if started.happen() == 1 {
                    std::future::pending::<()>().await;
                }
                Ok("done".to_owned())
            }
        })
    };
    let with = start(&world, "with", NodeRole::Both, vec![code(&effects, &started)]).await;
    let without = start(&world, "without", NodeRole::Both, Vec::new()).await;
    let task = with.create(with.call("a")).await.unwrap();
    world.until(&with, &task.id, |task| task.journaled == 1).await;
    with.stop();
    world.pass(120_000).await;
    let waiting = world.task(&task.id).await;
    let expected = (State::Queued, true);
    assert_eq!((waiting.state, waiting.journaled > 0), expected, "{waiting:?}");
    let wanted = Some(QueueWait::OtherServer);
    assert_eq!(without.queue_wait(&waiting).await.unwrap(), wanted);

    let next = start(&world, "next", NodeRole::Both, vec![code(&effects, &started)]).await;
    assert_eq!(world.outcome(&next, &task.id).await, text("done"));
    assert_eq!((effects.count(), started.count()), (1, 2), "no step ran again");
}

/// What is known of the tool's retries is stored with the task.
#[tokio::test]
async fn an_attempt_that_was_lost_is_retried_as_its_tool_says() {
    for retried in [true, false] {
        let world = shared();
        let settings = |script| {
            let plain = tool("a", script);
            match retried {
                true => ToolSettings {
                    retry: program("a", |_| async { Ok(String::new()) }).retry,
                    ..plain
                },
                false => plain,
            }
        };
        let (script, mut runs) = Script::new();
        let with = start(&world, "with", NodeRole::Both, vec![settings(script)]).await;
        let without = start(&world, "without", NodeRole::Both, Vec::new()).await;
        let task = with.create(with.call("a")).await.unwrap();
        let _lost = runs.next().await;
        with.stop();
        world.pass(120_000).await;
        if retried {
            assert_eq!(world.state(&task.id).await, State::Queued);
            let (script, mut runs) = Script::new();
            let next = start(&world, "next", NodeRole::Both, vec![settings(script)]).await;
            let run = runs.next().await;
            assert_eq!((run.resumed, run.attempt.epoch), (false, 2));
            run.finish("done");
            assert_eq!(world.outcome(&next, &task.id).await, text("done"));
        } else {
            let interrupted = Outcome::from(Failure::Interrupted);
            assert_eq!(world.outcome(&without, &task.id).await, interrupted);
        }
    }
}

//! How an attempt ends, and what is left of it.

use crate::support::{CallOf, World, settle, text};
use longhaul_core::{Clock, Outcome, State, Verdict, approximate_duration};
use longhaul_runtime::ExecutionEnd;

#[tokio::test]
async fn a_finished_attempt_gives_its_answer_and_its_slot_back() {
    let world = World::in_memory().with_slots(1);
    let (engine, mut runs) = world.scripted().await;
    let mut kept = Vec::new();
    for words in ["one", "two"] {
        let task = engine.create(engine.call("a")).await.unwrap();
        // Create and claim are one write when a slot is free.
        assert_eq!(task.state, State::Running);
        let run = runs.next().await;
        assert_eq!((run.attempt.epoch, run.resumed), (1, false));
        assert_eq!(engine.running(), 1);
        // Whoever keeps the context of an attempt that is over keeps no slot.
        kept.push(run.cx.clone());
        run.finish(words);
        assert_eq!(world.outcome(&engine, &task.id).await, text(words));
        assert_eq!(engine.running(), 0);
    }
}

#[tokio::test]
async fn a_panic_is_a_failed_attempt_and_no_dead_slot() {
    let world = World::in_memory().with_slots(1);
    let (engine, mut runs) = world.scripted().await;
    let first = engine.create(engine.call("a")).await.unwrap();
    let second = engine.create(engine.call("a")).await.unwrap();
    runs.next().await.panic();
    let outcome = world.outcome(&engine, &first.id).await;
    let Outcome::RpcError(failure) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(failure.code, -32603);
    assert_eq!(&*failure.message, "the tool panicked: as the script says");
    runs.next().await.finish("fine");
    world.outcome(&engine, &second.id).await;
    settle().await;
    assert_eq!(engine.running(), 0);
}

/// It waits in its queue, longer each time, and holds no slot meanwhile.
#[tokio::test]
async fn an_attempt_that_never_started_costs_nothing_and_is_no_hot_loop() {
    let world = World::in_memory().with_slots(1);
    let (engine, mut runs) = world.scripted().await;
    let task = engine.create(engine.call("a")).await.unwrap();
    let mut waits = Vec::new();
    for epoch in 1..=8 {
        let run = runs.next().await;
        assert_eq!(run.attempt.epoch, epoch, "an attempt's number is never used twice");
        assert_eq!(world.task(&task.id).await.attempts_used, 1);
        run.end(ExecutionEnd::NeverStarted("no processes".to_owned()));
        let queued = world.reaches(&engine, &task.id, State::Queued).await;
        let wait = queued.ready_at.since(world.clock.now());
        assert_eq!(
            queued.status.as_deref(),
            Some(&*format!(
                "not started yet: no processes; next try within {}",
                approximate_duration(wait)
            ))
        );
        assert_eq!(engine.running(), 0, "no slot is held");
        settle().await;
        assert!(runs.started().is_none(), "not before the wait is over");
        waits.push(wait);
        world.clock.advance(wait.try_into().unwrap());
    }
    assert!(
        waits[0] <= 1_500 && waits[7] >= 30_000 && waits[7] <= 90_000,
        "{waits:?}"
    );
    runs.next().await.finish("at last");
    assert_eq!(world.outcome(&engine, &task.id).await.verdict(), Verdict::Succeeded);
}

#[tokio::test]
async fn a_cancel_ends_the_pause_of_what_never_started() {
    let world = World::in_memory();
    let (engine, mut runs) = world.scripted().await;
    let task = engine.create(engine.call("a")).await.unwrap();
    runs.next().await.end(ExecutionEnd::NeverStarted("no room".to_owned()));
    world.reaches(&engine, &task.id, State::Queued).await;
    let mode = longhaul_core::CancelMode::Cooperative;
    engine.cancel(&crate::support::scope(), &task.id, mode).await.unwrap();
    assert_eq!(world.outcome(&engine, &task.id).await, Outcome::Cancelled);
}

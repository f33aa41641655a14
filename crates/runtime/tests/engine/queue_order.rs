//! Which task of a queue begins next: raised ones, priorities, and rates of starts.

use crate::support::{CallOf, Script, World, retry, settle, tool};
use longhaul_core::{Priority, RetryOn, State};
use longhaul_runtime::{Call, ExecutionEnd, OperatorError, ToolSettings};

/// It begins before those that were ready earlier, also before a plain call, and its queue timeout counts anew. The last one raised is the first.
#[tokio::test]
async fn a_raised_task_is_the_first_of_its_queue() {
    let world = World::in_memory().with_slots(1);
    let (engine, mut runs) = world.playing(|tool| tool.queue_timeout = Some(10_000)).await;
    let running = engine.create(engine.call("a")).await.unwrap();
    let first = engine.create(engine.call("a")).await.unwrap();
    let plain = engine.begin(engine.call("a")).await.unwrap();
    world.clock.advance(5_000);
    let (second, third) = (
        engine.create(engine.call("a")).await.unwrap(),
        engine.create(engine.call("a")).await.unwrap(),
    );
    world.clock.advance(4_000);
    for raised in [&first, &second, &third] {
        engine.raise_any(&raised.id).await.unwrap();
    }
    engine.raise_any(plain.id()).await.unwrap();
    // The time of all of them is over but for the raise.
    world.clock.advance(9_000);
    settle().await;
    let not_queued = Err(OperatorError::NotNow("the task is not queued"));
    assert_eq!(engine.raise_any(&running.id).await, not_queued);
    let mut run = runs.next().await;
    for expected in [plain.id(), &third.id, &second.id, &first.id] {
        run.finish("done");
        run = runs.next().await;
        assert_eq!(run.attempt.task, *expected);
    }
    run.finish("done");
    world.outcome(&engine, &first.id).await;
    assert_eq!(engine.raise_any(&first.id).await, not_queued);
    let unknown = engine.raise_any(&"t00000000".parse().unwrap()).await;
    assert_eq!(unknown, Err(OperatorError::NotFound));
}

/// A caller may ask for less than the tool's priority, and gets no more. Calls in memory and tasks stand in one queue, and a raised one comes before all.
#[tokio::test]
async fn a_higher_priority_begins_first() {
    let world = World::in_memory().with_slots(1);
    let five = Priority::new(5).unwrap();
    let (engine, mut runs) = world.playing(|tool| tool.priority = five).await;
    let of = |priority: Option<u8>| Call {
        priority: priority.and_then(Priority::new),
        ..engine.call("a")
    };
    engine.create(of(None)).await.unwrap();
    let mut run = runs.next().await;
    let low = engine.create(of(Some(0))).await.unwrap();
    world.clock.advance(1);
    let low_call = engine.begin(of(Some(0))).await.unwrap();
    world.clock.advance(1);
    let middle_call = engine.begin(of(Some(3))).await.unwrap();
    world.clock.advance(1);
    let usual = engine.create(of(None)).await.unwrap();
    world.clock.advance(1);
    let bounded = engine.create(of(Some(9))).await.unwrap();
    world.clock.advance(1);
    let raised = engine.create(of(Some(0))).await.unwrap();
    world.clock.advance(1);
    let middle = engine.create(of(Some(3))).await.unwrap();
    world.clock.advance(1);
    assert_eq!((usual.priority, bounded.priority), (five, five));
    engine.raise_any(&raised.id).await.unwrap();
    let order = [
        &raised.id,
        &usual.id,
        &bounded.id,
        middle_call.id(),
        &middle.id,
        &low.id,
        low_call.id(),
    ];
    for expected in order {
        run.finish("done");
        run = runs.next().await;
        assert_eq!(run.attempt.task, *expected);
    }
    run.finish("done");
}

/// The starts of its attempts are spaced, retries and plain calls included. A call that comes meanwhile has nothing claimed.
#[tokio::test]
async fn attempts_of_a_tool_with_a_rate_begin_one_after_the_other() {
    let world = World::in_memory();
    let change = |tool: &mut ToolSettings| {
        tool.start_rate = "10/m".parse().ok();
        tool.retry = retry(2, 1, [RetryOn::Crash]);
    };
    let (engine, mut runs) = world.playing(change).await;
    let first = engine.create(engine.call("a")).await.unwrap();
    let run = runs.next().await;
    assert_eq!(run.attempt.task, first.id);
    world.clock.advance(1);
    let second = engine.create(engine.call("a")).await.unwrap();
    world.clock.advance(1);
    let plain = engine.begin(engine.call("a")).await.unwrap();
    run.end(ExecutionEnd::Crashed);
    world.reaches(&engine, &first.id, State::Queued).await;
    let mut passed = 2;
    for (nth, expected) in (1..).zip([&second.id, plain.id(), &first.id]) {
        settle().await;
        world.clock.advance(nth * 6_000 - 1 - passed);
        passed = nth * 6_000 - 1;
        settle().await;
        assert!(runs.started().is_none(), "{nth} comes too early");
        world.clock.advance(1);
        passed += 1;
        let run = runs.next().await;
        assert_eq!(run.attempt.task, *expected);
        run.finish("done");
    }
}

#[tokio::test]
async fn a_rate_that_is_gone_holds_nothing_back() {
    let world = World::in_memory();
    let (engine, mut runs) = world.playing(|tool| tool.start_rate = "1/h".parse().ok()).await;
    engine.create(engine.call("a")).await.unwrap();
    runs.next().await.finish("done");
    let second = engine.create(engine.call("a")).await.unwrap();
    settle().await;
    assert!(runs.started().is_none());
    let (script, mut runs) = Script::bound(false);
    let without = longhaul_runtime::Tool::new(tool("a", script)).unwrap();
    engine.put_tool(without).await.unwrap();
    settle().await;
    world.clock.advance(5_000);
    assert_eq!(runs.next().await.attempt.task, second.id);
}

/// Whoever raises it does not wait for its backoff.
#[tokio::test]
async fn a_raised_task_that_waits_for_its_retry_begins() {
    let world = World::in_memory();
    let (engine, mut runs) = world
        .playing(|tool| tool.retry = retry(2, 30_000, [RetryOn::Crash]))
        .await;
    let task = engine.create(engine.call("a")).await.unwrap();
    runs.next().await.end(ExecutionEnd::Crashed);
    world.reaches(&engine, &task.id, State::Queued).await;
    engine.raise_any(&task.id).await.unwrap();
    runs.next().await.finish("done");
    world.outcome(&engine, &task.id).await;
}

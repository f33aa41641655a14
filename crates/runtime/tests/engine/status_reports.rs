//! Status and progress: the latest only, at most twice a second.

use crate::support::{FaultyStore, Run, Script, World, scope, settle, tool};
use longhaul_core::{AttemptState, CancelMode, NodeId, Progress, StopReason, Task};
use longhaul_runtime::{Engine, ExecutionEnd};
use std::sync::Arc;

async fn running() -> (World, Arc<FaultyStore>, Engine, Task, Run) {
    let (world, store) = World::faulty();
    let (engine, _runs, task, run) = world.running().await;
    (world, store, engine, task, run)
}

#[tokio::test]
async fn reports_are_written_at_most_twice_a_second_and_the_latest_wins() {
    let (world, store, _engine, task, run) = running().await;
    for second in 0..5 {
        for line in 0..50 {
            run.cx.status(format!("{second}.{line}"));
            run.cx.progress(f64::from(line), Some(50.0));
            settle().await;
        }
        assert_eq!(store.applied("reported").len(), 1 + 2 * second as usize);
        for _ in 0..2 {
            world.clock.sleeper(500).await;
            world.clock.advance(500);
            settle().await;
            run.cx.status("between");
            settle().await;
        }
    }
    let seen = world.task(&task.id).await;
    assert_eq!(seen.status.as_deref(), Some("between"));
    assert_eq!(seen.progress.unwrap().total, Some(50.0));
}

#[tokio::test]
async fn the_last_report_is_written_with_the_end() {
    let (world, store, engine, task, run) = running().await;
    run.cx.started();
    run.cx.status("1/2");
    settle().await;
    run.cx.status("2/2");
    run.cx.progress(2.0, Some(2.0));
    run.finish("done");
    world.outcome(&engine, &task.id).await;
    let ended = world.task(&task.id).await;
    assert_eq!(ended.status.as_deref(), Some("2/2"));
    assert_eq!(
        ended.progress,
        Some(Progress {
            current: 2.0,
            total: Some(2.0)
        })
    );
    assert_eq!(
        (store.applied("reported").len(), store.applied("attempt_ended").len()),
        (2, 1)
    );
}

/// The news of work that was cancelled at once may not be told any more; its end must be.
#[tokio::test]
async fn a_report_never_delays_the_end() {
    let (world, store, engine, task, run) = running().await;
    engine
        .cancel(&crate::support::scope(), &task.id, longhaul_core::CancelMode::AtOnce)
        .await
        .unwrap();
    run.cx.status("bye");
    run.finish("too late");
    world.rests(&engine, &task.id).await;
    assert!(store.applied("reported").is_empty());
}

#[tokio::test]
async fn the_start_is_reported_once_and_other_reports_are_kept() {
    let (world, store, engine, task, run) = running().await;
    run.cx.started();
    world
        .until(&engine, &task.id, |task| {
            task.attempt.as_ref().unwrap().state == AttemptState::Live
        })
        .await;
    world.clock.sleeper(500).await;
    run.cx.started();
    run.cx.status("and more");
    world.clock.advance(500);
    world
        .until(&engine, &task.id, |task| task.status.as_deref() == Some("and more"))
        .await;
    assert_eq!(store.applied("started").len(), 1);
    drop(run);
}

#[tokio::test]
async fn the_start_is_recorded_once_and_insisted_on() {
    let (world, store, _engine, task, run) = running().await;
    store.be_full_for("started", 1);
    let recorded = async { run.cx.record_start().await };
    let room = async {
        world.clock.sleeper(50).await;
        let expected = AttemptState::Starting;
        assert_eq!(world.task(&task.id).await.attempt.unwrap().state, expected);
        world.clock.advance(50);
    };
    let (recorded, ()) = tokio::join!(recorded, room);
    assert_eq!(recorded, Ok(()));
    assert_eq!(world.task(&task.id).await.attempt.unwrap().state, AttemptState::Live);
    assert_eq!(run.cx.record_start().await, Ok(()));
    assert_eq!(store.applied("started").len(), 1);
}

#[tokio::test]
async fn work_that_is_to_stop_gets_no_start() {
    for mode in [CancelMode::AtOnce, CancelMode::Cooperative] {
        let (_world, _store, engine, task, run) = running().await;
        engine.cancel(&scope(), &task.id, mode).await.unwrap();
        let expected = Err(ExecutionEnd::Stopped(StopReason::Cancel));
        assert_eq!(run.cx.record_start().await, expected);
    }
}

#[tokio::test]
async fn work_that_another_node_has_taken_over_gets_no_start() {
    let (world, _store, engine, task, run) = running().await;
    engine.stop();
    let (script, _runs) = Script::new();
    let _next = world.start([tool("a", script)]).await;
    world
        .until(&engine, &task.id, |task| {
            task.attempt.as_ref().unwrap().node == NodeId(2)
        })
        .await;
    assert!(matches!(
        run.cx.record_start().await,
        Err(ExecutionEnd::NeverStarted(_))
    ));
}

#[tokio::test]
async fn reports_that_found_no_room_are_written_later() {
    let (world, store, engine, task, run) = running().await;
    store.be_full_for("started", 1);
    run.cx.started();
    run.cx.status("first");
    world.clock.sleeper(500).await;
    run.cx.status("second");
    world.clock.advance(500);
    let told = world.until(&engine, &task.id, |task| task.status.is_some()).await;
    assert_eq!(told.status.as_deref(), Some("second"));
    assert_eq!(told.attempt.unwrap().state, AttemptState::Live);
}

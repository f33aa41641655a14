//! Every event of the store is lost: each wait ends all the same, once the engine has read the store again.

use crate::durable::{KEPT, ask};
use crate::support::{CallOf, ManualClock, Script, World, beside, guarded, program, settle, text, tool};
use longhaul_core::{
    AnsweredBy, AttemptEnd, CancelMode, Clock, Event, HostId, InputKey, Json, NodeId, Origin, Outcome, Quota, State,
    StopReason, Store, StoreLayer, TaskHeader, TaskId, Verdict,
    store::{
        Change, Claim, Hint, LeaseStore, NewTask, QueuePlace, QueueStore, StoreEvent, StoreListener, TaskStore,
        TimerStore,
    },
};
use longhaul_runtime::{Engine, ExecutionEnd, TaskContext};
use longhaul_store::MemoryStore;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// A store whose events reach nobody, unless a test sends one.
struct WithoutHints {
    inner: MemoryStore,
    listeners: Mutex<Vec<StoreListener>>,
}

impl WithoutHints {
    fn send(&self, event: StoreEvent) {
        let listeners = self.listeners.lock().unwrap().clone();
        listeners
            .iter()
            .for_each(|listener| listener(std::slice::from_ref(&event)));
    }

    /// A change that another node makes.
    async fn change(&self, clock: &ManualClock, task: &TaskId, event: Event) {
        let change = Change::of(task, event, clock.now());
        self.inner.apply(change).await.unwrap();
    }
}

impl StoreLayer for WithoutHints {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn listen(&self, listener: StoreListener) {
        self.listeners.lock().unwrap().push(listener);
    }
}

fn without_hints() -> (World, Arc<WithoutHints>) {
    let store = Arc::new(WithoutHints {
        inner: MemoryStore::new(),
        listeners: Mutex::default(),
    });
    (World::over(store.clone()), store)
}

/// Time passes until the engine has read the store again.
async fn next_reread(world: &World) {
    settle().await;
    world.clock.advance(KEPT - 1);
    settle().await;
}

/// Time passes until what waits is suspended.
async fn suspend(world: &World) {
    settle().await;
    world.clock.advance(KEPT);
    settle().await;
}

fn answered(nth: u32, words: &str) -> Event {
    Event::InputAnswered {
        key: InputKey::nth(nth),
        answer: Json::from(serde_json::json!({"says": words})),
        by: AnsweredBy::Client,
    }
}

#[tokio::test]
async fn an_answer_reaches_code_in_memory() {
    let (world, store) = without_hints();
    let asks = |cx| async move { ask(&cx, "well?").await.map_err(Into::into) };
    let engine = world.start([program("asks", asks)]).await;
    let task = engine.create(engine.call("asks")).await.unwrap();
    settle().await;
    store.change(&world.clock, &task.id, answered(1, "go")).await;
    settle().await;
    assert_eq!(world.state(&task.id).await, State::Running, "nobody has told it");
    next_reread(&world).await;
    assert_eq!(world.state(&task.id).await, ended(), "within the slow re-read");
}

fn ended() -> State {
    State::Done(Verdict::Succeeded)
}

/// The engine looks at what the code waits for before it suspends it.
#[tokio::test]
async fn an_answer_after_the_last_reread_is_found_before_the_suspension() {
    let (world, store) = without_hints();
    let asks = |cx| async move { ask(&cx, "well?").await.map_err(Into::into) };
    let engine = world.start([program("asks", asks)]).await;
    let task = engine.create(engine.call("asks")).await.unwrap();
    next_reread(&world).await;
    store.change(&world.clock, &task.id, answered(1, "go")).await;
    world.clock.advance(1);
    settle().await;
    // It is not suspended again and again.
    assert_eq!(world.state(&task.id).await, ended());
}

#[tokio::test]
async fn an_answer_resumes_a_suspended_task() {
    let (world, store) = without_hints();
    let asks = |cx| async move { ask(&cx, "well?").await.map_err(Into::into) };
    let engine = world.start([program("asks", asks)]).await;
    let task = engine.create(engine.call("asks")).await.unwrap();
    suspend(&world).await;
    assert_eq!(world.state(&task.id).await, State::Suspended);
    store.change(&world.clock, &task.id, answered(1, "go")).await;
    settle().await;
    // Nobody has told the scheduler.
    assert_eq!(world.state(&task.id).await, State::Queued);
    next_reread(&world).await;
    assert_eq!(world.state(&task.id).await, ended());
}

/// Another node claims the child and runs it to its end.
#[tokio::test]
async fn the_end_of_a_child_reaches_its_parent() {
    let (world, store) = without_hints();
    let (script, mut runs) = Script::new();
    let calls = |cx: TaskContext| async move {
        let end = cx.call("child", Json::trusted("{}")).await?;
        Ok(format!("{:?}", end.outcome == text("done")))
    };
    let engine = world.start([program("parent", calls), tool("child", script)]).await;
    let parent = engine.create(engine.call("parent")).await.unwrap();
    settle().await;
    let run = runs.started().expect("the parent waits, so its child runs");
    let child = run.attempt.task.clone();
    let fence = world.task(&child).await.active_attempt().unwrap().fence();
    let end = Event::AttemptEnded(AttemptEnd::Finished(text("done")));
    let end = Change {
        fence: Some(fence),
        ..Change::of(&child, end, world.clock.now())
    };
    store.inner.apply(end).await.unwrap();
    settle().await;
    assert_eq!(world.state(&parent.id).await, State::Running, "nobody has told it");
    next_reread(&world).await;
    assert_eq!(world.record(&parent.id).await.outcome, Some(text("true")));
}

#[tokio::test]
async fn a_cancel_reaches_the_attempt() {
    for mode in [CancelMode::AtOnce, CancelMode::Cooperative] {
        let (world, store) = without_hints();
        let (_engine, _runs, task, run) = world.running().await;
        // The attempt is read once before the cancel, and again after it.
        next_reread(&world).await;
        store.change(&world.clock, &task.id, Event::CancelRequested(mode)).await;
        settle().await;
        assert_eq!(run.cx.stop_requested(), None, "nobody has told it");
        next_reread(&world).await;
        assert_eq!(run.cx.stop_requested(), Some(StopReason::Cancel));
        run.end(ExecutionEnd::Stopped(StopReason::Cancel));
        settle().await;
        assert_eq!(world.record(&task.id).await.outcome, Some(Outcome::Cancelled));
    }
}

/// The event arrives, but not the acknowledgement of a change: another node has written it.
#[tokio::test]
async fn a_cancel_with_a_hint_stops_the_attempt_at_once() {
    let (world, store) = without_hints();
    let (_engine, _runs, task, run) = world.running().await;
    let cancel = Event::CancelRequested(CancelMode::Cooperative);
    store.change(&world.clock, &task.id, cancel).await;
    let hint = Hint::of(&world.task(&task.id).await);
    store.send(StoreEvent::TaskChanged(hint));
    assert_eq!(guarded("the stop", run.cx.stopped()).await, StopReason::Cancel);
}

/// The end of a stored plain call, for the caller that waits for it on another node.
#[tokio::test]
async fn the_end_of_a_plain_call_reaches_its_caller() {
    let (world, store) = without_hints();
    let (engine, mut runs) = world.scripted().await;
    let mut waiting = engine.begin(engine.call("a")).await.unwrap();
    let id = waiting.id().clone();
    let ended = beside(async move { waiting.ended(|_| ()).await });
    let _run = runs.next().await;
    settle().await;
    let fence = world.task(&id).await.active_attempt().unwrap().fence();
    let end = Event::AttemptEnded(AttemptEnd::Finished(text("done")));
    let end = Change {
        fence: Some(fence),
        ..Change::of(&id, end, world.clock.now())
    };
    store.inner.apply(end).await.unwrap();
    settle().await;
    assert!(!ended.is_finished(), "nobody has told it");
    next_reread(&world).await;
    assert_eq!(guarded("the answer", ended).await.unwrap(), Ok(text("done")));
}

/// Another node gives a task back to the queue.
#[tokio::test]
async fn a_queued_task_is_claimed() {
    for told in [false, true] {
        let (world, store) = without_hints();
        let (engine, mut runs) = world.scripted().await;
        let task = queue(&world, &store, &engine).await;
        settle().await;
        assert!(runs.started().is_none(), "nobody has told the scheduler");
        if told {
            store.send(StoreEvent::QueueReady {
                tool: "a".into(),
                place: QueuePlace {
                    priority: longhaul_core::Priority::default(),
                    ready_at: world.clock.now(),
                },
            });
            settle().await;
        } else {
            next_reread(&world).await;
        }
        assert_eq!(runs.started().expect("it is claimed").attempt.task, task);
    }
}

/// When the store says that events may have been lost, nothing waits for the next re-read.
#[tokio::test]
async fn a_resync_reads_again_at_once() {
    let (world, store) = without_hints();
    let (engine, mut runs) = world.scripted().await;
    let task = queue(&world, &store, &engine).await;
    settle().await;
    assert!(runs.started().is_none());
    store.send(StoreEvent::Resync);
    settle().await;
    let run = runs.started().expect("it is claimed");
    assert_eq!(run.attempt.task, task);
    let cancel = Event::CancelRequested(CancelMode::Cooperative);
    store.change(&world.clock, &task, cancel).await;
    store.send(StoreEvent::Resync);
    assert_eq!(guarded("the stop", run.cx.stopped()).await, StopReason::Cancel);
}

/// Another node suspends a task until a time that is earlier than this node's longest sleep.
#[tokio::test]
async fn a_timer_of_another_node_fires() {
    let (world, store) = without_hints();
    let naps = |cx: TaskContext| async move {
        cx.sleep(Duration::from_secs(3_600)).await?;
        Ok("rested".to_owned())
    };
    let engine = world.start([program("naps", naps)]).await;
    let task = engine.create(engine.call("naps")).await.unwrap();
    suspend(&world).await;
    assert_eq!(world.state(&task.id).await, State::Suspended);
    store.inner.make_timers_due(world.clock.now().plus(1)).await.unwrap();
    settle().await;
    // Nobody has told the timers.
    assert_eq!(world.state(&task.id).await, State::Suspended);
    next_reread(&world).await;
    assert_ne!(world.state(&task.id).await, State::Suspended);
}

/// The other node is older, and dies after this one has looked for dead nodes at its start.
#[tokio::test]
async fn an_attempt_of_a_node_that_dies_later_is_adopted() {
    let (world, store) = without_hints();
    let older = store
        .inner
        .open_node(&HostId("here".into()).into(), world.clock.now())
        .await
        .unwrap()
        .node;
    let (engine, mut runs) = world.scripted().await;
    let task = queue(&world, &store, &engine).await;
    let claim = Claim {
        tool: "a".into(),
        node: older,
        host: None,
        limit: 1,
        at: world.clock.now(),
        rate: None,
    };
    assert_eq!(store.inner.claim(claim).await.unwrap().len(), 1);
    next_reread(&world).await;
    assert!(runs.started().is_none());
    world.clock.advance(KEPT + 1);
    settle().await;
    let run = runs.started().expect("it is adopted");
    assert!(run.resumed && run.attempt.task == task);
}

/// This node has lost its lease without knowing it, and another one has adopted its attempt.
#[tokio::test]
async fn an_attempt_that_another_node_has_taken_over_is_dropped() {
    let (world, store) = without_hints();
    let (engine, _runs, task, run) = world.running().await;
    next_reread(&world).await;
    assert_eq!((engine.running(), run.is_dropped()), (1, false));
    let here = HostId("here".into());
    let newer = store
        .inner
        .open_node(&here.clone().into(), world.clock.now())
        .await
        .unwrap()
        .node;
    let adopted = store.inner.adopt(newer, &here, 1, world.clock.now()).await.unwrap();
    assert_eq!(adopted.len(), 1);
    next_reread(&world).await;
    // It could write nothing.
    assert_eq!((engine.running(), run.is_dropped()), (0, true));
    assert_eq!(world.task(&task.id).await.active_attempt().unwrap().node, newer);
}

/// A task that another node has created and left in its queue.
async fn queue(world: &World, store: &WithoutHints, engine: &Engine) -> TaskId {
    let now = world.clock.now();
    let header = TaskHeader {
        id: "queued".parse().unwrap(),
        owner: engine.call("a").owner,
        tool: "a".into(),
        spec: engine.catalog().tool("a").unwrap().spec().id.clone(),
        origin: Origin::Modern,
        accepted_by: NodeId(9),
        created_at: now,
        queue_timeout: None,
        deadline: None,
        retention: 3_600_000,
        lineage: None,
        labels: longhaul_core::Labels::default(),
        group: None,
    };
    let new = NewTask {
        header,
        announced: true,
        in_memory: false,
        priority: longhaul_core::Priority::default(),
        arguments: Json::trusted("{}"),
        requestor: Json::trusted("{}"),
        claim: None,
        confirmation: None,
        outcome: None,
        idempotency: None,
        unique: None,
        quota: Quota::default(),
        parent: None,
        history: None,
        replaces: None,
        schedule: None,
    };
    store.inner.create(new).await.unwrap().into_task().id.clone()
}

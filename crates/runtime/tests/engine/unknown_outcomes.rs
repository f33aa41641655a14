//! The answers of writes are lost, whether they were made or not: everything happens once all the same.

use crate::durable::{answer, ask};
use crate::support::{CallOf, Effects, World, beside, program, scope, settle, text};
use longhaul_core::{
    AttemptEnd, BoxFuture, CancelMode, Event, Json, NodeId, Outcome, Store, StoreLayer, Task, TaskId,
    store::{ApplyError, Change, CreateError, Created, NewTask, Record, StoreError, TaskStore, UnwrittenCall},
};
use longhaul_runtime::{Call, Engine, ExecutionEnd, Promotion, TaskContext};
use longhaul_store::{MemoryStore, PlainCallStore};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// A store that loses the answers of two writes in three: of one before and of one after it is made.
struct Forgetful {
    inner: MemoryStore,
    rng: Mutex<fastrand::Rng>,
}

enum Loss {
    None,
    Request,
    Answer,
}

impl Forgetful {
    fn loss(&self) -> Loss {
        match self.rng.lock().unwrap().u8(0..3) {
            0 => Loss::None,
            1 => Loss::Request,
            _ => Loss::Answer,
        }
    }

    fn write<'a, T: Send + 'a, E: From<StoreError> + Send + 'a>(
        &'a self,
        write: impl FnOnce() -> BoxFuture<'a, Result<T, E>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, E>> {
        let unknown = || Err(StoreError::OutcomeUnknown("as the test says".to_owned()).into());
        Box::pin(async move {
            match self.loss() {
                Loss::None => write().await,
                Loss::Request => unknown(),
                Loss::Answer => {
                    let _ = write().await;
                    unknown()
                }
            }
        })
    }
}

impl StoreLayer for Forgetful {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        self.write(|| self.inner.create(new))
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        self.write(|| self.inner.apply(change))
    }

    fn write_call(&self, call: UnwrittenCall, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        self.write(|| self.inner.write_call(call, change))
    }
}

fn forgetful(seed: u64) -> World {
    World::over(Arc::new(PlainCallStore::in_front_of(Arc::new(Forgetful {
        inner: MemoryStore::new(),
        rng: Mutex::new(fastrand::Rng::with_seed(seed)),
    }))))
}

/// Lets time pass until `done` completes.
async fn in_time<T: Send + 'static>(world: &World, done: impl Future<Output = T> + Send + 'static) -> T {
    let done = beside(done);
    for _ in 0..1_000 {
        settle().await;
        if done.is_finished() {
            return done.await.unwrap();
        }
        world.clock.advance(1_000);
    }
    panic!("it does not come to an end");
}

async fn until(world: &World, id: &TaskId, wanted: impl Fn(&Task) -> bool) -> Task {
    for _ in 0..1_000 {
        settle().await;
        let task = world.task(id).await;
        if wanted(&task) {
            return task;
        }
        world.clock.advance(1_000);
    }
    panic!("the task stays as it is: {:?}", world.task(id).await);
}

async fn create(world: &World, engine: &Engine, name: &str) -> Task {
    let (engine, call) = (engine.clone(), engine.call(name));
    in_time(world, async move { engine.create(call).await }).await.unwrap()
}

#[tokio::test]
async fn a_durable_task_does_everything_once() {
    for seed in 0..60 {
        let world = forgetful(seed);
        let (effects, of_child) = (Effects::default(), Effects::default());
        let (parent, child) = (effects.clone(), of_child.clone());
        let parent = program("parent", move |cx: TaskContext| {
            let effects = parent.clone();
            async move {
                let before = effects.step(&cx, "before").await?;
                let said = ask(&cx, "well?").await?;
                let end = cx.call("child", Json::trusted("{}")).await?;
                let after = effects.step(&cx, "after").await?;
                Ok(format!("{before} {said} {after} {}", end.outcome == text("1")))
            }
        });
        let child = program("child", move |cx: TaskContext| {
            let effects = child.clone();
            async move { Ok(effects.step(&cx, "only").await?.to_string()) }
        });
        let engine = world.start([parent, child]).await;
        let task = create(&world, &engine, "parent").await;
        until(&world, &task.id, |task| !task.open_inputs.is_empty()).await;
        let answering = engine.clone();
        let id = task.id.clone();
        in_time(&world, async move { answer(&answering, &id, 1, "go").await }).await;
        let task = until(&world, &task.id, Task::is_done).await;
        let outcome = world.record(&task.id).await.outcome.unwrap();
        assert_eq!(outcome, text(r#"1 {"says":"go"} 2 true"#), "seed {seed}");
        assert_eq!((effects.count(), of_child.count()), (2, 1), "seed {seed}");
        assert_eq!(task.inputs_asked, 1, "seed {seed}: the question is asked once");
        let counted = world.store.counts().await.unwrap();
        assert_eq!((counted.queued, counted.running), (0, 0), "seed {seed}");
        engine.stop();
    }
}

#[tokio::test]
async fn work_outside_the_process_starts_once_and_its_end_is_kept() {
    for seed in 0..60 {
        let world = forgetful(seed);
        let (engine, mut runs) = world.bound().await;
        let task = create(&world, &engine, "a").await;
        settle().await;
        let run = runs.started().expect("it has begun");
        let cx = run.cx.clone();
        let started = in_time(&world, async move { cx.record_start().await }).await;
        assert!(started.is_ok(), "seed {seed}: {started:?}");
        let asking = run.cx.clone();
        let asked = beside(async move { ask(&asking, "well?").await });
        until(&world, &task.id, |task| task.inputs_asked == 1).await;
        let answering = engine.clone();
        let id = task.id.clone();
        in_time(&world, async move { answer(&answering, &id, 1, "go").await }).await;
        let said = in_time(&world, asked).await.unwrap();
        assert_eq!(said.unwrap(), r#"{"says":"go"}"#, "seed {seed}");
        run.finish("done");
        until(&world, &task.id, Task::is_done).await;
        assert_eq!(world.record(&task.id).await.outcome, Some(text("done")), "seed {seed}");
        assert!(runs.started().is_none(), "seed {seed}: one attempt");
        engine.stop();
    }
}

#[tokio::test]
async fn a_cancel_is_acknowledged_and_stops_the_work() {
    for seed in 0..60 {
        let world = forgetful(seed);
        let (engine, mut runs) = world.scripted().await;
        let task = create(&world, &engine, "a").await;
        settle().await;
        let run = runs.started().expect("it has begun");
        let (cancelling, id) = (engine.clone(), task.id.clone());
        let cancelled = in_time(&world, async move {
            cancelling.cancel(&scope(), &id, CancelMode::AtOnce).await
        })
        .await;
        assert!(cancelled.is_ok(), "seed {seed}: {cancelled:?}");
        assert!(run.cx.stop_requested().is_some(), "seed {seed}");
        run.end(ExecutionEnd::Finished(text("too late")));
        until(&world, &task.id, |task| task.active_attempt().is_none()).await;
        assert_eq!(
            world.record(&task.id).await.outcome,
            Some(Outcome::Cancelled),
            "seed {seed}"
        );
        engine.stop();
    }
}

#[tokio::test]
async fn a_plain_call_is_promoted_once() {
    for seed in 0..60 {
        let world = forgetful(seed);
        let (engine, mut runs) = world.scripted().await;
        let mut waiting = engine.begin(engine.call("a")).await.unwrap();
        let id = waiting.id().clone();
        let promoted = in_time(&world, async move { waiting.promote().await }).await;
        assert!(matches!(promoted, Ok(Promotion::Task(_))), "seed {seed}: {promoted:?}");
        settle().await;
        runs.started().expect("it has begun").finish("done");
        until(&world, &id, Task::is_done).await;
        assert!(engine.get(&scope(), &id).await.unwrap().is_some(), "seed {seed}");
        assert_eq!(engine.running(), 0, "seed {seed}");
        engine.stop();
    }
}

/// A store that loses the answer of the first create, and makes it only after its task was looked for.
struct Late {
    inner: MemoryStore,
    lost: Mutex<Option<NewTask>>,
    /// Creates so far.
    count: AtomicUsize,
    /// What another node does once the task is there.
    meanwhile: Option<fn(&Task) -> Change>,
}

impl StoreLayer for Late {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        if self.count.fetch_add(1, Ordering::SeqCst) > 0 {
            return self.inner.create(new);
        }
        *self.lost.lock().unwrap() = Some(new);
        Box::pin(async { Err(StoreError::OutcomeUnknown("as the test says".to_owned()).into()) })
    }

    fn get_unscoped(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        let Some(new) = self.lost.lock().unwrap().take() else {
            return self.inner.get_unscoped(id);
        };
        Box::pin(async move {
            let task = self.inner.create(new).await.unwrap().into_task();
            if let Some(change) = self.meanwhile {
                self.inner.apply(change(&task)).await.unwrap();
            }
            Ok(None)
        })
    }
}

async fn create_late(call: impl Fn(&Engine) -> Call, meanwhile: Option<fn(&Task) -> Change>) -> usize {
    let world = World::over(Arc::new(Late {
        inner: MemoryStore::new(),
        lost: Mutex::default(),
        count: AtomicUsize::new(0),
        meanwhile,
    }));
    let (engine, mut runs) = world.scripted().await;
    let (creating, call) = (engine.clone(), call(&engine));
    in_time(&world, async move { creating.create(call).await })
        .await
        .unwrap();
    let mut started = Vec::new();
    for _ in 0..20 {
        settle().await;
        started.extend(runs.started());
        world.clock.advance(1_000);
    }
    started.len()
}

#[tokio::test]
async fn a_create_that_is_made_late_is_run_once() {
    assert_eq!(create_late(|engine| engine.call("a"), None).await, 1);
    let keyed = |engine: &Engine| Call {
        idempotency_key: Some("key".into()),
        ..engine.call("a")
    };
    assert_eq!(create_late(keyed, None).await, 1, "found by its key");
}

/// Another node has taken its attempt for lost, and has queued it again: it is run from there, and not beside it.
#[tokio::test]
async fn a_create_whose_attempt_was_lost_is_run_once() {
    let lost = |task: &Task| Change {
        fence: task.active_attempt().map(|attempt| attempt.fence()),
        ..Change::of(
            &task.id,
            Event::AttemptEnded(AttemptEnd::NeverStarted { retry_at: None }),
            task.created_at,
        )
    };
    assert_eq!(create_late(|engine| engine.call("a"), Some(lost)).await, 1);
}

/// A store that makes one create late: once nothing can be made before it any more, or when the test says so.
struct LateCreate {
    inner: MemoryStore,
    waiting: Mutex<Option<NewTask>>,
    is_first: AtomicUsize,
}

impl LateCreate {
    async fn make(&self) {
        let waiting = self.waiting.lock().unwrap().take();
        if let Some(new) = waiting {
            let _ = self.inner.create(new).await;
        }
    }
}

impl StoreLayer for LateCreate {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        if self.is_first.fetch_add(1, Ordering::SeqCst) > 0 {
            return self.inner.create(new);
        }
        *self.waiting.lock().unwrap() = Some(new);
        Box::pin(async { Err(StoreError::OutcomeUnknown("as the test says".to_owned()).into()) })
    }

    fn await_earlier_writes(&self, _: NodeId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.make().await;
            Ok(())
        })
    }
}

/// The first write of a task, whose answer was lost, does not make the task anew once that has ended and is deleted.
#[tokio::test]
async fn a_deleted_task_is_not_created_by_a_late_write() {
    let late = Arc::new(LateCreate {
        inner: MemoryStore::new(),
        waiting: Mutex::default(),
        is_first: AtomicUsize::new(0),
    });
    let world = World::over(Arc::clone(&late) as Arc<dyn Store>);
    let (engine, mut runs) = world.scripted().await;
    let task = create(&world, &engine, "a").await;
    runs.next().await.finish("done");
    assert_eq!(world.outcome(&engine, &task.id).await, text("done"));
    engine.delete(&scope(), &task.id).await.unwrap();
    late.make().await;
    assert_eq!(late.inner.get_unscoped(&task.id).await, Ok(None));
    settle().await;
    assert!(runs.started().is_none(), "it runs once");
}

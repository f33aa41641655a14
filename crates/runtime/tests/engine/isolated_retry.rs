//! A process that dies again and again, and what becomes of all that it ran.

use crate::support::{CallOf, Fault, World, program, scope, settle};
use longhaul_core::{CancelMode, Clock, Json, State, TaskId, Verdict};
use longhaul_runtime::{Engine, Question, StepPolicy, ToolSettings};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// What outlives a process, and how its tools behave.
struct Lives {
    world: World,
    died: Arc<AtomicBool>,
    /// What `long` waits for.
    built: watch::Sender<bool>,
    /// What it waits for then, outside of its journal.
    shipped: watch::Sender<bool>,
    /// How long `bad` runs before it kills its process, in milliseconds.
    fuse: u64,
}

impl Lives {
    fn with_fuse(fuse: u64) -> Self {
        Self {
            world: World::in_memory(),
            died: Arc::default(),
            built: watch::Sender::new(false),
            shipped: watch::Sender::new(true),
            fuse,
        }
    }

    fn tools(&self) -> [ToolSettings; 2] {
        let (clock, died, fuse) = (self.world.clock.clone(), self.died.clone(), self.fuse);
        // Over when it would be blocked, so that it can be waited for.
        let bad = ToolSettings {
            blocked_timeout: 0,
            ..program("bad", move |_| {
                let (clock, died) = (clock.clone(), died.clone());
                async move {
                    clock.sleep(Duration::from_millis(fuse)).await;
                    died.store(true, Ordering::SeqCst);
                    std::future::pending::<Result<String, Fault>>().await
                }
            })
        };
        let (built, shipped) = (self.built.subscribe(), self.shipped.subscribe());
        let long = program("long", move |cx| {
            let (built, mut shipped) = (built.clone(), shipped.clone());
            async move {
                let build = || async {
                    let _ = built.clone().wait_for(|built| *built).await;
                    Ok(Json::trusted("\"built\""))
                };
                let built = cx.step("build", &StepPolicy::default(), build).await?;
                let _ = shipped.wait_for(|shipped| *shipped).await;
                Ok(built.as_str().to_owned())
            }
        });
        [bad, long]
    }

    /// Runs one process until it dies or `wanted` is true; returns whether it died.
    fn live(&self, begin: impl AsyncFn(&Engine), wanted: impl AsyncFn() -> bool) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let engine = self.world.start(self.tools()).await;
            begin(&engine).await;
            for _ in 0..10_000 {
                settle().await;
                if self.died.swap(false, Ordering::SeqCst) {
                    return true;
                }
                if wanted().await {
                    return false;
                }
                self.world.clock.advance(1_000);
            }
            panic!("neither did it die, nor did anything come of it");
        })
    }

    async fn state(&self, id: &TaskId) -> State {
        self.world.state(id).await
    }

    async fn is_over(&self, id: &TaskId) -> bool {
        matches!(self.state(id).await, State::Done(_))
    }

    /// Creates a task of each of these tools, one of which kills the process.
    fn create(&self, tools: &[&str]) -> Vec<TaskId> {
        let created = std::sync::Mutex::<Vec<TaskId>>::default();
        let begin = async |engine: &Engine| {
            for tool in tools {
                let task = engine.create(engine.call(tool)).await.unwrap();
                created.lock().unwrap().push(task.id.clone());
            }
        };
        assert!(self.live(begin, async || false));
        created.into_inner().unwrap()
    }

    /// Starts processes until `wanted` is true; returns how many of them died.
    fn deaths(&self, wanted: impl AsyncFn() -> bool) -> usize {
        (0..50).take_while(|_| self.live(async |_| {}, &wanted)).count()
    }
}

/// At once or after a minute: whoever dies always at the same point is at fault, and whoever gets past the point where it died is not.
#[test]
fn nothing_is_blocked_for_the_crashes_of_another() {
    for fuse in [10, 60_000] {
        let lives = Lives::with_fuse(fuse);
        let ids = lives.create(&["long", "bad", "long"]);
        let deaths = lives.deaths(async || lives.is_over(&ids[1]).await);
        assert!(deaths < 20, "{deaths}");
        assert!(!lives.built.send_replace(true));
        let ended = async || {
            let states = [lives.state(&ids[0]).await, lives.state(&ids[2]).await];
            states == [State::Done(Verdict::Succeeded); 2]
        };
        assert_eq!(lives.deaths(ended), 0, "only one was at fault");
    }
}

#[test]
fn what_always_dies_late_is_blocked_too() {
    let lives = Lives::with_fuse(60_000);
    let ids = lives.create(&["bad"]);
    let more = lives.deaths(async || lives.is_over(&ids[0]).await);
    assert_eq!(1 + more, 5, "it may be run five times");
}

/// The one at fault then runs at once, and dies after its minute; a watch lasts for two.
#[test]
fn what_has_come_further_makes_way_for_the_next() {
    let lives = Lives::with_fuse(60_000);
    lives.shipped.send_replace(false);
    lives.create(&["long", "bad"]);
    assert!(lives.live(async |_| {}, async || false) && lives.live(async |_| {}, async || false));
    lives.built.send_replace(true);
    let begun = lives.world.clock.now();
    assert!(lives.live(async |_| {}, async || false));
    let passed = lives.world.clock.now().since(begun);
    assert!((60_000..100_000).contains(&passed), "{passed} ms");
}

#[test]
fn a_task_that_waits_for_isolation_can_be_cancelled() {
    let lives = Lives::with_fuse(60_000);
    let ids = lives.create(&["long", "bad"]);
    assert!(lives.live(async |_| {}, async || false) && lives.live(async |_| {}, async || false));
    let cancel = async |engine: &Engine| {
        settle().await;
        let mode = CancelMode::Cooperative;
        engine.cancel(&scope(), &ids[1], mode).await.unwrap();
    };
    let ended = async || lives.state(&ids[1]).await == State::Done(Verdict::Cancelled);
    assert!(!lives.live(cancel, ended));
}

/// A process that dies every few seconds costs a task that waits for an answer no more than the attempts before its last ones.
#[test]
fn what_only_waits_is_not_blocked_for_crashes() {
    let world = World::in_memory();
    let tools = || {
        [program("asks", |cx| async move {
            let question = Question::new(Json::trusted(r#"{"method":"elicitation/create"}"#));
            Ok::<_, Fault>(cx.ask(question).await?.as_str().to_owned())
        })]
    };
    let mut task = None;
    for _ in 0..12 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        task = Some(runtime.block_on(async {
            let engine = world.start(tools()).await;
            let id = match task {
                Some(id) => id,
                None => engine.create(engine.call("asks")).await.unwrap().id.clone(),
            };
            for _ in 0..50 {
                settle().await;
                world.clock.advance(100);
            }
            id
        }));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let state = runtime.block_on(world.state(&task.unwrap()));
    assert_eq!(state, State::Suspended);
}

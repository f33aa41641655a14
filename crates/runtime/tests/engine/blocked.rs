//! A bad deploy destroys no task: what cannot go on is blocked, and goes on when it can.

use crate::durable::rpc_error;
use crate::support::{
    CallOf, Effects, Fault, FaultyStore, ManualClock, Process, Script, World, guarded, program, scope, settle, text,
    tool,
};
use longhaul_core::{
    BlockReason, CancelMode, Clock, EndedBy, EntryKind, InputKey, Json, Outcome, State, Task, TaskId, Verdict,
    store::{Counts, TaskLookup},
};
use longhaul_runtime::{AskError, Engine, JournalError, Question, TaskContext, ToolSettings};
use longhaul_store::MemoryStore;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;

async fn ask(cx: &TaskContext, words: &str) -> Result<String, AskError> {
    let question = Question::new(Json::from(serde_json::json!({"method": words})));
    Ok(cx.ask(question).await?.as_str().to_owned())
}

async fn answer(engine: &Engine, id: &TaskId) {
    let answers = BTreeMap::from([(InputKey::nth(1), Json::trusted(r#""go""#))]);
    engine.answer(&scope(), id, answers).await.unwrap().unwrap();
}

/// Takes these steps, asks, and takes one more.
fn ship(effects: &Effects, steps: &'static [&'static str]) -> ToolSettings {
    let effects = effects.clone();
    program("ship", move |cx| {
        let effects = effects.clone();
        async move {
            for step in steps {
                effects.step(&cx, step).await?;
            }
            let said = ask(&cx, "well?").await?;
            effects.step(&cx, "last").await?;
            Ok::<_, Fault>(said)
        }
    })
}

const GOOD: &[&str] = &["build", "test"];
const BAD: &[&str] = &["compile", "test"];

/// One directory, and what its processes did.
struct Deploys {
    directory: tempfile::TempDir,
    clock: Arc<ManualClock>,
    effects: Effects,
}

impl Deploys {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::new()),
            effects: Effects::default(),
        }
    }

    /// One life of a server of this build.
    fn deploy<T>(&self, build: &str, steps: &'static [&'static str], life: impl AsyncFnOnce(World, Engine) -> T) -> T {
        Process::run(self.directory.path(), &self.clock, async |mut world| {
            world.build = build.to_owned();
            let engine = world.start([ship(&self.effects, steps)]).await;
            life(world, engine).await
        })
    }

    /// A task that good code has suspended at its question.
    fn begin(&self) -> TaskId {
        self.deploy("good", GOOD, async |world, engine| {
            let task = engine.create(engine.call("ship")).await.unwrap();
            world.clock.sleeper(30_000).await;
            world.clock.advance(30_000);
            world.reaches(&engine, &task.id, State::Suspended).await;
            task.id.clone()
        })
    }

    /// The same, blocked: its answer woke it after a bad deploy.
    fn block(&self) -> TaskId {
        let id = self.begin();
        self.deploy("bad", BAD, async |world, engine| {
            answer(&engine, &id).await;
            world.reaches(&engine, &id, State::Blocked).await;
        });
        id
    }
}

async fn stays_blocked(world: &World, id: &TaskId) -> Task {
    settle().await;
    let task = world.task(id).await;
    assert_eq!(task.state, State::Blocked);
    task
}

#[test]
fn a_bad_deploy_blocks_a_task_and_a_good_one_takes_it_to_its_end() {
    let deploys = Deploys::new();
    let id = deploys.block();
    deploys.deploy("bad", BAD, async |world, engine| {
        let task = stays_blocked(&world, &id).await;
        let line = task.status_line().unwrap().into_owned();
        assert!(line.starts_with("blocked (non-determinism): "), "{line}");
        assert!(
            line.contains(r#"asked for step "compile""#) && line.contains(r#"step "build" before"#),
            "{line}"
        );
        let counts = Counts {
            blocked: 1,
            ..Counts::default()
        };
        assert_eq!(world.store.counts().await, Ok(counts));
        // A restart tries nothing.
        assert_eq!((task.attempts_used, task.blocked.as_ref().unwrap().tries), (0, 0));
        assert_eq!(engine.blocked(None, 9).await.unwrap().len(), 1);
        let page = engine.history(&task, 0, 100).await.unwrap();
        let (_, last) = page.found.last().unwrap();
        assert_eq!(last.ended_by, Some(EndedBy::NonDeterminism));
    });
    deploys.deploy("good", GOOD, async |world, engine| {
        let outcome = guarded("the end", world.outcome(&engine, &id)).await;
        assert_eq!(outcome, text(r#""go""#), "the answer was kept");
    });
    // No step was done twice, and none of the wrong ones.
    assert_eq!(deploys.effects.count(), 3);
}

/// Old and new code side by side take no turns: what each could not go on with is remembered.
#[test]
fn code_that_a_task_was_blocked_under_does_not_try_it_again() {
    let deploys = Deploys::new();
    let id = deploys.block();
    for (build, epoch) in [
        ("worse", 3),
        ("bad", 3),
        ("worse", 3),
        ("bad", 3),
        ("bad again", 4),
        ("bad", 4),
    ] {
        deploys.deploy(build, BAD, async |world, engine| {
            let blocked = |task: &Task| task.state == State::Blocked && task.attempt.as_ref().unwrap().epoch == epoch;
            world.until(&engine, &id, blocked).await;
            stays_blocked(&world, &id).await;
        });
    }
    deploys.deploy("good", GOOD, async |world, engine| {
        assert_eq!(world.outcome(&engine, &id).await, text(r#""go""#));
    });
}

#[test]
fn an_operator_and_time_try_it_again() {
    let deploys = Deploys::new();
    let id = deploys.block();
    deploys.deploy("bad", BAD, async |world, engine| {
        let epoch = async || world.task(&id).await.attempt.unwrap().epoch;
        let first = epoch().await;
        assert!(engine.unblock(&id).await.unwrap());
        let tried = |after: u32| {
            move |task: &Task| task.state == State::Blocked && task.attempt.as_ref().unwrap().epoch == after
        };
        let task = world.until(&engine, &id, tried(first + 1)).await;
        let blocked = task.blocked.unwrap();
        assert_eq!((blocked.tries, task.attempts_used), (1, 0));
        // Ten minutes now, spread by a half either way.
        let wait = task.resume_at.unwrap().since(world.clock.now());
        assert!((5..=15).contains(&(wait / 60_000)), "{wait} ms");
        settle().await;
        world.clock.advance(i64::try_from(wait).unwrap());
        let task = world.until(&engine, &id, tried(first + 2)).await;
        assert_eq!(task.blocked.unwrap().since, blocked.since);
        assert!(!engine.unblock(&"nobodys".parse().unwrap()).await.unwrap());
    });
}

/// A deploy that lost the tool, or switched it off, is a bad one like any other.
#[test]
fn a_deploy_without_the_tool_blocks_its_tasks() {
    let deploys = Deploys::new();
    let id = deploys.begin();
    Process::run(deploys.directory.path(), &deploys.clock, async |mut world| {
        world.build = "without".to_owned();
        let engine = world.start([]).await;
        answer(&engine, &id).await;
        let task = world.reaches(&engine, &id, State::Blocked).await;
        let line = task.status_line().unwrap().into_owned();
        assert!(line.starts_with("blocked (unavailable): "), "{line}");
    });
    // The same build: its configuration decides what it offers.
    deploys.deploy("without", GOOD, async |world, engine| {
        assert_eq!(world.outcome(&engine, &id).await, text(r#""go""#));
    });
    assert_eq!(deploys.effects.count(), 3);
}

/// A task that has no journal entry yet, because it was queued or had just begun, waits for its tool too.
#[test]
fn a_deploy_without_the_tool_blocks_tasks_that_have_not_begun() {
    let deploys = Deploys::new();
    let without = |builds: &str, tool: Option<ToolSettings>, wanted: u32, id: &TaskId| {
        Process::run(deploys.directory.path(), &deploys.clock, async |mut world| {
            world.build = builds.to_owned();
            let engine = world.start(tool).await;
            let blocked = |task: &Task| {
                task.state == State::Blocked && task.blocked.as_ref().is_some_and(|it| it.tries == wanted)
            };
            let task = world.until(&engine, id, blocked).await;
            assert_eq!(task.blocked.unwrap().reason, BlockReason::Unavailable);
            stays_blocked(&world, id).await;
        });
    };
    let no_longer_durable = || tool("ship", Script::new().0);
    let id = Process::run(deploys.directory.path(), &deploys.clock, async |world| {
        let engine = world.with_slots(0).start([ship(&deploys.effects, GOOD)]).await;
        engine.create(engine.call("ship")).await.unwrap().id.clone()
    });
    without("without", None, 0, &id);
    without("not durable", Some(no_longer_durable()), 1, &id);
    without("not durable", Some(no_longer_durable()), 1, &id);
    deploys.deploy("without", GOOD, async |world, engine| {
        world.asks(&engine, &id).await;
        answer(&engine, &id).await;
        assert_eq!(world.outcome(&engine, &id).await, text(r#""go""#));
    });
    assert_eq!(deploys.effects.count(), 3);
}

/// The seven days pass, and it ends as it would have at once.
#[test]
fn it_ends_when_nothing_changes_in_time() {
    let deploys = Deploys::new();
    let id = deploys.block();
    deploys.clock.advance(7 * DAY);
    deploys.deploy("good", GOOD, async |world, engine| {
        let outcome = guarded("the end", world.outcome(&engine, &id)).await;
        let (message, data) = rpc_error(&outcome);
        assert!(message.contains("does not follow its journal"), "{message}");
        assert!(data.contains("diverged"), "{data}");
    });
}

#[test]
fn a_cancel_ends_it_at_once() {
    for mode in [CancelMode::AtOnce, CancelMode::Cooperative] {
        let deploys = Deploys::new();
        let id = deploys.block();
        deploys.deploy("bad", BAD, async |world, engine| {
            let cancelled = engine.cancel(&scope(), &id, mode).await.unwrap();
            assert_eq!(cancelled.state, State::Done(Verdict::Cancelled));
            assert_eq!(world.outcome(&engine, &id).await, Outcome::Cancelled);
        });
    }
}

/// Their retries came due together while no server ran: the next one does not make them together.
#[test]
fn retries_that_were_missed_are_spread() {
    let deploys = Deploys::new();
    let ids: Vec<TaskId> = (0..6).map(|_| deploys.begin()).collect();
    deploys.deploy("bad", BAD, async |world, engine| {
        for id in &ids {
            answer(&engine, id).await;
            world.reaches(&engine, id, State::Blocked).await;
        }
    });
    deploys.clock.advance(DAY);
    deploys.deploy("bad", BAD, async |world, engine| {
        let mut times = BTreeSet::new();
        for id in &ids {
            let now = world.clock.now();
            let put_off = |task: &Task| task.resume_at.is_some_and(|at| at > now);
            let task = world.until(&engine, id, put_off).await;
            let wait = task.resume_at.unwrap().since(now);
            assert!(task.state == State::Blocked && wait < 600_000, "{wait} ms");
            times.insert(wait);
        }
        assert!(times.len() > 1, "{times:?}");
    });
}

/// Crashes at one point until it is mended. No restart of the process is needed for the test: each crash is a panic.
fn crashes(effects: &Effects, mended: &Arc<AtomicBool>) -> ToolSettings {
    let (effects, mended) = (effects.clone(), Arc::clone(mended));
    program("crashes", move |cx| {
        let (effects, mended) = (effects.clone(), Arc::clone(&mended));
        async move {
            effects.step(&cx, "first").await?;
            effects.happen();
            assert!(mended.load(Ordering::SeqCst), "index out of bounds");
            effects.step(&cx, "second").await?;
            Ok("done".to_owned())
        }
    })
}

#[tokio::test]
async fn what_crashes_at_one_point_is_blocked_and_each_retry_is_one_attempt() {
    let world = World::in_memory();
    let (effects, mended) = (Effects::default(), Arc::default());
    let engine = world.start([crashes(&effects, &mended)]).await;
    let task = engine.create(engine.call("crashes")).await.unwrap();
    let blocked =
        |tries: u32| move |task: &Task| task.state == State::Blocked && task.blocked.as_ref().unwrap().tries == tries;
    let first = world.until(&engine, &task.id, blocked(0)).await;
    assert_eq!(first.blocked.as_ref().unwrap().reason, BlockReason::Poisoned);
    let line = first.status_line().unwrap().into_owned();
    assert!(line.starts_with("blocked (poisoned): 5 attempts failed"), "{line}");
    assert!(line.ends_with("index out of bounds"), "{line}");
    assert_eq!(effects.count(), 1 + 5);
    for tries in 1..3 {
        assert!(engine.unblock(&task.id).await.unwrap());
        world.until(&engine, &task.id, blocked(tries)).await;
        assert_eq!(effects.count(), 6 + tries, "one more");
    }
    mended.store(true, Ordering::SeqCst);
    assert!(engine.unblock(&task.id).await.unwrap());
    assert_eq!(world.outcome(&engine, &task.id).await, text("done"));
    assert!(!engine.unblock(&task.id).await.unwrap());
}

/// A new build may have mended it; and what goes on is not held to have been blocked once.
#[tokio::test]
async fn new_code_tries_what_crashed() {
    let mut world = World::in_memory();
    let (effects, mended) = (Effects::default(), Arc::new(AtomicBool::new(false)));
    let engine = world.start([crashes(&effects, &mended)]).await;
    let task = engine.create(engine.call("crashes")).await.unwrap();
    world.reaches(&engine, &task.id, State::Blocked).await;
    engine.stop();
    mended.store(true, Ordering::SeqCst);
    world.build = "mended".to_owned();
    let engine = world.start([crashes(&effects, &mended)]).await;
    assert_eq!(world.outcome(&engine, &task.id).await, text("done"));
}

/// As `Deploys::block`, for code that does several things at once. `bad` code takes another step in its second branch, and says that it is done.
fn branches(effects: &Effects, bad: bool) -> ToolSettings {
    let effects = effects.clone();
    program("branches", move |cx| {
        let effects = effects.clone();
        async move {
            let fork = cx.fork(3)?;
            let begin = |nth| fork.begin(nth).ok_or(JournalError::Forked);
            let (asks, calls, works) = (begin(0)?, begin(1)?, begin(2)?);
            let asking = async { ask(&asks, "well?").await.map_err(Fault::from) };
            let calling = async { calls.call("child", Json::trusted("{}")).await.map_err(Fault::from) };
            let working = async {
                effects.step(&works, if bad { "wrong" } else { "right" }).await?;
                works.sleep(Duration::from_millis(DAY.unsigned_abs())).await?;
                Ok::<_, Fault>(())
            };
            if bad {
                // Drops what the others wait for.
                let _ = futures_util::future::try_join3(asking, calling, working).await;
                effects.step(&cx, "more").await.ok();
                return Ok("all is well".to_owned());
            }
            let (said, child, ()) = futures_util::future::try_join3(asking, calling, working).await?;
            Ok(format!("{said} {:?}", child.outcome))
        }
    })
}

/// What diverged code says, takes back and begins counts for nothing: its journal, its question and its child are as they were.
#[tokio::test]
async fn nothing_that_diverged_code_does_is_kept() {
    let mut world = World::over(FaultyStore::over(Arc::new(MemoryStore::new())));
    let effects = Effects::default();
    let child = || {
        program("child", |cx| async move {
            cx.sleep(Duration::from_millis(2 * DAY.unsigned_abs())).await?;
            Ok::<_, Fault>("grown".to_owned())
        })
    };
    let engine = world.start([branches(&effects, false), child()]).await;
    let task = engine.create(engine.call("branches")).await.unwrap();
    world.until(&engine, &task.id, |task| task.journaled == 4).await;
    world.clock.sleeper(30_000).await;
    world.clock.advance(30_000);
    world.reaches(&engine, &task.id, State::Suspended).await;
    let before = world.store.journal(&task.id, 0, 100).await.unwrap();
    let children = world
        .store
        .find(TaskLookup::ChildrenOf(task.id.clone()), 9)
        .await
        .unwrap();
    engine.stop();
    settle().await;
    world.build = "bad".to_owned();
    let engine = world.start([branches(&effects, true), child()]).await;
    // Its timer comes due, and it is run again.
    world.clock.advance(DAY);
    let blocked = world.reaches(&engine, &task.id, State::Blocked).await;
    settle().await;
    let mut after = world.store.journal(&task.id, 0, 100).await.unwrap();
    let failure = after.pop().unwrap();
    assert_eq!((failure.key.kind, failure.epoch), (EntryKind::Failure, 2));
    assert_eq!(after, before);
    assert!(before.iter().all(|entry| entry.epoch == 1));
    assert_eq!(blocked.open_inputs, [InputKey::nth(1)]);
    let still: Vec<_> = world
        .store
        .find(TaskLookup::ChildrenOf(task.id.clone()), 9)
        .await
        .unwrap();
    assert_eq!((still.len(), &still[0].id), (1, &children[0].id), "nobody cancelled it");
    assert_eq!(effects.count(), 1);
    engine.stop();
    settle().await;
    world.build = "good".to_owned();
    let engine = world.start([branches(&effects, false), child()]).await;
    answer(&engine, &task.id).await;
    world.clock.advance(DAY);
    let outcome = guarded("the end", world.outcome(&engine, &task.id)).await;
    assert_eq!(outcome.verdict(), Verdict::Succeeded, "{outcome:?}");
}

//! The world's clock is set while everything runs: what is a length of time takes as long, what is a date goes by the clock.

use crate::support::{CallOf, Process, Run, Script, World, failure, guarded, home, program, retry, settle, tool};
use longhaul_core::{Clock, Json, Outcome, RetryOn, State, Task, TaskId, UnixMillis};
use longhaul_runtime::{Engine, ExecutionEnd, PollPolicy, Polled, Question, ToolSettings};
use proptest::prelude::*;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

const SECOND: i64 = 1_000;
const HOUR: i64 = 3_600 * SECOND;
/// So long all timers are watched.
const WATCHED: i64 = 130;
/// Retention looks every two seconds, and the test every one.
const TOLERANCE: i64 = 3;
/// A task is queued so often, and the one that runs ends so often.
const BEAT: i64 = 10;

/// What lasts so many seconds.
const SPANS: [(&str, i64); 8] = [
    ("deadline", 60),
    ("queue timeout", 40),
    ("backoff", 20),
    ("short sleep", 25),
    ("long sleep", 100),
    ("poll", 40),
    ("question", 45),
    ("retention", 50),
];

fn tools(scripts: &mut impl FnMut() -> Arc<Script>, looks: &Arc<AtomicU32>) -> Vec<ToolSettings> {
    let looks = Arc::clone(looks);
    vec![
        ToolSettings {
            deadline: Some(60_000),
            ..tool("deadline", scripts())
        },
        ToolSettings {
            queue_timeout: Some(40_000),
            concurrency: Some(1),
            ..tool("queue timeout", scripts())
        },
        ToolSettings {
            retry: retry(2, 20_000, [RetryOn::Error]),
            ..tool("backoff", scripts())
        },
        ToolSettings {
            retention: 50_000,
            ..tool("retention", scripts())
        },
        ToolSettings {
            concurrency: Some(1),
            ..tool("queue", scripts())
        },
        program("short sleep", |cx| async move {
            cx.sleep(Duration::from_secs(25)).await?;
            Ok("slept".to_owned())
        }),
        program("long sleep", |cx| async move {
            cx.sleep(Duration::from_secs(100)).await?;
            Ok("slept".to_owned())
        }),
        program("poll", move |cx| {
            let looks = Arc::clone(&looks);
            async move {
                let policy = PollPolicy {
                    first: 20_000,
                    longest: 20_000,
                    failures: 1,
                };
                let look = || async {
                    match looks.fetch_add(1, Ordering::SeqCst) {
                        0 | 1 => Ok(Polled::Pending(None)),
                        2 => Ok(Polled::Ready(Json::trusted("null"))),
                        _ => Err(failure("it was ready")),
                    }
                };
                cx.poll_until("poll", policy, look).await?;
                Ok("ready".to_owned())
            }
        }),
        program("question", |cx| async move {
            let question = Question {
                within: Some(Duration::from_secs(45)),
                ..Question::new(Json::trusted(r#"{"method":"well?"}"#))
            };
            Ok(cx.ask(question).await?.as_str().to_owned())
        }),
    ]
}

/// Whether what is waited for under this name has come.
fn has_come(name: &str, task: Option<&Task>) -> bool {
    match (name, task) {
        ("retention", task) => task.is_none(),
        ("deadline", Some(task)) => task.stop.is_some(),
        ("backoff", Some(task)) => task.attempts_used == 2,
        (_, Some(task)) => task.is_done(),
        (_, None) => panic!("{name} is gone"),
    }
}

/// When each came, in seconds, and when the tasks of the queue began, by the order in which they were created.
async fn watch(sets: &BTreeMap<i64, i64>) -> (BTreeMap<&'static str, i64>, Vec<(usize, i64)>) {
    let world = World::in_memory();
    let mut all_runs = Vec::new();
    let mut scripts = || {
        let (script, runs) = Script::new();
        all_runs.push(runs);
        script
    };
    let engine = world.start(tools(&mut scripts, &Arc::default())).await;
    let [_deadline, queue_timeout, backoff, retention, queue] = &mut all_runs[..] else {
        panic!("five scripts")
    };
    let create = async |name: &str| engine.create(engine.call(name)).await.unwrap().id.clone();
    create("queue timeout").await;
    let _held = queue_timeout.next().await;
    let mut waited = Vec::new();
    for (name, _) in SPANS {
        waited.push((name, create(name).await));
    }
    backoff
        .next()
        .await
        .end(ExecutionEnd::Errored(Outcome::tool_error("no")));
    retention.next().await.finish("done");
    let (mut came, mut queued, mut began) = (BTreeMap::new(), Vec::new(), Vec::new());
    let mut running: Option<Run> = None;
    for second in 0..=WATCHED {
        if second % BEAT == 0 {
            queued.push(create("queue").await);
            if second > 0
                && let Some(run) = running.take()
            {
                run.finish("done");
            }
        }
        settle().await;
        if let Some(run) = queue.started() {
            let nth = queued.iter().position(|id| *id == run.attempt.task).unwrap();
            began.push((nth, second));
            running = Some(run);
        }
        for (name, id) in &waited {
            let record = world.store.get_unscoped(id).await.unwrap();
            if has_come(name, record.as_ref().map(|record| &record.task)) {
                came.entry(*name).or_insert(second);
            }
        }
        if let Some(by) = sets.get(&second) {
            world.clock.jump(*by);
        }
        world.clock.advance(SECOND);
    }
    (came, began)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Against a clock that nobody sets. Nothing ends early, nothing hangs, and no queued task is overtaken.
    #[test]
    fn lengths_of_time_are_as_long_however_the_clock_is_set(
        sets in prop::collection::btree_map(0..WATCHED, prop_oneof![Just(-HOUR), Just(HOUR), -HOUR..HOUR], 1..6),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build().unwrap();
        let (came, began) = runtime.block_on(watch(&sets));
        for (name, span) in SPANS {
            let at = came.get(name).copied().unwrap_or(i64::MAX);
            prop_assert!((span..=span + TOLERANCE).contains(&at), "{} came after {} s and not {} s", name, at, span);
        }
        // Two are queued at the start of the first beat; from then on one comes and one ends in each.
        let expected: Vec<_> = (0..=WATCHED / BEAT).map(|nth| (nth as usize, nth * BEAT)).collect();
        prop_assert_eq!(began, expected);
    }
}

fn sleeper(until: impl Fn() -> UnixMillis + Send + Sync + 'static) -> ToolSettings {
    program("date", move |cx| {
        let until = until();
        async move {
            cx.sleep_until(until).await?;
            Ok("slept".to_owned())
        }
    })
}

async fn pass(world: &World, seconds: i64) {
    for _ in 0..seconds {
        settle().await;
        world.clock.advance(SECOND);
    }
    settle().await;
}

/// In memory, and when its code was suspended before.
#[tokio::test]
async fn a_date_goes_by_the_world_s_clock() {
    for before in [1, 40] {
        let world = World::in_memory();
        let until = world.clock.now().plus(2 * HOUR as u64);
        let engine = world.start([sleeper(move || until)]).await;
        let id = engine.create(engine.call("date")).await.unwrap().id.clone();
        pass(&world, before).await;
        let expected = if before == 1 { State::Running } else { State::Suspended };
        assert_eq!(world.state(&id).await, expected);
        world.clock.jump(HOUR);
        pass(&world, 70).await;
        assert!(!world.task(&id).await.is_done(), "another hour");
        world.clock.jump(-HOUR);
        pass(&world, 70).await;
        world.clock.jump(2 * HOUR);
        // The clock is looked at once a minute at least.
        pass(&world, 70).await;
        assert!(world.task(&id).await.is_done(), "its date has come");
    }
}

/// Nor is it overtaken by what comes later.
#[test]
fn what_was_queued_before_a_restart_does_not_wait_for_a_clock_that_was_set_back() {
    let (directory, clock) = home();
    let queued = Process::run(directory.path(), &clock, async |world| {
        let (engine, mut runs) = world.with_slots(1).scripted().await;
        let first = engine.create(engine.call("a")).await.unwrap();
        runs.next().await;
        let second = engine.create(engine.call("a")).await.unwrap();
        [first.id.clone(), second.id.clone()]
    });
    clock.jump(-HOUR);
    Process::run(directory.path(), &clock, async |world| {
        let (engine, mut runs) = world.with_slots(1).scripted().await;
        clock.advance(1);
        let newer = engine.create(engine.call("a")).await.unwrap();
        assert!(newer.id > queued[1], "ids go on in order");
        let mut order = Vec::new();
        for _ in 0..3 {
            let run = runs.next().await;
            order.push(run.attempt.task.clone());
            run.finish("done");
        }
        assert_eq!(order, [&queued[..], std::slice::from_ref(&newer.id)].concat());
    });
}

/// What a person reads follows the clock that the person reads.
#[tokio::test]
async fn times_are_shown_as_the_world_s_clock_has_them() {
    let world = World::in_memory();
    let (engine, _runs) = world.scripted().await;
    let task = engine.create(engine.call("a")).await.unwrap();
    let shown = |engine: &Engine| engine.ports().clock.read().in_the_world(task.created_at);
    assert_eq!(shown(&engine), world.clock.now());
    for set in [HOUR, -2 * HOUR] {
        world.clock.jump(set);
        let before = world.clock.now();
        pass(&world, 4).await;
        assert_eq!(shown(&engine), before.min(shown(&engine)), "not in the future");
        assert!(before.since(shown(&engine)) < 10_000, "a few seconds ago");
    }
    let (id, now): (TaskId, _) = (task.id.clone(), engine.ports().clock.now());
    guarded("the task", async { assert!(world.task(&id).await.created_at <= now) }).await;
}

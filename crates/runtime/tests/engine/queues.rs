//! Slots, and the order in which tasks get them.

use crate::support::{CallOf, Run, Runs, Script, World, retry, settle, tool};
use longhaul_core::{
    AnsweredBy, Clock, Event, Failure, Json, Outcome, RetryOn, State, Task, TaskId, push_timestamp, store::Change,
};
use longhaul_runtime::{Call, Engine, ExecutionEnd, Executor, Provider, ToolSettings};
use proptest::prelude::*;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

#[tokio::test]
async fn a_task_waits_for_a_slot_at_most_its_queue_timeout() {
    let world = World::in_memory().with_slots(1);
    let (engine, mut runs) = world.playing(|tool| tool.queue_timeout = Some(10_000)).await;
    let first = engine.create(engine.call("a")).await.unwrap();
    let second = engine.create(engine.call("a")).await.unwrap();
    world.clock.sleeper(10_000).await;
    world.clock.advance(9_999);
    settle().await;
    assert_eq!(world.state(&second.id).await, State::Queued);
    world.clock.advance(1);
    let expected = Outcome::from(Failure::QueueTimeout);
    assert_eq!(world.outcome(&engine, &second.id).await, expected);
    // It does not run out for work that runs.
    assert_eq!(world.state(&first.id).await, State::Running);
    runs.next().await.finish("done");
    world.outcome(&engine, &first.id).await;
    settle().await;
    assert!(runs.started().is_none());
}

/// Of a principal that nobody is any more nothing begins. What has begun is tried again.
#[tokio::test]
async fn a_queued_call_does_not_begin_when_nobody_is_its_principal_any_more() {
    let withdrawn = Arc::new(AtomicBool::new(false));
    let mut world = World::in_memory().with_slots(1);
    let asked = Arc::clone(&withdrawn);
    world.may_begin = Some(Arc::new(move |_| !asked.load(Ordering::SeqCst)));
    let (engine, mut runs) = world
        .playing(|tool| tool.retry = retry(2, 30_000, [RetryOn::Crash]))
        .await;
    let begun = engine.create(engine.call("a")).await.unwrap();
    let run = runs.next().await;
    let queued = engine.create(engine.call("a")).await.unwrap();
    let plain = engine.begin(engine.call("a")).await.unwrap();
    let keyed = Call {
        idempotency_key: Some("k".into()),
        ..engine.call("a")
    };
    let keyed = engine.begin(keyed).await.unwrap();
    withdrawn.store(true, Ordering::SeqCst);
    run.end(ExecutionEnd::Crashed);
    for never in [&queued.id, plain.id(), keyed.id()] {
        assert_eq!(world.outcome(&engine, never).await, Outcome::Cancelled);
    }
    world.clock.sleeper(30_000).await;
    assert!(runs.started().is_none());
    world.clock.advance(30_000);
    runs.next().await.finish("done");
    assert_ne!(world.outcome(&engine, &begun.id).await, Outcome::Cancelled);
}

#[tokio::test]
async fn a_tool_at_its_own_limit_holds_up_no_other() {
    let world = World::in_memory().with_slots(2);
    let ((busy, mut busy_runs), (free, mut free_runs)) = (Script::new(), Script::new());
    let limited = ToolSettings {
        concurrency: Some(1),
        ..tool("busy", busy)
    };
    let engine = world.start([limited, tool("free", free)]).await;
    for _ in 0..3 {
        engine.create(engine.call("busy")).await.unwrap();
    }
    let _held = busy_runs.next().await;
    let task = engine.create(engine.call("free")).await.unwrap();
    assert_eq!(task.state, State::Running);
    free_runs.next().await.finish("done");
    world.outcome(&engine, &task.id).await;
    settle().await;
    assert!(busy_runs.started().is_none());
}

/// A queue whose claims fail is tried again after a pause, and only then: what a failed look gives back wakes nobody.
#[tokio::test]
async fn a_store_that_refuses_claims_is_not_asked_in_a_hot_loop() {
    let (world, store) = World::faulty();
    let world = world.with_slots(1);
    let (engine, mut runs) = world.scripted().await;
    let first = engine.create(engine.call("a")).await.unwrap();
    let second = engine.create(engine.call("a")).await.unwrap();
    store.be_full_for_claims(2);
    runs.next().await.finish("done");
    world.outcome(&engine, &first.id).await;
    for failed in 1..=2 {
        world.clock.sleeper(1_000).await;
        settle().await;
        assert_eq!(store.claims.load(std::sync::atomic::Ordering::SeqCst), failed);
        world.clock.advance(1_000);
    }
    runs.next().await.finish("done");
    world.outcome(&engine, &second.id).await;
}

/// A queue in which nothing is ready costs nothing until something is.
#[tokio::test]
async fn tasks_that_are_not_ready_are_not_asked_for() {
    let (world, store) = World::faulty();
    let (engine, mut runs) = world
        .playing(|tool| tool.retry = retry(2, 30_000, [longhaul_core::RetryOn::Crash]))
        .await;
    let waits = engine.create(engine.call("a")).await.unwrap();
    runs.next().await.end(longhaul_runtime::ExecutionEnd::Crashed);
    world.reaches(&engine, &waits.id, State::Queued).await;
    world.clock.sleeper(30_000).await;
    for _ in 0..10 {
        let task = engine.create(engine.call("a")).await.unwrap();
        assert_eq!(task.state, State::Running, "what waits for its time is in nobody's way");
        runs.next().await.finish("done");
        world.outcome(&engine, &task.id).await;
        settle().await;
    }
    assert_eq!(store.claims.load(std::sync::atomic::Ordering::SeqCst), 0);
    world.clock.advance(30_000);
    assert_eq!(runs.next().await.attempt.task, waits.id);
}

/// Runs what tools that are offered no longer have left behind.
struct Revived(Arc<Script>);

impl Provider for Revived {
    fn kind(&self) -> &'static str {
        "script"
    }

    fn revive(&self, _definition: &Json) -> Result<Arc<dyn Executor>, String> {
        Ok(self.0.clone())
    }
}

/// Its newest limit, over a restart or not; the definitions under which its tasks were created do not count.
#[tokio::test]
async fn a_tool_that_was_removed_keeps_its_limit() {
    for restarted in [true, false] {
        let (script, mut runs) = Script::new();
        let mut world = World::in_memory();
        world.providers = vec![Arc::new(Revived(script.clone()))];
        let limited = |most| ToolSettings {
            concurrency: most,
            ..tool("a", script.clone())
        };
        let old = world.start([limited(Some(3)), tool("b", Script::new().0)]).await;
        old.put_tool(longhaul_runtime::Tool::new(limited(Some(1))).unwrap())
            .await
            .unwrap();
        for _ in 0..4 {
            old.create(old.call("a")).await.unwrap();
        }
        let first = runs.next().await;
        let engine = if restarted {
            old.stop();
            drop(first);
            let engine = world.start([tool("b", Script::new().0)]).await;
            let again = runs.next().await;
            assert!(again.resumed);
            again.finish("done");
            engine
        } else {
            assert!(old.remove_tool("a"));
            first.finish("done");
            old
        };
        for _ in 0..3 {
            let run = runs.next().await;
            settle().await;
            assert!(runs.started().is_none(), "one at a time");
            assert_eq!(engine.running(), 1);
            run.finish("done");
        }
    }
}

/// A poll says it; nothing of it is stored.
#[tokio::test]
async fn a_queued_task_shows_what_it_waits_for() {
    let world = World::in_memory().with_slots(1);
    let (engine, mut runs) = world
        .playing(|tool| tool.retry = retry(3, 10_000, [RetryOn::Error]))
        .await;
    let mut tasks = Vec::new();
    for _ in 0..104 {
        tasks.push(engine.create(engine.call("a")).await.unwrap().id.clone());
        world.clock.advance(1);
    }
    let said = async |nth: usize| {
        let task = world.task(&tasks[nth]).await;
        let failed = (nth == 0).then_some("attempt 1 failed: no");
        assert!([None, failed].contains(&task.status.as_deref()), "{:?}", task.status);
        engine.queue_wait(&task).await.unwrap().map(|said| said.to_string())
    };
    assert_eq!(said(0).await, None, "it runs");
    for (nth, words) in [
        (1, "queued"),
        (2, "queued behind 1 of your tasks"),
        (4, "queued behind 3 of your tasks"),
        (101, "queued behind 100 of your tasks"),
        (102, "queued behind over 100 of your tasks"),
        (103, "queued behind over 100 of your tasks"),
    ] {
        assert_eq!(said(nth).await.as_deref(), Some(words));
    }
    let now = world.clock.now();
    runs.next().await.end(ExecutionEnd::Errored(Outcome::tool_error("no")));
    runs.next().await;
    let mut at = String::new();
    push_timestamp(&mut at, now.plus(10_000));
    assert_eq!(said(0).await, Some(format!("attempt 2 of 3, next try at {at}")));
    assert_eq!(said(2).await.as_deref(), Some("queued"));
}

const SLOTS: usize = 3;
/// Limits of the tools, by number.
const LIMITS: [Option<usize>; 3] = [Some(1), Some(2), None];

#[derive(Debug, Clone)]
enum Action {
    Create(usize),
    /// Several creates at the same moment.
    Burst(usize, usize),
    Finish(prop::sample::Index),
    Park(prop::sample::Index),
    Answer(prop::sample::Index),
    Cancel(prop::sample::Index),
    Wait,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (0..3usize).prop_map(Action::Create),
        1 => (0..3usize, 2..5usize).prop_map(|(tool, count)| Action::Burst(tool, count)),
        5 => any::<prop::sample::Index>().prop_map(Action::Finish),
        2 => any::<prop::sample::Index>().prop_map(Action::Park),
        2 => any::<prop::sample::Index>().prop_map(Action::Answer),
        1 => any::<prop::sample::Index>().prop_map(Action::Cancel),
        1 => Just(Action::Wait),
    ]
}

type Asked = tokio::sync::oneshot::Receiver<Result<Json, longhaul_runtime::AskError>>;

/// What the test knows, beside what the store says.
struct Model {
    world: World,
    engine: Engine,
    runs: Vec<Runs>,
    open: BTreeMap<TaskId, Run>,
    /// Those that have asked and not gone on: they hold no slot.
    asking: BTreeMap<TaskId, Asked>,
    created: Vec<TaskId>,
    /// The last task of each tool that was started.
    last: [Option<TaskId>; 3],
    /// For each tool that waits for a slot it could have, how often each tool got one since.
    passed: [Option<[usize; 3]>; 3],
}

impl Model {
    async fn new() -> Self {
        let world = World::in_memory().with_slots(SLOTS);
        let mut runs = Vec::new();
        let tools: Vec<ToolSettings> = (LIMITS.iter().enumerate())
            .map(|(number, limit)| {
                let (script, started) = Script::new();
                runs.push(started);
                ToolSettings {
                    concurrency: *limit,
                    ..tool(&number.to_string(), script)
                }
            })
            .collect();
        let engine = world.start(tools).await;
        Self {
            world,
            engine,
            runs,
            open: BTreeMap::new(),
            asking: BTreeMap::new(),
            created: Vec::new(),
            last: [const { None }; 3],
            passed: [None; 3],
        }
    }

    async fn take(&mut self, action: &Action) {
        match action {
            Action::Create(tool) => self.create(*tool, 1).await,
            Action::Burst(tool, count) => self.create(*tool, *count).await,
            Action::Finish(index) => {
                if let Some(id) = pick(index, self.open.keys()) {
                    self.asking.remove(&id);
                    self.open.remove(&id).unwrap().finish("done");
                }
            }
            Action::Park(index) => {
                if let Some(id) = pick(index, self.open.keys())
                    && !self.asking.contains_key(&id)
                {
                    let asked = self.open[&id].ask("what?");
                    self.asking.insert(id, asked);
                }
            }
            Action::Answer(index) => {
                if let Some(id) = pick(index, self.open.keys()) {
                    self.answer(&id).await;
                }
            }
            Action::Cancel(index) => {
                if let Some(id) = pick(index, self.created.iter()) {
                    self.cancel(&id).await;
                }
            }
            Action::Wait => self.world.clock.advance(1),
        }
        settle().await;
    }

    async fn create(&mut self, tool: usize, count: usize) {
        let calls = (0..count).map(|_| self.engine.create(self.engine.call(&tool.to_string())));
        for created in futures_util::future::join_all(calls).await {
            self.created.push(created.unwrap().id.clone());
        }
    }

    async fn answer(&self, id: &TaskId) {
        for key in self.world.task(id).await.open_inputs {
            let event = Event::InputAnswered {
                key,
                answer: Json::trusted("1"),
                by: AnsweredBy::Client,
            };
            let at = self.world.task(id).await.updated_at;
            self.world.store.apply(Change::of(id, event, at)).await.unwrap();
        }
    }

    /// Cancels queued tasks only; cancelling running work is tested elsewhere.
    async fn cancel(&self, id: &TaskId) {
        if self.world.state(id).await == State::Queued {
            let mode = longhaul_core::CancelMode::Cooperative;
            self.engine.cancel(&crate::support::scope(), id, mode).await.unwrap();
        }
    }

    /// What must hold whenever everything that can run has run.
    async fn check(&mut self) -> Result<(), TestCaseError> {
        let mut tasks: Vec<Task> = Vec::new();
        for id in &self.created {
            tasks.push(self.world.task(id).await);
        }
        self.asking.retain(|_, asked| asked.try_recv().is_err());
        let number = |task: &Task| task.tool.parse::<usize>().unwrap();
        let in_state = |tool: usize, state: State| {
            (tasks.iter())
                .filter(|task| number(task) == tool && task.state == state && !self.asking.contains_key(&task.id))
                .count()
        };
        let running: Vec<usize> = (0..3).map(|tool| in_state(tool, State::Running)).collect();
        let all: usize = running.iter().sum();
        prop_assert!(all <= SLOTS, "{all} run at once");
        for tool in 0..3 {
            let below = LIMITS[tool].is_none_or(|limit| running[tool] < limit);
            prop_assert!(
                LIMITS[tool].is_none_or(|limit| running[tool] <= limit),
                "tool {} runs {}",
                tool,
                running[tool]
            );
            let waits = in_state(tool, State::Queued) > 0;
            prop_assert!(!(waits && below && all < SLOTS), "tool {tool} waits beside a free slot");
            let returns = (tasks.iter())
                .any(|task| number(task) == tool && self.asking.contains_key(&task.id) && task.open_inputs.is_empty());
            prop_assert!(
                !(returns && below && all < SLOTS),
                "an answered task of tool {tool} waits beside a free slot"
            );
        }
        self.check_starts(&tasks, &running)
    }

    fn check_starts(&mut self, tasks: &[Task], running: &[usize]) -> Result<(), TestCaseError> {
        for tool in 0..3 {
            while let Some(run) = self.runs[tool].started() {
                let id = run.attempt.task.clone();
                prop_assert!(
                    self.last[tool].as_ref() < Some(&id),
                    "tool {tool} starts its tasks in order"
                );
                self.last[tool] = Some(id.clone());
                self.open.insert(id, run);
                self.passed[tool] = None;
                for (other, passed) in self.passed.iter_mut().enumerate() {
                    let Some(passed) = passed else { continue };
                    passed[tool] += 1;
                    prop_assert!(passed[tool] <= 1, "tool {tool} passes tool {other} twice");
                }
            }
        }
        for tool in 0..3 {
            let waits = (tasks.iter()).any(|task| *task.tool == *tool.to_string() && task.state == State::Queued);
            let could = LIMITS[tool].is_none_or(|limit| running[tool] < limit);
            if waits && could {
                self.passed[tool].get_or_insert([0; 3]);
            } else {
                self.passed[tool] = None;
            }
        }
        Ok(())
    }

    /// Nobody starves: whatever is left ends as slots come free.
    async fn drain(&mut self) -> Result<(), TestCaseError> {
        loop {
            settle().await;
            self.check().await?;
            let Some(id) = self.open.keys().next().cloned() else {
                break;
            };
            self.answer(&id).await;
            settle().await;
            self.open.remove(&id).unwrap().finish("done");
        }
        for id in &self.created {
            prop_assert!(self.world.task(id).await.is_done());
        }
        let free = self.engine.create(self.engine.call("2")).await.unwrap();
        prop_assert_eq!(free.state, State::Running, "all slots came back");
        Ok(())
    }
}

fn pick<'a>(index: &prop::sample::Index, ids: impl ExactSizeIterator<Item = &'a TaskId>) -> Option<TaskId> {
    let ids: Vec<&TaskId> = ids.collect();
    (!ids.is_empty()).then(|| index.get(&ids).to_owned().clone())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn slots_are_never_exceeded_never_idle_and_given_in_turn(actions in proptest::collection::vec(action(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut model = Model::new().await;
            for action in &actions {
                model.take(action).await;
                model.check().await?;
            }
            model.drain().await
        })?;
    }
}

#[tokio::test]
async fn thousands_of_tools_wait_in_turn() {
    let world = World::in_memory().with_slots(1);
    let (script, mut runs) = Script::new();
    let tools: Vec<ToolSettings> = (0..2_000)
        .map(|number| tool(&number.to_string(), Arc::clone(&script) as _))
        .collect();
    let engine = world.start(tools).await;
    for number in 0..2_000 {
        engine.create(engine.call(&number.to_string())).await.unwrap();
    }
    for number in 0..2_000 {
        let run = runs.next().await;
        assert_eq!(*world.task(&run.attempt.task).await.tool, *number.to_string());
        run.finish("done");
    }
}

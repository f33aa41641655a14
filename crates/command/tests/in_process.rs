//! Functions in this process, behind a real engine.
#![allow(clippy::unwrap_used)]

use longhaul_command::in_process::{self, function};
use longhaul_core::{
    BoxFuture, CancelMode, Clock, HostId, Json, Millis, Origin, Outcome, Owner, Principal, Retry, RetryOn, Scope,
    StopReason, Task, TaskPolicy, UnixMillis, text_result,
};
use longhaul_runtime::{
    Call, Catalog, Engine, EngineOptions, ExecutionEnd, Executor, Ports, TaskContext, Tool, ToolSettings,
};
use longhaul_store::MemoryStore;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::Semaphore;

fn scope() -> Scope {
    Scope::of(Principal::local())
}

fn says(words: &str) -> Outcome {
    Outcome::result(text_result(words, false))
}

/// Only a guard against hanging.
async fn guarded<T>(engine: &Engine, future: impl Future<Output = T>) -> T {
    let waited = engine.ports().within(Duration::from_secs(60), future).await;
    waited.expect("what is waited for comes")
}

/// The system's clock, but for the grace, which is over when the test says so.
struct GraceClock {
    system: Arc<dyn Clock>,
    over: Arc<Semaphore>,
}

impl Clock for GraceClock {
    fn now(&self) -> UnixMillis {
        self.system.now()
    }

    fn monotonic(&self) -> Duration {
        self.system.monotonic()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration != Duration::from_secs(10) {
            return self.system.sleep(duration);
        }
        let over = Arc::clone(&self.over);
        Box::pin(async move { over.acquire().await.unwrap().forget() })
    }
}

async fn serve(executor: Arc<dyn Executor>, retry: Retry, deadline: Option<Millis>) -> Engine {
    serve_on(Ports::system(), executor, retry, deadline).await
}

async fn serve_on(ports: Ports, executor: Arc<dyn Executor>, retry: Retry, deadline: Option<Millis>) -> Engine {
    let tool = Tool::new(ToolSettings {
        policy: TaskPolicy::Always,
        deadline,
        retry,
        ..ToolSettings::new("it", in_process::KIND, Json::trusted("{}"), executor)
    });
    let options = EngineOptions {
        store: Arc::new(MemoryStore::new()),
        ports,
        node: HostId("here".into()).into(),
        lost_after: longhaul_runtime::HOST_LOST_AFTER,
        catalog: Catalog::new([tool.unwrap()]).unwrap(),
        providers: Vec::new(),
        max_running: Some(1),
        quota: longhaul_core::Quota::default(),
        suspend_after: longhaul_runtime::SUSPEND_AFTER,
        build: longhaul_runtime::BuildId::named("test"),
        step_observer: None,
        may_begin: None,
        cipher: None,
    };
    Engine::start(options).await.unwrap().0
}

async fn create(engine: &Engine, arguments: &str) -> Task {
    let call = Call {
        tool: engine.catalog().tool("it").unwrap(),
        arguments: Json::parse(arguments).unwrap(),
        owner: Owner {
            principal: Principal::local(),
            session: None,
        },
        origin: Origin::Modern,
        requestor: Arc::default(),
        idempotency_key: None,
        ttl: None,
        priority: None,
        cancel_if_caller_leaves: true,
    };
    engine.create(call).await.unwrap()
}

async fn outcome(engine: &Engine, task: &Task) -> Outcome {
    let ended = async {
        let mut watch = engine.watch(&task.id);
        loop {
            let record = engine.get(&scope(), &task.id).await.unwrap().unwrap();
            if let Some(outcome) = record.outcome {
                return outcome;
            }
            watch.changed().await;
        }
    };
    guarded(engine, ended).await
}

#[tokio::test]
async fn a_function_is_given_its_arguments_as_they_came() {
    let echo = function(|arguments, _cx| async move { ExecutionEnd::Finished(says(arguments.as_str())) });
    assert!(!echo.host_bound());
    let engine = serve(echo, Retry::default(), None).await;
    let arguments = r#"{ "b": 1.50,  "a" : [] }"#;
    let task = create(&engine, arguments).await;
    assert_eq!(outcome(&engine, &task).await, says(arguments));
}

/// Both where the future is made and where it runs.
#[tokio::test]
async fn a_panic_fails_the_attempt_and_the_policy_decides() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let clumsy = function(move |_arguments, _cx: TaskContext| {
        let call = counted.fetch_add(1, Ordering::SeqCst);
        assert!(call != 0, "at once");
        async move {
            assert!(call != 1, "on the way");
            ExecutionEnd::Finished(says("third time lucky"))
        }
    });
    let retry = Retry {
        attempts: 3,
        backoff: 0,
        on: vec![RetryOn::Error],
    };
    let engine = serve(clumsy, retry, None).await;
    let task = create(&engine, "{}").await;
    assert_eq!(outcome(&engine, &task).await, says("third time lucky"));
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_function_is_told_to_stop_and_says_why_it_did() {
    let begun = Arc::new(Semaphore::new(0));
    let begins = Arc::clone(&begun);
    let polite = function(move |_arguments, cx| {
        begins.add_permits(1);
        async move { ExecutionEnd::Stopped(cx.stopped().await) }
    });
    let engine = serve(Arc::clone(&polite), Retry::default(), None).await;
    let task = create(&engine, "{}").await;
    guarded(&engine, begun.acquire()).await.unwrap().forget();
    engine
        .cancel(&scope(), &task.id, CancelMode::Cooperative)
        .await
        .unwrap();
    assert_eq!(outcome(&engine, &task).await, Outcome::Cancelled);

    let engine = serve(polite, Retry::default(), Some(20)).await;
    let task = create(&engine, "{}").await;
    assert_eq!(outcome(&engine, &task).await, Outcome::deadline_passed(20));
}

/// One that does not listen is dropped after the grace; its slot goes to the next.
#[tokio::test]
async fn a_function_that_ignores_a_stop_is_dropped_in_the_end() {
    let begun = Arc::new(Semaphore::new(0));
    let begins = Arc::clone(&begun);
    let stubborn = function(move |_arguments, _cx| {
        begins.add_permits(1);
        std::future::pending()
    });
    let system = Ports::system();
    let over = Arc::new(Semaphore::new(0));
    let clock = GraceClock {
        system: Arc::clone(&system.clock),
        over: Arc::clone(&over),
    };
    let ports = Ports {
        clock: Arc::new(clock),
        ..system
    };
    let engine = serve_on(ports, stubborn, Retry::default(), None).await;
    let task = create(&engine, "{}").await;
    guarded(&engine, begun.acquire()).await.unwrap().forget();
    let next = create(&engine, "{}").await;
    let mode = CancelMode::Cooperative;
    let stopping = engine.cancel(&scope(), &task.id, mode).await.unwrap();
    assert!(!stopping.is_done(), "it has its grace");
    over.add_permits(1);
    assert_eq!(outcome(&engine, &task).await, Outcome::Cancelled);
    guarded(&engine, begun.acquire()).await.unwrap().forget();
    engine.cancel(&scope(), &next.id, CancelMode::AtOnce).await.unwrap();
}

/// What a function does after it was asked to stop still counts if it is an answer.
#[tokio::test]
async fn a_function_may_finish_all_the_same() {
    let begun = Arc::new(Semaphore::new(0));
    let begins = Arc::clone(&begun);
    let tidy = function(move |_arguments, cx| {
        begins.add_permits(1);
        async move {
            assert_eq!(cx.stopped().await, StopReason::Cancel);
            ExecutionEnd::Finished(says("tidied up"))
        }
    });
    let engine = serve(tidy, Retry::default(), None).await;
    let task = create(&engine, "{}").await;
    guarded(&engine, begun.acquire()).await.unwrap().forget();
    engine
        .cancel(&scope(), &task.id, CancelMode::Cooperative)
        .await
        .unwrap();
    assert_eq!(outcome(&engine, &task).await, says("tidied up"));
}

//! Questions that another client answers while this one asks the user.
#![expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]

use crate::{
    peer::{Peer, event_stream, legacy, modern, plain},
    task::{created, legacy_task, modern_task},
};
use longhaul_client::{
    CallResponse, ClientCapabilities, InputHandler, InputRequest, InputResponse, RpcFailure, SystemClock, TaskHandle,
};
use longhaul_core::{BoxFuture, Clock, UnixMillis};
use serde_json::{Map, Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Semaphore, mpsc::unbounded_channel};

const PATIENCE: Duration = Duration::from_secs(60);

/// Somebody who answers when they may.
struct Slow {
    asked: Semaphore,
    may_answer: Arc<Semaphore>,
    withdrawn: Arc<Semaphore>,
    late: Semaphore,
}

impl Default for Slow {
    fn default() -> Self {
        Self {
            asked: Semaphore::new(0),
            may_answer: Arc::new(Semaphore::new(0)),
            withdrawn: Arc::new(Semaphore::new(0)),
            late: Semaphore::new(0),
        }
    }
}

/// Tells when it is dropped, because the answer is not wanted any more.
struct Withdrawal(Arc<Semaphore>);

impl Drop for Withdrawal {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

impl InputHandler for Slow {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            elicitation_form: true,
            ..ClientCapabilities::default()
        }
    }

    fn answer(&self, _: InputRequest) -> BoxFuture<'static, Result<InputResponse, RpcFailure>> {
        let (may_answer, withdrawal) = (Arc::clone(&self.may_answer), Withdrawal(Arc::clone(&self.withdrawn)));
        self.asked.add_permits(1);
        Box::pin(async move {
            may_answer.acquire().await.unwrap().forget();
            std::mem::forget(withdrawal);
            Ok(InputResponse::accept(json!({})))
        })
    }

    fn not_taken(&self, _: &InputRequest) {
        self.late.add_permits(1);
    }
}

async fn once(happened: &Semaphore) {
    let happened = tokio::time::timeout(PATIENCE, happened.acquire()).await;
    happened.expect("bounded time").unwrap().forget();
}

/// A task that asks until another client answers, and then works on.
#[derive(Default)]
struct Asking {
    is_answered: AtomicBool,
    has_ended: AtomicBool,
    polls: AtomicUsize,
    /// In milliseconds.
    interval: AtomicU64,
}

impl Asking {
    fn status(&self) -> &'static str {
        match (
            self.has_ended.load(Ordering::SeqCst),
            self.is_answered.load(Ordering::SeqCst),
        ) {
            (true, _) => "completed",
            (_, true) => "working",
            _ => "input_required",
        }
    }

    /// Waits for so many more polls.
    async fn polled(&self, more: usize) {
        let seen = self.polls.load(Ordering::SeqCst);
        while self.polls.load(Ordering::SeqCst) < seen + more {
            tokio::task::yield_now().await;
        }
    }
}

fn legacy_peer(task: &Arc<Asking>) -> Peer {
    let (task, streams) = (Arc::clone(task), std::sync::Mutex::new(Vec::new()));
    legacy(json!({"requests": {"tools": {"call": {}}}}), move |seen| {
        let interval = task.interval.load(Ordering::SeqCst);
        let now = || legacy_task(task.status(), json!({"pollInterval": interval}));
        match seen.method() {
            "tools/call" => seen.result(json!({"task": now()})),
            "tasks/get" => {
                let answer = seen.result(now());
                // Only now: what a test changes after this poll is in the next answer.
                task.polls.fetch_add(1, Ordering::SeqCst);
                answer
            }
            "tasks/result" if task.has_ended.load(Ordering::SeqCst) => seen.result(json!({"content": []})),
            "tasks/result" => {
                let (sender, receiver) = unbounded_channel();
                let question = json!({"jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create", "params": {
                    "message": "Proceed?", "requestedSchema": {"type": "object", "properties": {}},
                    "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t-1"}},
                }});
                sender.send(format!("data: {question}\n\n")).unwrap();
                streams.lock().unwrap().push(sender);
                event_stream(receiver)
            }
            "" if seen.verb == "POST" => plain(202, ""),
            _ => plain(405, ""),
        }
    })
}

/// A clock that is ahead by as many milliseconds as a test says.
struct AheadClock(Arc<AtomicU64>);

impl Clock for AheadClock {
    fn now(&self) -> UnixMillis {
        SystemClock.now()
    }

    fn monotonic(&self) -> Duration {
        SystemClock.monotonic() + Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        SystemClock.sleep(duration)
    }
}

async fn call(peer: &Peer, user: &Arc<Slow>) -> TaskHandle {
    call_by(peer, user, Arc::new(SystemClock)).await
}

async fn call_by(peer: &Peer, user: &Arc<Slow>, clock: Arc<dyn Clock>) -> TaskHandle {
    let (connection, _) = peer.connection_with(|options| {
        options.clock = clock;
        options.inputs = Some(user.clone());
    });
    let tools = connection.list_tools().await.unwrap();
    let tool = tools.iter().find(|tool| tool.name == "optional").unwrap_or(&tools[0]);
    match connection.call_tool(tool, &Map::new(), &mut |_| {}).await.unwrap() {
        CallResponse::Task(task) => task,
        CallResponse::Done(outcome) => panic!("{outcome:?}"),
    }
}

fn responses(peer: &Peer) -> usize {
    let is_response = |body: &Value| body["method"].is_null() && !body["result"].is_null();
    peer.seen().iter().filter(|seen| is_response(&seen.body)).count()
}

/// A legacy server says so only by the status of the task.
#[tokio::test]
async fn the_question_of_a_legacy_task_that_asks_no_more_is_withdrawn() {
    let (task, user) = (Arc::new(Asking::default()), Arc::new(Slow::default()));
    task.interval.store(20, Ordering::SeqCst);
    let peer = legacy_peer(&task);
    let handle = call(&peer, &user).await;
    let waiting = tokio::spawn(async move { handle.wait(&mut |_| {}).await });
    once(&user.asked).await;
    // It is seen that the task asks.
    task.polled(2).await;
    assert_eq!(user.withdrawn.available_permits(), 0);
    task.is_answered.store(true, Ordering::SeqCst);
    once(&user.withdrawn).await;
    task.has_ended.store(true, Ordering::SeqCst);
    waiting.await.unwrap().unwrap();
    assert_eq!(responses(&peer), 0);
}

/// Nothing is sent, and the user hears of it.
#[tokio::test]
async fn an_answer_to_a_legacy_task_that_asks_no_more_is_not_sent() {
    let (task, user) = (Arc::new(Asking::default()), Arc::new(Slow::default()));
    task.interval.store(20, Ordering::SeqCst);
    let peer = legacy_peer(&task);
    let handle = call(&peer, &user).await;
    let waiting = tokio::spawn(async move { handle.wait(&mut |_| {}).await });
    once(&user.asked).await;
    task.polled(2).await;
    // The next poll but one comes in an hour.
    task.interval.store(3_600_000, Ordering::SeqCst);
    task.polled(1).await;
    task.is_answered.store(true, Ordering::SeqCst);
    user.may_answer.add_permits(1);
    once(&user.late).await;
    assert_eq!(responses(&peer), 0);
    waiting.abort();
}

/// A modern server ignores an answer to what is not asked any more, so the client looks first.
#[tokio::test]
async fn a_late_answer_to_a_modern_task_that_asks_no_more_is_not_sent() {
    let (task, user) = (Arc::new(Asking::default()), Arc::new(Slow::default()));
    task.interval.store(3_600_000, Ordering::SeqCst);
    let state = Arc::clone(&task);
    let peer = modern(move |seen| {
        let interval = state.interval.load(Ordering::SeqCst);
        let questions = json!({"q": {"method": "elicitation/create", "params": {
            "message": "Proceed?", "requestedSchema": {"type": "object", "properties": {}},
        }}});
        let more = json!({"pollIntervalMs": interval, "result": {"content": []}});
        match (seen.method(), state.status()) {
            ("tools/call", _) => seen.result(created()),
            ("tasks/get", status @ "input_required") => seen.result(modern_task(
                status,
                json!({"pollIntervalMs": interval, "inputRequests": questions}),
            )),
            ("tasks/get", status) => seen.result(modern_task(status, more)),
            _ => seen.error(404, -32601, Value::Null),
        }
    });
    let ahead = Arc::new(AtomicU64::new(0));
    let handle = call_by(&peer, &user, Arc::new(AheadClock(Arc::clone(&ahead)))).await;
    let waiting = tokio::spawn(async move { handle.wait(&mut |_| {}).await });
    once(&user.asked).await;
    task.is_answered.store(true, Ordering::SeqCst);
    ahead.store(60_000, Ordering::SeqCst);
    user.may_answer.add_permits(1);
    once(&user.late).await;
    assert_eq!(peer.calls_of("tasks/update").len(), 0);
    task.has_ended.store(true, Ordering::SeqCst);
    waiting.abort();
}

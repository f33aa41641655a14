use longhaul_core::{BoxFuture, Json, Outcome, StopReason, text_result};
use longhaul_runtime::{ExecutionEnd, Executor, ExecutorAttempt, Question, TaskContext};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// An executor whose attempts the test plays by hand.
pub(crate) struct Script {
    starts: mpsc::UnboundedSender<Run>,
    host_bound: bool,
    asks_again: bool,
}

/// The attempts that were started, in order.
pub(crate) struct Runs(mpsc::UnboundedReceiver<Run>);

/// One attempt. It ends as the test says; dropped, it never ends by itself.
pub(crate) struct Run {
    pub(crate) attempt: ExecutorAttempt,
    pub(crate) cx: TaskContext,
    pub(crate) resumed: bool,
    finish: oneshot::Sender<Act>,
}

enum Act {
    End(ExecutionEnd),
    Panic,
}

impl Script {
    pub(crate) fn new() -> (Arc<Self>, Runs) {
        Self::bound(false)
    }

    /// One whose work lives outside the process.
    pub(crate) fn bound(host_bound: bool) -> (Arc<Self>, Runs) {
        Self::with(host_bound, false)
    }

    /// One whose attempts ask again what those before them asked.
    pub(crate) fn asking_again() -> (Arc<Self>, Runs) {
        Self::with(false, true)
    }

    fn with(host_bound: bool, asks_again: bool) -> (Arc<Self>, Runs) {
        let (starts, started) = mpsc::unbounded_channel();
        let script = Self {
            starts,
            host_bound,
            asks_again,
        };
        (Arc::new(script), Runs(started))
    }

    fn play(
        self: Arc<Self>,
        attempt: ExecutorAttempt,
        cx: TaskContext,
        resumed: bool,
    ) -> BoxFuture<'static, ExecutionEnd> {
        let (finish, act) = oneshot::channel();
        let _ = self.starts.send(Run {
            attempt,
            cx,
            resumed,
            finish,
        });
        Box::pin(async move {
            match act.await {
                Ok(Act::End(end)) => end,
                Ok(Act::Panic) => panic!("as the script says"),
                Err(_) => std::future::pending().await,
            }
        })
    }
}

impl Executor for Script {
    fn host_bound(&self) -> bool {
        self.host_bound
    }

    fn asks_again(&self) -> bool {
        self.asks_again
    }

    fn run(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        self.play(attempt, cx, false)
    }

    fn resume(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        self.play(attempt, cx, true)
    }
}

impl Runs {
    pub(crate) async fn next(&mut self) -> Run {
        super::guarded("an attempt to start", self.0.recv()).await.unwrap()
    }

    /// The next one, if it has started already.
    pub(crate) fn started(&mut self) -> Option<Run> {
        self.0.try_recv().ok()
    }
}

impl Run {
    /// Whether the engine has dropped the work.
    pub(crate) fn is_dropped(&self) -> bool {
        self.finish.is_closed()
    }

    pub(crate) fn end(self, end: ExecutionEnd) {
        let _ = self.finish.send(Act::End(end));
    }

    pub(crate) fn finish(self, words: &str) {
        self.end(ExecutionEnd::Finished(text(words)));
    }

    /// Stops, as it is asked to for this reason.
    pub(crate) async fn stops(self, reason: StopReason) {
        assert_eq!(super::guarded("the stop", self.cx.stopped()).await, reason);
        self.end(ExecutionEnd::Stopped(reason));
    }

    pub(crate) fn panic(self) {
        let _ = self.finish.send(Act::Panic);
    }

    /// Asks a question beside the work, which goes on.
    pub(crate) fn ask(&self, words: &str) -> oneshot::Receiver<Result<Json, longhaul_runtime::AskError>> {
        let request = Json::from(serde_json::json!({"method": words}));
        self.put(Question::new(request))
    }

    /// As [`ask`](Self::ask), by a name.
    pub(crate) fn ask_named(&self, name: &str) -> oneshot::Receiver<Result<Json, longhaul_runtime::AskError>> {
        self.put(Question {
            name: Some(name.into()),
            ..Question::new(Json::from(serde_json::json!({"method": name})))
        })
    }

    fn put(&self, question: Question) -> oneshot::Receiver<Result<Json, longhaul_runtime::AskError>> {
        let (tell, told) = oneshot::channel();
        let cx = self.cx.clone();
        self.cx.ports().spawner.spawn(Box::pin(async move {
            let _ = tell.send(cx.ask(question).await);
        }));
        told
    }
}

/// A good result that says `words`.
pub(crate) fn text(words: &str) -> Outcome {
    Outcome::result(text_result(words, false))
}

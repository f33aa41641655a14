use longhaul_core::{BoxFuture, Json, Outcome, text_result};
use longhaul_runtime::{Attempt, End, Executor, TaskContext};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// An executor whose attempts the test plays by hand.
pub(crate) struct Script {
    starts: mpsc::UnboundedSender<Run>,
    host_bound: bool,
}

/// The attempts that were started, in order.
pub(crate) struct Runs(mpsc::UnboundedReceiver<Run>);

/// One attempt. It ends as the test says; dropped, it never ends by itself.
pub(crate) struct Run {
    pub(crate) attempt: Attempt,
    pub(crate) cx: TaskContext,
    pub(crate) resumed: bool,
    finish: oneshot::Sender<Act>,
}

enum Act {
    End(End),
    Panic,
}

impl Script {
    pub(crate) fn new() -> (Arc<Self>, Runs) {
        Self::bound(false)
    }

    /// One whose work lives outside the process.
    pub(crate) fn bound(host_bound: bool) -> (Arc<Self>, Runs) {
        let (starts, started) = mpsc::unbounded_channel();
        (Arc::new(Self { starts, host_bound }), Runs(started))
    }

    fn play(self: Arc<Self>, attempt: Attempt, cx: TaskContext, resumed: bool) -> BoxFuture<'static, End> {
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

    fn run(self: Arc<Self>, attempt: Attempt, cx: TaskContext) -> BoxFuture<'static, End> {
        self.play(attempt, cx, false)
    }

    fn resume(self: Arc<Self>, attempt: Attempt, cx: TaskContext) -> BoxFuture<'static, End> {
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
    pub(crate) fn end(self, end: End) {
        let _ = self.finish.send(Act::End(end));
    }

    pub(crate) fn finish(self, words: &str) {
        self.end(End::Finished(text(words)));
    }

    pub(crate) fn panic(self) {
        let _ = self.finish.send(Act::Panic);
    }

    /// Asks a question beside the work, which goes on.
    pub(crate) fn ask(&self, words: &str) -> oneshot::Receiver<Result<Json, longhaul_runtime::AskError>> {
        let (tell, told) = oneshot::channel();
        let (cx, request) = (self.cx.clone(), Json::from(serde_json::json!({"method": words})));
        self.cx.ports().spawner.spawn(Box::pin(async move {
            let _ = tell.send(cx.ask(request).await);
        }));
        told
    }
}

/// A good result that says `words`.
pub(crate) fn text(words: &str) -> Outcome {
    Outcome::result(text_result(words, false))
}

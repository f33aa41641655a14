//! Pauses of upstreams.

use crate::support::{CallOf, Script, World, settle, tool};
use longhaul_core::{BoxFuture, Json, State};
use longhaul_runtime::{ExecutionEnd, Executor, ExecutorAttempt, Provider, QueueWait, TaskContext, ToolSettings};
use std::sync::Arc;

const UPSTREAM: &str = "far";

/// A tool of an upstream, and what revives it when it is not offered.
#[derive(Clone)]
struct OfUpstream(Arc<Script>);

impl Executor for OfUpstream {
    fn upstream(&self) -> Option<&str> {
        Some(UPSTREAM)
    }

    fn run(self: Arc<Self>, attempt: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        Arc::clone(&self.0).run(attempt, cx)
    }
}

impl Provider for OfUpstream {
    fn kind(&self) -> &'static str {
        "script"
    }

    fn revive(&self, _definition: &Json) -> Result<Arc<dyn Executor>, String> {
        Ok(Arc::new(self.clone()))
    }
}

/// After a start an upstream's tools are not offered before it has listed them, and one that is away for long takes them along.
#[tokio::test]
async fn what_a_paused_upstream_does_not_offer_now_waits_too() {
    for restarted in [true, false] {
        let (script, mut runs) = Script::new();
        let (other_script, mut other_runs) = Script::new();
        let mut world = World::in_memory();
        world.providers = vec![Arc::new(OfUpstream(Arc::clone(&script)))];
        let of_upstream = ToolSettings {
            executor: Arc::new(OfUpstream(Arc::clone(&script))) as Arc<dyn Executor>,
            ..tool("a", script)
        };
        let mut engine = world.start([of_upstream, tool("b", other_script.clone())]).await;
        engine.set_upstream_paused(UPSTREAM, true).await.unwrap();
        let task = engine.create(engine.call("a")).await.unwrap();
        if restarted {
            engine.stop();
            engine = world.start([tool("b", other_script)]).await;
        } else {
            engine.remove_tool("a");
        }
        // Something else begins, so queues were looked at.
        engine.create(engine.call("b")).await.unwrap();
        other_runs.next().await.finish("done");
        settle().await;
        assert!(runs.started().is_none(), "restarted: {restarted}");
        let waiting = world.task(&task.id).await;
        assert_eq!(waiting.state, State::Queued);
        assert_eq!(engine.queue_wait(&waiting).await.unwrap(), Some(QueueWait::Paused));
        engine.set_upstream_paused(UPSTREAM, false).await.unwrap();
        assert_eq!(runs.next().await.attempt.task, task.id);
    }
}

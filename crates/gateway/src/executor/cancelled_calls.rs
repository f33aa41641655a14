//! Calls that an upstream was asked to cancel: what is known of them, and how long they are waited for.

use super::{PAUSE, SUBMIT_GRACE, UpstreamExecutor, may_become_task};
use crate::{
    Target,
    question::Registration,
    upstream::{Purpose, UpstreamConnection},
};
use longhaul_client::TaskSupport;
use longhaul_core::{Millis, whole_millis};
use longhaul_runtime::{STOP_GRACE, TaskContext};
use std::sync::Arc;

/// How long the upstream may take to cancel a call before its child is ended, in milliseconds.
const CANCEL_GRACE: u64 = 5_000;

impl UpstreamExecutor {
    /// The upstream was asked to cancel a call. No answer says whether it has, so its child is ended, if nothing else runs there.
    pub(crate) async fn end_cancelled(
        &self,
        connection: &Arc<UpstreamConnection>,
        registration: Registration,
        cx: &TaskContext,
    ) {
        let name = self.upstream.name();
        self.tell_cancelled(cx, match self.purpose == Purpose::Submit {
            true => format!(
                "upstream `{name}` was asked to cancel the call that submits the job; it has not named a job, and one may go on"
            ),
            false => format!("upstream `{name}` was asked to cancel the call; it is not known whether it has"),
        });
        let options = self.upstream.options();
        // Jobs run in the child between the calls that ask for their state.
        if !matches!(options.target, Target::Command(_)) || !options.jobs.is_empty() {
            return;
        }
        // Another call waits for the connection.
        let grace = if registration.asker.is_given_up() {
            0
        } else {
            CANCEL_GRACE
        };
        // From now on it counts as given up.
        drop(registration);
        self.upstream.pause(grace).await;
        self.tell_cancelled(cx, match self.upstream.connections.end_child(connection) {
            true => format!("the call was cancelled: its process of upstream `{name}` was ended, in which nothing else ran"),
            false => format!(
                "upstream `{name}` was asked to cancel the call; it is not known whether it has, and something else runs in its process"
            ),
        });
    }

    /// Says what is known of a cancellation. The task of a legacy client is over already and does not change any more: then the log has it alone.
    pub(crate) fn tell_cancelled(&self, cx: &TaskContext, what: String) {
        tracing::info!(task = cx.task().short(), "{what}");
        cx.status(what);
    }

    /// How long a cancelled call may wait for the task or the job that the upstream makes of it, in milliseconds. A call of 2025-11-25 that asks for a task cannot be
    /// cancelled, only its task (MCP 2025-11-25, Tasks, "Task Cancellation").
    pub(crate) async fn longest_wait_for_work(&self, connection: &UpstreamConnection, cx: &TaskContext) -> Millis {
        if self.purpose == Purpose::Submit {
            return whole_millis(SUBMIT_GRACE);
        }
        if !may_become_task(cx).await {
            return 0;
        }
        let connection = &connection.connection;
        match connection.server().await {
            Ok(server) if server.is_modern() => PAUSE,
            Ok(_) => match connection.tool(&self.tool).await {
                Ok(Some(tool)) if tool.task_support != TaskSupport::Forbidden => whole_millis(STOP_GRACE),
                _ => 0,
            },
            Err(_) => 0,
        }
    }
}

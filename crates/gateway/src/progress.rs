//! What an upstream reports of a call, as it is passed on.

use longhaul_client::{Event, Progress};
use longhaul_runtime::{TaskContext, ToolMessage};
use longhaul_wire::relayed;
use std::sync::Arc;

/// Progress that an upstream has reported.
pub(crate) fn relayed_progress(progress: &Progress) -> ToolMessage {
    ToolMessage::Progress {
        current: progress.progress,
        total: progress.total,
        message: progress.message.as_deref().map(Arc::from),
        relayed: Some(relayed::params(&progress.params)),
    }
}

/// Passes on what happens while a call or a task of an upstream is waited for.
pub(crate) fn report(cx: &TaskContext, event: &Event<'_>) {
    match event {
        Event::Progress(progress) | Event::TaskProgress(progress) => cx.send(relayed_progress(progress)),
        Event::Status(task) => {
            if let Some(message) = &task.message {
                cx.status(message.as_str());
            }
        }
        Event::Retrying { error, .. } => tracing::debug!(%error, "an upstream is asked again"),
        _ => {}
    }
}

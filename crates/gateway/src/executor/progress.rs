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

/// Progress without a message, in words.
fn numbers(progress: &Progress) -> String {
    match progress.total {
        Some(total) => format!("{}/{total}", progress.progress),
        None => progress.progress.to_string(),
    }
}

/// Passes on what happens while a call or a task of an upstream is waited for.
pub(crate) fn report(cx: &TaskContext, event: &Event<'_>) {
    match event {
        Event::Progress(progress) => {
            // A task of ours has only its status to tell it with.
            if progress.message.is_none() {
                cx.status(numbers(progress));
            }
            cx.send(relayed_progress(progress));
        }
        Event::TaskProgress(progress) => cx.send(relayed_progress(progress)),
        Event::Status(task) => {
            if let Some(message) = &task.message {
                cx.status(message.as_str());
            }
        }
        Event::Retrying { error, .. } => tracing::debug!(%error, "an upstream is asked again"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::Json;

    #[test]
    fn progress_without_a_message_is_told_in_numbers() {
        let told = |progress, total| {
            numbers(&Progress {
                progress,
                total,
                message: None,
                params: Json::trusted("{}"),
            })
        };
        assert_eq!(told(4.0, Some(12.0)), "4/12");
        assert_eq!(told(0.5, Some(1.0)), "0.5/1");
        assert_eq!(told(4.0, None), "4");
    }
}

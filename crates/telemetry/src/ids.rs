//! Ids of spans and traces that follow from ids of tasks: whoever sends a part of a task's trace uses the same ones.

use longhaul_core::TaskId;
use opentelemetry::trace::{SpanId, TraceId};
use sha2::{Digest, Sha256};

fn digest(of: &str, task: &TaskId, number: u32) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.update(of.as_bytes());
    digest.update(number.to_be_bytes());
    digest.update(task.as_str().as_bytes());
    digest.finalize().into()
}

fn span(of: &str, task: &TaskId, number: u32) -> SpanId {
    let digest = digest(of, task, number);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    SpanId::from_bytes(bytes)
}

/// The trace of a task whose caller is in none.
pub(crate) fn trace(root: &TaskId) -> TraceId {
    let digest = digest("trace", root, 0);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    TraceId::from_bytes(bytes)
}

/// The span of a task.
pub(crate) fn of_task(task: &TaskId) -> SpanId {
    span("task", task, 0)
}

/// The span of an attempt.
pub(crate) fn of_attempt(task: &TaskId, epoch: u32) -> SpanId {
    span("attempt", task, epoch)
}

/// The span of an entry of a task's journal.
pub(crate) fn of_entry(task: &TaskId, position: u32) -> SpanId {
    span("entry", task, position)
}

//! The operations of a durable tool that took time.

use crate::{ids, span::span, trace::TraceOfTask};
use longhaul_core::{EntryKind, Now, Task, UnixMillis, store::StoreError};
use longhaul_runtime::{Engine, EntryStatus};
use opentelemetry::{KeyValue, trace::Status};
use opentelemetry_sdk::trace::SpanData;

/// Entries that are read at once, and at most.
const PAGE: usize = 200;
const MOST: u32 = 2_000;

/// The spans of a task's operations, of the first two thousand entries of its journal.
pub(crate) async fn spans(
    engine: &Engine,
    task: &Task,
    trace: &TraceOfTask,
    now: Now,
) -> Result<Vec<SpanData>, StoreError> {
    let mut spans = Vec::new();
    let mut after = 0;
    while after < task.journaled.min(MOST) {
        let entries = engine.store().journal(&task.id, after, PAGE).await?;
        let page = engine.history(task, after, PAGE).await?;
        if page.next <= after {
            break;
        }
        for (position, entry) in page.found {
            let took = match (entry.key.kind, &entry.status) {
                // Less than a millisecond is not recorded.
                (EntryKind::Step, EntryStatus::Done | EntryStatus::Failed(_)) => Some(entry.took.unwrap_or_default()),
                (kind, _) => entry.took.filter(|_| takes_time(kind)),
            };
            let Some(took) = took else { continue };
            let epoch = entries.iter().find(|stored| stored.seq == position);
            let parent = match epoch.map_or(0, |stored| stored.epoch) {
                0 => ids::of_task(&task.id),
                epoch => ids::of_attempt(&task.id, epoch),
            };
            // A step is recorded when its result is known, everything else when it begins.
            let (start, end) = match entry.key.kind {
                EntryKind::Step => (before(entry.at, took), entry.at),
                _ => (entry.at, UnixMillis(entry.at.0.saturating_add_unsigned(took))),
            };
            let status = match entry.status {
                EntryStatus::Failed(_) => Status::error(""),
                _ => Status::Unset,
            };
            let mut made = span(
                trace.span(ids::of_entry(&task.id, position)),
                parent,
                entry.key.to_string(),
                (now.in_the_world(start), now.in_the_world(end)),
            );
            made.status = status;
            made.attributes = vec![
                KeyValue::new("longhaul.entry.kind", entry.key.kind.name()),
                KeyValue::new("longhaul.entry.position", i64::from(position)),
                KeyValue::new("longhaul.step.failed_attempts", i64::from(entry.failed_count)),
            ];
            spans.push(made);
        }
        after = page.next;
    }
    Ok(spans)
}

/// Whether it begins at one time and ends at another.
fn takes_time(kind: EntryKind) -> bool {
    matches!(
        kind,
        EntryKind::Timer | EntryKind::Input | EntryKind::Child | EntryKind::Poll
    )
}

fn before(at: UnixMillis, millis: u64) -> UnixMillis {
    UnixMillis(at.0.saturating_sub_unsigned(millis))
}

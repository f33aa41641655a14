//! The trace that a task belongs to.

use crate::ids;
use longhaul_core::{Store, Task, TaskId, store::StoreError};
use longhaul_runtime::{Requestor, Trace};
use opentelemetry::{
    propagation::TextMapPropagator as _,
    trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState},
};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use std::collections::HashMap;

/// The trace of a task, and the span above it.
pub(crate) struct TraceOfTask {
    trace: TraceId,
    state: TraceState,
    pub(crate) parent: SpanId,
    /// Whether the span above is one of the caller.
    pub(crate) parent_is_remote: bool,
}

impl TraceOfTask {
    /// The trace that a task belongs to; `None` if its caller does not want it to be recorded.
    pub(crate) async fn of(store: &dyn Store, task: &Task) -> Result<Option<Self>, StoreError> {
        let root = task.lineage.as_ref().map_or(&task.id, |lineage| &lineage.root);
        let called = caller(store, root).await?;
        if called.as_ref().is_some_and(|called| !called.is_sampled()) {
            return Ok(None);
        }
        let parent = match (&task.lineage, &called) {
            (Some(lineage), _) => ids::of_entry(&lineage.parent, lineage.entry),
            (None, Some(called)) => called.span_id(),
            (None, None) => SpanId::INVALID,
        };
        Ok(Some(Self {
            parent,
            parent_is_remote: task.lineage.is_none() && called.is_some(),
            trace: called.as_ref().map_or_else(|| ids::trace(root), SpanContext::trace_id),
            state: called.map(|called| called.trace_state().clone()).unwrap_or_default(),
        }))
    }

    /// A span of this trace.
    pub(crate) fn span(&self, id: SpanId) -> SpanContext {
        SpanContext::new(self.trace, id, TraceFlags::SAMPLED, false, self.state.clone())
    }
}

/// The span of whoever called a task, if it has said so.
async fn caller(store: &dyn Store, id: &TaskId) -> Result<Option<SpanContext>, StoreError> {
    let requestor = store.requestor(id).await?;
    let trace = requestor.and_then(|json| Requestor::from_json(&json).trace);
    Ok(trace.and_then(|trace| read(&trace)))
}

fn read(trace: &Trace) -> Option<SpanContext> {
    let members = [("traceparent", &trace.traceparent), ("tracestate", &trace.tracestate)];
    let members = members.into_iter();
    let carrier: HashMap<String, String> = members
        .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)))
        .collect();
    let context = TraceContextPropagator::new().extract(&carrier);
    let span = context.span().span_context().clone();
    span.is_valid().then_some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(text: &str) -> Option<SpanContext> {
        read(&Trace {
            traceparent: Some(text.to_owned()),
            ..Trace::default()
        })
    }

    #[test]
    fn what_is_no_trace_context_counts_as_none() {
        let good = parent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").expect("a span");
        assert_eq!(good.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(good.span_id().to_string(), "b7ad6b7169203331");
        for bad in [
            "",
            "00",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "zz-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(parent(bad), None, "{bad}");
        }
    }
}

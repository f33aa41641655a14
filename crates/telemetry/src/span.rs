//! A span of something that has ended.

use longhaul_core::UnixMillis;
use opentelemetry::{
    InstrumentationScope,
    trace::{SpanContext, SpanId, SpanKind, Status},
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use std::{
    borrow::Cow,
    time::{Duration, SystemTime},
};

/// A span without attributes, between two times of the system's clock.
pub(crate) fn span(
    context: SpanContext,
    parent: SpanId,
    name: String,
    (start, end): (UnixMillis, UnixMillis),
) -> SpanData {
    SpanData {
        span_context: context,
        parent_span_id: parent,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: Cow::Owned(name),
        start_time: system_time(start),
        end_time: system_time(end),
        attributes: Vec::new(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::builder("longhaul").build(),
    }
}

fn system_time(at: UnixMillis) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(at.0.max(0).unsigned_abs())
}

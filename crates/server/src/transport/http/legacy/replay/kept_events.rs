//! Streams in an event store.

use super::event_id;
use bytes::Bytes;
use longhaul_core::{Clock, EventStore, EventStream, KeptEvent, SessionKey};
use longhaul_wire::sse;
use std::sync::Arc;
use tracing::warn;

/// The event store, if there is one.
#[derive(Clone)]
pub(super) struct KeptEvents {
    pub(super) store: Option<Arc<dyn EventStore>>,
    pub(super) clock: Arc<dyn Clock>,
}

impl KeptEvents {
    /// The stream to keep events under; `None` if nothing keeps them.
    pub(super) fn stream(&self, session: &SessionKey, name: &str) -> Option<EventStream> {
        (self.store.is_some() && event_id::is_kept(name)).then(|| EventStream {
            session: session.clone(),
            name: name.into(),
        })
    }

    /// Keeps an event that is about to be sent.
    pub(super) async fn append(&self, stream: &EventStream, nth: u64, message: &str) {
        let Some(store) = &self.store else { return };
        let event = KeptEvent {
            nth,
            message: message.into(),
        };
        if let Err(error) = store.append(stream, event, self.clock.now()).await {
            warn!(%error, "an event of a stream could not be kept");
        }
    }

    /// The events of a stream after the `nth`; `None` if they are not all kept.
    pub(super) async fn after(&self, session: &SessionKey, name: &str, nth: u64) -> Option<Vec<KeptEvent>> {
        let (store, stream) = (self.store.as_ref()?, self.stream(session, name)?);
        let kept = store.read(&stream, self.clock.now()).await;
        let kept = kept
            .inspect_err(|error| warn!(%error, "the event store cannot be read"))
            .ok()?;
        missed(kept, nth)
    }

    /// Drops the streams of a session that has ended.
    pub(super) async fn end_session(&self, session: &SessionKey) {
        if let Some(store) = &self.store
            && let Err(error) = store.end_session(session).await
        {
            warn!(%error, "the events of an ended session are still kept");
        }
    }
}

/// Of all the kept events of a stream those after the `nth`, unless there is none at all or one is missing.
fn missed(kept: Vec<KeptEvent>, nth: u64) -> Option<Vec<KeptEvent>> {
    let first_missing = kept.last()?.nth + 1;
    let missed: Vec<KeptEvent> = kept.into_iter().filter(|event| event.nth > nth).collect();
    let complete = missed
        .iter()
        .zip(nth + 1..)
        .all(|(event, expected)| event.nth == expected);
    (complete && (!missed.is_empty() || first_missing <= nth + 1)).then_some(missed)
}

/// The server-sent event of a message.
pub(crate) fn event(stream: &str, kept: &KeptEvent) -> Bytes {
    let id = format!("{stream}.{}", kept.nth);
    let mut event = String::with_capacity(kept.message.len() + id.len() + 32);
    sse::SseEvent {
        id: Some(&id),
        data: &kept.message,
        ..sse::SseEvent::default()
    }
    .write(&mut event);
    event.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_with_a_missing_event_is_not_kept() {
        let events = |numbers: &[u64]| -> Vec<KeptEvent> {
            let event = |nth: &u64| KeptEvent {
                nth: *nth,
                message: "".into(),
            };
            numbers.iter().map(event).collect()
        };
        for (kept, after, expected) in [
            (&[1, 2, 3][..], 0, Some(&[1, 2, 3][..])),
            (&[1, 2, 3], 2, Some(&[3])),
            (&[1, 2, 3], 3, Some(&[])),
            // The latest events were lost with the process.
            (&[1, 2, 3], 5, Some(&[])),
            (&[2, 3], 0, None),
            (&[1, 3], 0, None),
            (&[1, 3], 2, Some(&[3])),
            (&[], 0, None),
        ] {
            let found = missed(events(kept), after);
            assert_eq!(found, expected.map(events), "{kept:?} after {after}");
        }
    }
}

//! Answers of several messages: server-sent events, bounded and ended with their reader.

use crate::front::Front;
use bytes::Bytes;
use longhaul_wire::sse;
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// A slow reader holds up its own stream, after so many events.
const CAPACITY: usize = 4;
/// Between signs of life on a silent stream (T-33).
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The events of one answer, as they are to be sent.
pub(crate) struct Events(pub(crate) mpsc::Receiver<Bytes>);

/// Where a stream's events are written.
pub(crate) struct Sink(mpsc::Sender<Bytes>);

impl Sink {
    /// Sends a message; waits for a slow reader.
    pub(crate) async fn message(&self, text: &str) {
        let mut event = String::with_capacity(text.len() + 16);
        sse::Event {
            id: None,
            retry_ms: None,
            data: text,
        }
        .write(&mut event);
        // If the reader is gone the stream is ended around us.
        let _ = self.0.send(event.into()).await;
    }

    /// Sends a sign of life, unless the reader has not even taken the last events.
    pub(crate) fn keep_alive(&self) {
        let _ = self.0.try_send(Bytes::from_static(sse::KEEP_ALIVE.as_bytes()));
    }
}

/// Runs `write` for as long as someone reads what it sends and the server is not draining. When the reader leaves, the future is
/// dropped where it stands.
pub(crate) fn events<W>(front: &Arc<Front>, write: impl FnOnce(Sink) -> W) -> Events
where
    W: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(CAPACITY);
    let reader = sender.clone();
    let work = write(Sink(sender));
    let drained = Arc::clone(front);
    front.engine.ports().spawner.spawn(Box::pin(async move {
        tokio::select! {
            () = work => {}
            () = reader.closed() => {}
            () = drained.drained() => {}
        }
    }));
    Events(receiver)
}

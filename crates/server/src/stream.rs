//! Answers of several messages: server-sent events, bounded and ended with their reader.

use crate::front::Front;
use bytes::Bytes;
use longhaul_wire::sse;
use std::time::Duration;
use tokio::sync::mpsc;

/// A slow reader holds up its own stream, after so many events.
const CAPACITY: usize = 4;
/// Between signs of life on a silent stream (T-33).
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The events of one answer, as they are to be sent.
pub(crate) struct Events(pub(crate) mpsc::Receiver<Bytes>);

/// Where a stream's events are written.
pub(crate) struct Sink(mpsc::Sender<Bytes>);

/// The stream's reader has left.
#[derive(Debug)]
pub(crate) struct Gone;

impl Sink {
    /// Sends a message; waits for a slow reader. `Ok` means that HTTP has it.
    pub(crate) async fn message(&self, text: &str) -> Result<(), Gone> {
        let mut event = String::with_capacity(text.len() + 16);
        sse::Event {
            data: text,
            ..sse::Event::default()
        }
        .write(&mut event);
        self.0.send(event.into()).await.map_err(|_| Gone)
    }

    /// Sends a sign of life, unless the reader has not even taken the last events.
    pub(crate) fn keep_alive(&self) {
        let _ = self.0.try_send(Bytes::from_static(sse::KEEP_ALIVE.as_bytes()));
    }
}

/// Runs `write` for as long as someone reads what it sends. When the reader leaves, the future is dropped where it stands; when
/// the server drains, it ends by itself.
pub(crate) fn events<W>(front: &Front, write: impl FnOnce(Sink) -> W) -> Events
where
    W: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(CAPACITY);
    let reader = sender.clone();
    let work = write(Sink(sender));
    front.engine.ports().spawner.spawn(Box::pin(async move {
        tokio::select! {
            () = work => {}
            () = reader.closed() => {}
        }
    }));
    Events(receiver)
}

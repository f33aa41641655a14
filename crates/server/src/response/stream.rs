//! Answers of several messages: bounded, and ended when their reader leaves. Transports decide how a frame is written.

use super::{Answer, resumption::Resumption};
use crate::admission::limits::{Reservation, StreamPermit};
use bytes::Bytes;
use longhaul_runtime::Ports;
use std::{sync::Arc, time::Duration};
use tokio::sync::{mpsc, watch};

/// Frames that wait for a slow reader; then their writer waits.
const CAPACITY: usize = 4;
/// Between two keep-alives on a silent stream.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A JSON-RPC message, and the memory reserved for it until it was sent.
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) reservation: Option<Reservation>,
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self {
            text,
            reservation: None,
        }
    }
}

impl Text {
    /// Its bytes; dropping the last of them releases the memory.
    pub(crate) fn into_bytes(self) -> Bytes {
        held(self.text.into(), self.reservation)
    }
}

/// Bytes with memory reserved for them.
struct ReservedBytes {
    bytes: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The same bytes; dropping the last of them releases the memory.
pub(crate) fn held(bytes: Bytes, reservation: Option<Reservation>) -> Bytes {
    match reservation {
        Some(reservation) => Bytes::from_owner(ReservedBytes {
            bytes,
            _reservation: reservation,
        }),
        None => bytes,
    }
}

/// One thing on a stream.
pub(crate) enum Frame {
    /// A JSON-RPC message.
    Message(Text),
    /// A keep-alive, for transports that need one.
    KeepAlive,
    /// Nothing comes for a while: a transport whose streams can be resumed may close this one.
    CloseStream,
}

/// The frames of one answer.
pub(crate) struct Events {
    receiver: mpsc::Receiver<Frame>,
    reader_presence: ReaderPresence,
    resumption: Option<Resumption>,
    /// The reader's, for as long as it reads.
    permit: Option<StreamPermit>,
}

/// Where a stream's frames are written.
#[derive(Clone)]
pub(crate) struct Sink {
    sender: mpsc::Sender<Frame>,
    reader_presence: ReaderPresence,
}

/// Whether anyone reads a stream at this moment. A stream that can be resumed may have no reader for a while.
#[derive(Clone)]
pub(crate) struct ReaderPresence(Arc<watch::Sender<bool>>);

/// The stream's reader has left.
#[derive(Debug)]
pub(crate) struct ReaderGone;

impl ReaderPresence {
    pub(crate) fn set(&self, has_reader: bool) {
        self.0
            .send_if_modified(|now| std::mem::replace(now, has_reader) != has_reader);
    }
}

impl Events {
    /// The next frame; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        self.receiver.recv().await
    }

    /// With what a process does for its client that does not have the stream.
    pub(crate) fn resumed_by(self, resumption: Option<Resumption>) -> Self {
        Self { resumption, ..self }
    }

    /// With the permit of whoever reads them.
    pub(crate) fn with_permit(self, permit: Option<StreamPermit>) -> Self {
        Self { permit, ..self }
    }

    /// The permit of their reader, for a transport whose streams outlive their readers.
    pub(crate) fn take_permit(&mut self) -> Option<StreamPermit> {
        self.permit.take()
    }

    /// What a process does for its client that does not have the stream.
    pub(crate) fn resumption(&self) -> Option<&Resumption> {
        self.resumption.as_ref()
    }

    /// To record whether the stream is read.
    pub(crate) fn reader_presence(&self) -> ReaderPresence {
        self.reader_presence.clone()
    }
}

impl Sink {
    /// Sends a message; waits for a slow reader. `Ok` means that the transport has it.
    pub(crate) async fn message(&self, text: impl Into<Text>) -> Result<(), ReaderGone> {
        self.sender
            .send(Frame::Message(text.into()))
            .await
            .map_err(|_| ReaderGone)
    }

    /// Lets the transport close this stream, if it can be resumed: nothing comes for a while.
    pub(crate) async fn close_stream(&self) -> Result<(), ReaderGone> {
        self.sender.send(Frame::CloseStream).await.map_err(|_| ReaderGone)
    }

    /// Whether both write the same stream.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.sender.same_channel(&other.sender)
    }

    /// Whether someone reads the stream at this moment.
    pub(crate) fn has_reader(&self) -> bool {
        *self.reader_presence.0.borrow()
    }

    /// Changes when someone starts or stops reading the stream.
    pub(crate) fn reader_presence(&self) -> watch::Receiver<bool> {
        self.reader_presence.0.subscribe()
    }

    /// Completes when the stream's reader has left for good.
    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }

    /// Sends a keep-alive, unless earlier frames still wait for the reader.
    pub(crate) fn keep_alive(&self) {
        let _ = self.sender.try_send(Frame::KeepAlive);
    }
}

/// A stream and where it is written.
pub(crate) fn channel() -> (Sink, Events) {
    let (sender, receiver) = mpsc::channel(CAPACITY);
    let reader_presence = ReaderPresence(Arc::new(watch::Sender::new(true)));
    let sink = Sink {
        sender,
        reader_presence: reader_presence.clone(),
    };
    let events = Events {
        receiver,
        reader_presence,
        resumption: None,
        permit: None,
    };
    (sink, events)
}

/// Runs `write` for as long as someone reads what it sends. When the reader leaves, the future is dropped; when
/// the server drains, it ends by itself.
pub(crate) fn events<W>(ports: &Ports, write: impl FnOnce(Sink) -> W) -> Events
where
    W: Future<Output = ()> + Send + 'static,
{
    let (sink, events) = channel();
    let reader = sink.sender.clone();
    let work = write(sink);
    ports.spawner.spawn(Box::pin(async move {
        tokio::select! {
            () = work => {}
            () = reader.closed() => {}
        }
    }));
    events
}

/// Sends an answer on a stream that is there already, as it comes.
pub(crate) async fn send_answer(mut answer: Answer, sink: &Sink) {
    // Nothing more is sent to a client that has left.
    let _: Result<(), ReaderGone> = async {
        loop {
            answer = match answer {
                Answer::Later(later) => later.await,
                Answer::Message { text, .. } => return sink.message(text).await,
                Answer::Session { text, .. } | Answer::Challenge { text, .. } => return sink.message(text).await,
                Answer::Accepted => return Ok(()),
                Answer::Stream(mut events) => {
                    while let Some(frame) = events.next().await {
                        match frame {
                            Frame::Message(text) => sink.message(text).await?,
                            Frame::KeepAlive => sink.keep_alive(),
                            // The stream may have more to send, of other requests.
                            Frame::CloseStream => {}
                        }
                    }
                    return Ok(());
                }
            }
        }
    }
    .await;
}

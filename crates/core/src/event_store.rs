//! Keeps the events of streams, for clients whose connection broke and that come back with `Last-Event-ID`.

use crate::{BoxFuture, SessionKey, UnixMillis};
use std::{io, sync::Arc};

/// A stream of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EventStream {
    /// The session. Nobody else may read the stream.
    pub session: SessionKey,
    /// Its name, which no other stream has, of whatever process.
    pub name: Arc<str>,
}

/// An event that was sent, or was about to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptEvent {
    /// Its number in the stream. Numbers rise by one.
    pub nth: u64,
    /// The JSON-RPC message.
    pub message: Arc<str>,
}

/// How much an event store keeps. What is above a limit is dropped, the oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventLimits {
    /// Events of one stream; 1,024 by default. At least one is kept.
    pub events_of_stream: u64,
    /// Bytes of all messages; 64 MiB by default.
    pub bytes: u64,
    /// Milliseconds for which an event is kept; an hour by default.
    pub age: i64,
}

impl Default for EventLimits {
    fn default() -> Self {
        Self {
            events_of_stream: 1024,
            bytes: 64 << 20,
            age: 60 * 60 * 1000,
        }
    }
}

/// Keeps the events of streams longer than the server itself does, which has them in memory and for some minutes.
///
/// An event is appended before it is sent, so a store that outlives its process has what a client missed when that process ended. A store may lose
/// the latest events then, but must not lose one and keep a later one of the same stream: whoever reads the stream is told that it is not kept.
///
/// All methods are called with the time of the server's clock, since a store has none.
pub trait EventStore: Send + Sync + 'static {
    /// Keeps an event. Those of one stream come one after another, in the order of their numbers; a number that is there already is replaced. May
    /// return before the event is on disk; the writer of the stream waits until it returns.
    ///
    /// # Errors
    /// Of the store. The event is sent all the same, and the server says so in its log.
    fn append<'a>(
        &'a self,
        stream: &'a EventStream,
        event: KeptEvent,
        now: UnixMillis,
    ) -> BoxFuture<'a, io::Result<()>>;

    /// All events of the stream that are kept, in their order; none if there is no such stream.
    ///
    /// # Errors
    /// Of the store.
    fn read<'a>(&'a self, stream: &'a EventStream, now: UnixMillis) -> BoxFuture<'a, io::Result<Vec<KeptEvent>>>;

    /// Drops the streams of a session, which has ended.
    ///
    /// # Errors
    /// Of the store. The session cannot be used again in any case.
    fn end_session<'a>(&'a self, session: &'a SessionKey) -> BoxFuture<'a, io::Result<()>>;
}

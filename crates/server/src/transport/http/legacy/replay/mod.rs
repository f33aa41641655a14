//! Legacy streams that can be resumed.
//!
//! What answers a request of a session, or waits for messages to it, is written into a [`ReplayBuffer`] and read from there by the
//! connection. When the connection closes, the buffer stays, and a GET with `Last-Event-ID` reads the rest. Replay buffers are bounded
//! each and together, live a few minutes after their end, and in this process only. A `tasks/result` can be resumed even later,
//! because its event ids carry the request, signed. The events of all other streams can also be kept by an [`EventStore`](longhaul_core::EventStore):
//! then a client that comes back to a later process gets what it missed, and a push stream goes on.

mod buffer;
mod buffers;
mod event_id;
mod kept_bytes;
mod kept_events;
mod table;

pub(crate) use buffer::{NotKept, ReplayBuffer};
pub(crate) use buffers::ReplayBuffers;
pub(crate) use buffers::{StreamKind, TooManyStreams};
pub(crate) use event_id::{EventId, is_push, tells_of_resources};
pub(crate) use kept_events::event;

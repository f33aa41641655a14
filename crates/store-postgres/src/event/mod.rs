//! What nodes tell each other: events with `LISTEN` and `NOTIFY`, messages, pauses and ended sessions.

pub(crate) mod effects;
pub(crate) mod messages;
pub(crate) mod notifications;
pub(crate) mod pauses;
pub(crate) mod sessions;
pub(crate) mod traffic;

pub(crate) use self::effects::{Effects, OutgoingNotification, PublishedState};

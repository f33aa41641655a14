//! What only clients of revisions up to 2025-11-25 need: requests of ours and their responses, and the messages to a session beside the answers to its
//! requests.
//!
//! A session gets the messages about a task on its push streams ([`push_stream`]) and on the streams of its `tasks/result`. At any moment exactly one of
//! them carries the messages ([`carrier`]); [`task_messages`] writes them. The [`desk`] knows which questions were put.

pub(crate) mod carrier;
pub(crate) mod client_response;
pub(crate) mod client_tasks;
pub(crate) mod desk;
pub(crate) mod push_stream;
pub(crate) mod push_streams;
mod status;
pub(crate) mod task_messages;

use carrier::Carriers;
use push_streams::PushStreams;

/// The streams that carry messages about tasks to legacy sessions.
#[derive(Default)]
pub(crate) struct Push {
    /// The open push streams of each session.
    pub(crate) streams: PushStreams,
    /// Which stream carries the messages about a task.
    pub(crate) carriers: Carriers,
}

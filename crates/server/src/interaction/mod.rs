//! Answering a request whose client waits (`exchange`, and with questions `rounds`), and everything that a client is sent besides responses: progress,
//! log messages, requests of ours, push streams and subscriptions.

mod answer_check;
mod cancelled_exits;
pub(crate) mod changes_for_other_nodes;
pub(crate) mod exchange;
pub(crate) mod legacy;
pub(crate) mod notifications;
mod progress;
pub(crate) mod resource_watch;
pub(crate) mod rounds;
pub(crate) mod session_messages;
pub(crate) mod subscription;

use crate::{admission::Admission, audit::Auditor, session::Sessions, shutdown::Shutdown, signer::Signer};
pub(crate) use answer_check::check_answer;
pub(crate) use cancelled_exits::CancelledExits;
use legacy::{Push, desk::Desk};
use longhaul_runtime::Engine;
use longhaul_wire::ServerInfo;
use resource_watch::ResourceWatchers;
use std::sync::Arc;

/// The context for notifications and requests to clients.
pub(crate) struct Interaction {
    pub(crate) engine: Engine,
    pub(crate) server_info: Arc<ServerInfo>,
    pub(crate) shutdown: Shutdown,
    pub(crate) admission: Arc<Admission>,
    /// The audit log, if there is one.
    pub(crate) auditor: Option<Arc<Auditor>>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) push: Push,
    /// The questions that were put to legacy clients.
    pub(crate) desk: Desk,
    pub(crate) resource_watchers: ResourceWatchers,
    pub(crate) cancelled_exits: CancelledExits,
    /// Signs the state that a modern client carries from one round to the next.
    pub(crate) round_states: Signer,
}

//! What concerns the sessions of clients, beside their requests.

use longhaul_core::{Json, LogLevel, Principal, SessionKey};
use std::sync::Arc;
use tokio::sync::broadcast;

/// What has become of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionChange {
    /// Its client has other roots than before.
    Roots(SessionKey),
    /// It has ended.
    Ended(SessionKey),
}

/// A log message, or a notification of another server that MCP does not define, that belongs to no request.
#[derive(Debug, Clone)]
pub struct SessionLog {
    /// For whose sessions it is.
    pub principal: Principal,
    /// For which of them; `None` for all.
    pub session: Option<SessionKey>,
    /// Its level.
    pub level: LogLevel,
    /// What logs.
    pub logger: Option<Arc<str>>,
    /// The message.
    pub data: Json,
    /// The params of the notification, if another server sent it.
    pub relayed: Option<Json>,
    /// The method, if another server sent a notification that MCP does not define: only that and its params count then.
    pub method: Option<Arc<str>>,
}

impl SessionLog {
    /// Whether it is for this session of this principal.
    pub fn concerns(&self, principal: &Principal, session: &SessionKey) -> bool {
        self.principal == *principal && self.session.as_ref().is_none_or(|of| of == session)
    }
}

/// Sends log messages that belong to no request to the sessions that can be sent something at any time.
#[derive(Debug, Clone)]
pub struct SessionLogs(pub(super) broadcast::Sender<Arc<SessionLog>>);

impl SessionLogs {
    /// Sends one.
    pub fn send(&self, message: SessionLog) {
        // Nobody may be listening.
        let _ = self.0.send(Arc::new(message));
    }
}

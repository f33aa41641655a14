//! Whether a server still knows a legacy session.

use crate::{
    Connection, RequestError,
    era::Era,
    request::Request,
    response::RpcResponse,
    stale_era::{Doubt, doubt, status_of},
};
use longhaul_wire::Method;
use serde_json::Map;
use std::{sync::Arc, time::Duration};

/// A session that was not used for so long may be gone, so it is pinged before a call is sent in it that could not be sent again.
const IDLE: Duration = Duration::from_secs(10);

impl Connection {
    /// Whether the server does not know a legacy session. It still has it unless it refuses a ping.
    pub(crate) async fn has_lost_session(&self, era: &Arc<Era>) -> bool {
        matches!(status_of(&self.ping_in(era).await), Some(400 | 404))
    }

    /// Whether a legacy session over HTTP was not used for a while, and has ended meanwhile.
    pub(crate) async fn has_ended_idly(&self, era: &Arc<Era>) -> bool {
        let has_session = era.legacy().is_some_and(|legacy| legacy.session.is_some());
        has_session && self.idle_for() >= IDLE && doubt(era, &self.ping_in(era).await) == Doubt::SessionEnded
    }

    /// Sends a `ping` in this session.
    pub(crate) async fn ping_in(&self, era: &Arc<Era>) -> Result<RpcResponse, RequestError> {
        let ping = Request {
            timeout: Some(self.options().request_timeout),
            ..Request::new(Method::Ping.as_str(), Map::new())
        };
        self.attempt(era, ping, &mut |_| {}, None).await
    }
}

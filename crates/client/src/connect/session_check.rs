//! Whether a server still knows a legacy session.

use crate::{
    Connection, RequestError,
    connect::{era::Era, request::Request, response::RpcResponse, stale_era::status_of},
};
use longhaul_wire::Method;
use serde_json::Map;
use std::sync::Arc;

impl Connection {
    /// Whether the server no longer has a legacy session. It counts as lost only if the server refuses a `ping` in it with 400 or 404.
    pub(crate) async fn has_lost_session(&self, era: &Arc<Era>) -> bool {
        matches!(status_of(&self.ping_in(era).await), Some(400 | 404))
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

//! Notifications that MCP does not define, such as those of extensions.

use longhaul_core::Json;
use std::sync::Arc;

/// Gets the notifications of servers that MCP does not define: [`Options::other_notifications`](crate::Options::other_notifications).
///
/// ```
/// use longhaul_client::{Options, OtherNotifications};
/// let mut options = Options::named("example", "1.0");
/// options.other_notifications = Some(OtherNotifications::new(|method, _params| eprintln!("{method}")));
/// ```
#[derive(Clone)]
pub struct OtherNotifications(Arc<Handler>);

type Handler = dyn Fn(&str, Option<Json>) + Send + Sync;

impl OtherNotifications {
    /// Hands on the method and the params of each. The handler should return quickly, since the connection waits for it.
    pub fn new(handler: impl Fn(&str, Option<Json>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(handler))
    }

    pub(crate) fn hand_on(&self, method: &str, params: Option<Json>) {
        (self.0)(method, params);
    }
}

//! Keeping a legacy session in use while a task of it lives.

use crate::{Connection, connect::connection::WeakConnection, journal::call_record::CallRecord};
use longhaul_core::Clock;
use std::{sync::Arc, time::Duration};

/// How often to check whether a session was used since the last check. If it was not, it is sent a `ping`. So it is never unused for twice this long. (The
/// Python SDK 1.30 ends sessions after 30 minutes, and some proxies after five.)
const LOOK_AT_USE: Duration = Duration::from_secs(2 * 60);

impl Connection {
    /// A task of the legacy session lives. Its questions go to `record` from now on.
    pub(crate) fn follow_legacy_task(&self, task: &str, record: Option<&CallRecord>) {
        self.legacy_tasks().add(task, record);
        self.keep_warm();
    }

    /// Uses the legacy session over HTTP now and then, for as long as a task of it lives.
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    fn keep_warm(&self) {
        if self.transport().is_session() {
            return;
        }
        self.legacy_tasks().keep_warm(|| {
            let clock = Arc::clone(&self.options().clock);
            let keeping = keep_warm(self.downgrade(), clock, self.requests_sent());
            tokio::spawn(keeping).abort_handle()
        });
    }

    async fn ping(&self) {
        let Some(era) = self.known_era().await else { return };
        if era.legacy().is_none_or(|legacy| legacy.session.is_none()) {
            return;
        }
        // A session that is gone is noticed by who reads the task: nothing is probed here.
        if let Err(error) = self.ping_in(&era).await {
            tracing::debug!(%error, "a session with live tasks was not kept warm");
        }
    }
}

/// Sends a `ping` whenever nothing else was sent for a while; `sent` requests were sent before.
async fn keep_warm(connection: WeakConnection, clock: Arc<dyn Clock>, mut sent: u64) {
    loop {
        clock.sleep(LOOK_AT_USE).await;
        let Some(connection) = connection.upgrade() else { return };
        if connection.legacy_tasks().end_warming() {
            return;
        }
        if connection.requests_sent() == sent {
            connection.ping().await;
        }
        sent = connection.requests_sent();
    }
}

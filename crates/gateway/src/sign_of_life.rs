//! Whether the upstream of a running call still answers anything.

use crate::{connections::UpstreamConnection, upstream::Upstream};
use longhaul_client::RequestError;
use longhaul_core::{format_duration, whole_millis};
use longhaul_runtime::TaskContext;
use parking_lot::Mutex;
use std::time::Duration;

/// How often an upstream is asked whether it is there while a call runs.
const ASK_EVERY: Duration = Duration::from_secs(30);
/// From which silence on the task says that its upstream is silent.
const TOLD_AFTER: Duration = Duration::from_secs(90);

/// When the upstream of a call was last heard of.
pub(crate) struct SignOfLife<'a> {
    upstream: &'a Upstream,
    /// By the monotonic clock.
    last: Mutex<Duration>,
}

impl<'a> SignOfLife<'a> {
    pub(crate) fn new(upstream: &'a Upstream) -> Self {
        Self {
            upstream,
            last: Mutex::new(upstream.ports.clock.monotonic()),
        }
    }

    pub(crate) fn seen(&self) {
        *self.last.lock() = self.upstream.ports.clock.monotonic();
    }

    fn silent_for(&self) -> Duration {
        self.upstream.ports.clock.monotonic().saturating_sub(*self.last.lock())
    }

    /// Completes when the upstream has answered nothing for too long, with words that say so. An upstream that cannot be reached is not silent: the call knows.
    pub(crate) async fn ends(&self, connection: &UpstreamConnection, cx: &TaskContext) -> String {
        let Some(limit) = self.upstream.options().hung_after.map(Duration::from_millis) else {
            return std::future::pending().await;
        };
        let every = ASK_EVERY.min(limit / 2);
        let mut is_told = false;
        loop {
            self.upstream.ports.clock.sleep(every).await;
            match self.upstream.ports.within(every, connection.check()).await {
                Some(Ok(())) => self.seen(),
                Some(Err(error)) if !matches!(error, RequestError::TimedOut { .. }) => self.seen(),
                _ => {}
            }
            let silent = self.silent_for();
            let shown = |duration: Duration| format_duration(whole_millis(duration) / 1_000 * 1_000);
            if silent >= limit {
                return format!(
                    "it has answered neither the call nor a ping for {}",
                    format_duration(whole_millis(limit))
                );
            }
            if silent < TOLD_AFTER {
                if std::mem::take(&mut is_told) {
                    cx.status(format!("upstream `{}` answers again", self.upstream.name()));
                }
            } else {
                is_told = true;
                cx.status(format!(
                    "upstream `{}` has answered nothing for {}; after {} the call is given up",
                    self.upstream.name(),
                    shown(silent),
                    format_duration(whole_millis(limit))
                ));
            }
        }
    }
}

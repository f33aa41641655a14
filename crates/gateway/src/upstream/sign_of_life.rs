//! Whether the upstream of a running call still answers anything.

use super::{
    Upstream,
    connection::UpstreamConnection,
    silent_calls::{LastHeard, in_seconds},
};
use longhaul_client::RequestError;
use longhaul_core::{format_duration, whole_millis};
use longhaul_runtime::TaskContext;
use std::time::Duration;

/// How often an upstream is asked whether it is there while a call runs.
const ASK_EVERY: Duration = Duration::from_secs(30);
/// From which silence on the task, and the upstream, say that it is silent.
const TOLD_AFTER: Duration = Duration::from_secs(90);

/// When the upstream of a call was last heard of.
pub(crate) struct SignOfLife<'a> {
    upstream: &'a Upstream,
    heard: LastHeard,
}

impl<'a> SignOfLife<'a> {
    pub(crate) fn new(upstream: &'a Upstream) -> Self {
        Self {
            upstream,
            heard: LastHeard::now(&*upstream.ports.clock),
        }
    }

    pub(crate) fn seen(&self) {
        self.heard.set(&*self.upstream.ports.clock);
    }

    /// Completes when the upstream has answered nothing for too long, with words that say so. An upstream that cannot be reached is not silent: the call knows.
    pub(crate) async fn ends(&self, connection: &UpstreamConnection, cx: &TaskContext) -> String {
        let (name, clock) = (self.upstream.name(), &self.upstream.ports.clock);
        let limit = self.upstream.options().hung_after.map(Duration::from_millis);
        let every = limit.map_or(ASK_EVERY, |limit| ASK_EVERY.min(limit / 2));
        let mut told = None;
        loop {
            clock.sleep(every).await;
            match self.upstream.ports.within(every, connection.check()).await {
                Some(Ok(())) => self.seen(),
                Some(Err(error)) if !matches!(error, RequestError::TimedOut { .. }) => self.seen(),
                _ => {}
            }
            let silence = self.heard.silence(&**clock);
            if let Some(limit) = limit.filter(|limit| silence >= *limit) {
                return format!(
                    "it has answered neither the call nor a ping for {}",
                    format_duration(whole_millis(limit))
                );
            }
            if silence < TOLD_AFTER {
                if told.take().is_some() {
                    cx.status(format!("upstream `{name}` answers again"));
                }
                continue;
            }
            told.get_or_insert_with(|| self.upstream.silent_calls.add(&self.heard));
            let mut status = format!("upstream `{name}` has answered nothing for {}", in_seconds(silence));
            if let Some(limit) = limit {
                let limit = format_duration(whole_millis(limit));
                status.push_str(&format!("; after {limit} the call is given up"));
            }
            cx.status(status);
        }
    }
}

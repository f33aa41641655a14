//! The phases of the server's shutdown.

use std::sync::Arc;
use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    Draining,
    Closed,
}

/// Signals when the server drains and when it closes. Clones share one state.
#[derive(Clone)]
pub(crate) struct Shutdown(Arc<watch::Sender<Phase>>);

impl Default for Shutdown {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Phase::Serving)))
    }
}

impl Shutdown {
    /// Ends streams and waits.
    pub(crate) fn drain(&self) {
        self.advance(Phase::Draining);
    }

    /// Ends the calls that are waited for, too.
    pub(crate) fn close(&self) {
        self.advance(Phase::Closed);
    }

    /// A phase never goes back.
    fn advance(&self, phase: Phase) {
        self.0
            .send_if_modified(|now| std::mem::replace(now, phase.max(*now)) < phase);
    }

    /// Completes once [`drain`](Self::drain) was called.
    pub(crate) async fn drained(&self) {
        self.reached(Phase::Draining).await;
    }

    /// Completes once [`close`](Self::close) was called.
    pub(crate) async fn closed(&self) {
        self.reached(Phase::Closed).await;
    }

    async fn reached(&self, phase: Phase) {
        // The sender is `self`.
        let _ = self.0.subscribe().wait_for(|now| *now >= phase).await;
    }
}

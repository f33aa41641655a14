//! The phases of the server's shutdown.

use tokio_util::sync::CancellationToken;

/// Signals when the server drains and when it closes. Clones share one state.
#[derive(Clone)]
pub(crate) struct Shutdown {
    closing: CancellationToken,
    /// A child of `closing`, since a server that closes also drains.
    draining: CancellationToken,
}

impl Default for Shutdown {
    fn default() -> Self {
        let closing = CancellationToken::new();
        Self {
            draining: closing.child_token(),
            closing,
        }
    }
}

impl Shutdown {
    /// Ends streams and waits for tasks.
    pub(crate) fn drain(&self) {
        self.draining.cancel();
    }

    /// Ends plain calls, too.
    pub(crate) fn close(&self) {
        self.closing.cancel();
    }

    /// Completes once [`drain`](Self::drain) or [`close`](Self::close) was called.
    pub(crate) async fn drained(&self) {
        self.draining.cancelled().await;
    }

    /// Completes once [`close`](Self::close) was called.
    pub(crate) async fn closed(&self) {
        self.closing.cancelled().await;
    }
}

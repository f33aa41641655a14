//! Ctrl-C while waiting.

use std::{io, pin::Pin};

/// Listens for Ctrl-C from its first use on, also between two uses.
pub(crate) struct Interrupt(Pin<Box<dyn Future<Output = io::Result<()>>>>);

impl Interrupt {
    pub(crate) fn new() -> Self {
        Self(Box::pin(tokio::signal::ctrl_c()))
    }

    /// Runs `work`; `None` if the user pressed Ctrl-C first. Do not use it again after that.
    pub(crate) async fn unless<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            // Polled first, so that the listener is registered before the work starts.
            biased;
            _ = &mut self.0 => None,
            done = work => Some(done),
        }
    }
}

//! Ctrl-C while something is waited for.

use std::{io, pin::Pin};

/// Listens for Ctrl-C from its first use on and misses none between two uses.
pub(crate) struct Interrupt(Pin<Box<dyn Future<Output = io::Result<()>>>>);

impl Interrupt {
    pub(crate) fn new() -> Self {
        Self(Box::pin(tokio::signal::ctrl_c()))
    }

    /// What `work` comes to; `None` if the user pressed Ctrl-C first. Not to be used again after that.
    pub(crate) async fn unless<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            // Polled first, so that the listener is in place before any work is done.
            biased;
            _ = &mut self.0 => None,
            done = work => Some(done),
        }
    }
}

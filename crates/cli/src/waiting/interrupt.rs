//! Ctrl-C while waiting.

use std::{io, pin::Pin};

/// Listens for Ctrl-C from its first use on, also between two uses.
pub(crate) struct Interrupt(Pin<Box<dyn Future<Output = io::Result<()>>>>);

impl Interrupt {
    pub(crate) fn new() -> Self {
        Self(Box::pin(tokio::signal::ctrl_c()))
    }

    /// Completes when the user presses Ctrl-C, or has pressed it. Do not use it again after that.
    pub(crate) async fn pressed(&mut self) {
        let _ = (&mut self.0).await;
    }
}

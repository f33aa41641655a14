//! What the client library warns of while a person waits for a command: what a server has written that is no message.

use crate::output;
use std::io;
use tracing_subscriber::EnvFilter;

/// Prints whole events as lines for people.
struct Notes;

impl io::Write for Notes {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        output::note(&format!("warning: {}", String::from_utf8_lossy(line).trim_end()));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Shows them from now on.
pub(crate) fn show() {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("longhaul_client::transport=warn"))
        .with_writer(|| Notes)
        .with_ansi(false)
        .with_level(false)
        .with_target(false)
        .without_time()
        // Reporting such an error would panic if standard error is closed.
        .log_internal_errors(false)
        .init();
}

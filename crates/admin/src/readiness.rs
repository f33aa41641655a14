//! What is known of whether the server takes work.

use longhaul_core::UnixMillis;
use tokio::sync::Mutex;

/// What was answered last.
#[derive(Default)]
pub(crate) struct Readiness(pub(crate) Mutex<Known>);

#[derive(Default)]
pub(crate) struct Known {
    pub(crate) at: Option<UnixMillis>,
    pub(crate) why_not: Option<&'static str>,
    pub(crate) full_writes: u64,
    pub(crate) full_at: Option<UnixMillis>,
}

//! Waits between tries that failed.

use longhaul_core::Millis;

/// The wait between two tries: doubled each time, up to a longest one, and spread by up to a half either way so that many do not come
/// back at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Before the second try, in milliseconds.
    pub first: Millis,
    /// The longest, in milliseconds.
    pub longest: Millis,
}

impl Default for Backoff {
    /// From a second to a minute.
    fn default() -> Self {
        Self {
            first: 1_000,
            longest: 60_000,
        }
    }
}

impl Backoff {
    /// The wait after `failed` tries; `spread` is any number, drawn for this wait.
    pub fn after(self, failed: u32, spread: u64) -> Millis {
        let doublings = failed.saturating_sub(1).min(30);
        let wait = self.first.saturating_mul(1 << doublings).min(self.longest);
        wait / 2 + spread % (wait + 1)
    }
}

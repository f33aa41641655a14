//! What is known of whether the server takes work.

use longhaul_core::UnixMillis;
use tokio::sync::Mutex;

/// After a write that has failed for a lasting reason, the server takes no work for so long, in milliseconds, unless another one was made since.
const NO_WORK: u64 = 30_000;

/// What was answered last.
#[derive(Default)]
pub(crate) struct Readiness(pub(crate) Mutex<ReadinessState>);

#[derive(Default)]
pub(crate) struct ReadinessState {
    pub(crate) at: Option<UnixMillis>,
    pub(crate) why_not: Option<&'static str>,
    /// Why no server begins work, if none does. Calls are accepted all the same.
    pub(crate) no_worker: Option<&'static str>,
    pub(crate) full_writes: u64,
    pub(crate) full_at: Option<UnixMillis>,
    wrote_since_full: bool,
    /// What was wrong with the store when a write last failed for that reason, and when that was seen.
    unusable: Option<(&'static str, UnixMillis)>,
}

impl ReadinessState {
    /// So many writes have failed for want of room.
    pub(crate) fn count_full_writes(&mut self, full_writes: u64, now: UnixMillis) {
        if full_writes > self.full_writes {
            (self.full_writes, self.full_at) = (full_writes, Some(now));
            self.wrote_since_full = false;
        }
    }

    /// A write has failed because of this. Reads may be possible meanwhile.
    pub(crate) fn note_unusable(&mut self, why: &'static str, now: UnixMillis) {
        self.unusable = Some((why, now));
    }

    /// A write was made after those that have failed. The disk may still be full for a larger one.
    pub(crate) fn note_write(&mut self) {
        self.unusable = None;
        self.wrote_since_full = true;
    }

    /// Why a write would fail, if one has failed lately.
    pub(crate) fn unusable(&self, now: UnixMillis) -> Option<&'static str> {
        let (why, at) = self.unusable?;
        (now.since(at) < NO_WORK).then_some(why)
    }

    /// Whether a write would fail for want of room. Without calls no write fails, and the disk may still be full.
    pub(crate) fn is_full(&self, now: UnixMillis, is_used_up: impl FnOnce() -> bool) -> bool {
        let is_recent = |at| !self.wrote_since_full && now.since(at) < NO_WORK;
        self.full_at.is_some_and(|at| is_recent(at) || is_used_up())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_was_full_is_full_until_there_is_room() {
        let mut known = ReadinessState::default();
        assert!(!known.is_full(UnixMillis(0), || true), "no write has failed");
        known.count_full_writes(1, UnixMillis(0));
        assert!(known.is_full(UnixMillis(NO_WORK as i64 - 1), || false));
        assert!(known.is_full(UnixMillis(1_000_000), || true));
        assert!(!known.is_full(UnixMillis(1_000_000), || false));
        known.count_full_writes(1, UnixMillis(1_000_000));
        assert!(!known.is_full(UnixMillis(1_000_000), || false), "it is the same write");
    }

    #[test]
    fn a_write_shows_that_there_is_room_again() {
        let mut known = ReadinessState::default();
        known.count_full_writes(1, UnixMillis(0));
        known.note_unusable("no right", UnixMillis(0));
        known.note_write();
        assert!(
            known.is_full(UnixMillis(1), || true),
            "a small one may fit into what is left"
        );
        assert!(!known.is_full(UnixMillis(1), || false));
        assert_eq!(known.unusable(UnixMillis(1)), None);
        known.count_full_writes(2, UnixMillis(2));
        assert!(known.is_full(UnixMillis(3), || false), "one has failed since");
    }

    #[test]
    fn a_store_that_refused_a_write_is_unusable_for_a_while() {
        let mut known = ReadinessState::default();
        assert_eq!(known.unusable(UnixMillis(0)), None);
        known.note_unusable("no right", UnixMillis(0));
        assert_eq!(known.unusable(UnixMillis(NO_WORK as i64 - 1)), Some("no right"));
        assert_eq!(known.unusable(UnixMillis(NO_WORK as i64)), None);
    }
}

//! How long a command's outputs are read after its end.

use std::time::{Duration, Instant};

/// How long, in all, a pipe may be found empty while another process still has it open.
const DRAIN: Duration = Duration::from_secs(1);
/// How much is read beyond what was there at the end: a process that was left behind may write for ever.
const LATE_BYTES: u64 = 16 << 20;

/// Decides when reading ends although another process, one that the command left behind, still has an output open.
///
/// What was written before the command's end is always read, however long that takes: time counts only from a look that found
/// nothing to the next look, and reading ends only with a look that finds nothing.
pub(super) struct Drain {
    time_left: Duration,
    /// When a look that found nothing was over, unless something was found since.
    empty_since: Option<Instant>,
    bytes_left: u64,
    over: bool,
}

impl Drain {
    /// Begins when the command has ended. `buffered`: the bytes that the pipes hold by then.
    pub(super) fn begin(buffered: u64) -> Self {
        Self {
            time_left: DRAIN,
            empty_since: None,
            bytes_left: buffered.saturating_add(LATE_BYTES),
            over: false,
        }
    }

    /// A look that was over by `now` has found something to read.
    pub(super) fn found_something(&mut self, now: Instant) {
        if let Some(since) = self.empty_since.take() {
            self.wait(now, since);
        }
    }

    /// These many bytes were read.
    pub(super) fn read(&mut self, bytes: u64) {
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.over |= self.bytes_left == 0;
    }

    /// A look that was over by `now` has found nothing to read.
    pub(super) fn found_nothing(&mut self, now: Instant) {
        // The time was up before this look.
        self.over |= self.time_left.is_zero();
        if let Some(since) = self.empty_since.replace(now) {
            self.wait(now, since);
        }
    }

    fn wait(&mut self, now: Instant, since: Instant) {
        self.time_left = self.time_left.saturating_sub(now.saturating_duration_since(since));
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// When to look next, whether or not something has come by then.
    pub(super) fn next_look(&self, now: Instant) -> Duration {
        match self.empty_since {
            Some(since) => self.time_left.saturating_sub(now.saturating_duration_since(since)),
            None => Duration::ZERO,
        }
    }
}

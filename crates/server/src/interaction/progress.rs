//! Sent progress must only rise, and a tool may report any number.

/// Less than tools report.
const SMALLEST_RISE: f64 = 1e-6;

/// The highest progress that a client was sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HighestProgress(Option<f64>);

impl HighestProgress {
    /// For a client that may have been sent `current`.
    pub(crate) fn starting_at(current: Option<f64>) -> Self {
        Self(current)
    }

    /// A progress that rises, and says nothing of what is done.
    pub(crate) fn rise(&mut self) -> f64 {
        let highest = self.0.unwrap_or_default();
        let next = (highest + SMALLEST_RISE).max(highest.next_up());
        self.0 = Some(next);
        next
    }

    /// Whether to send `current`, because it is higher than what was sent; it then counts as sent.
    pub(crate) fn rises_to(&mut self, current: f64) -> bool {
        let rises = current.is_finite() && self.0.is_none_or(|highest| current > highest);
        if rises {
            self.0 = Some(current);
        }
        rises
    }
}

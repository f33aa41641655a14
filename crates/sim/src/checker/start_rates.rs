//! How close to each other the attempts of a tool with a rate begin.

use super::{Checker, Invariant};
use longhaul_core::{
    UnixMillis,
    store::{Claim, Claimed, NewTask},
};
use std::{collections::BTreeMap, sync::Arc};

/// The tool with a start rate.
pub(crate) const RATED: &str = "rated";
/// A start that is noted later than this was noted by a clock that was wrong, in milliseconds.
const WRONG_CLOCK: u64 = 60_000;

/// When the last attempt of each tool with a rate has begun, by the clock of its node.
#[derive(Default)]
pub(crate) struct StartRates(BTreeMap<Arc<str>, UnixMillis>);

impl Checker {
    /// Tasks of a tool were claimed.
    pub(super) fn check_rate(&mut self, claim: &Claim, claimed: &[Claimed]) {
        let (Some(rate), Some(first)) = (claim.rate, claimed.first()) else {
            return;
        };
        let name = self.name(&first.task.id);
        if claimed.len() > 1 {
            self.report(
                Invariant::START_RATES,
                format!("{} tasks were claimed with {name}", claimed.len()),
            );
        }
        let Some(last) = self.start_rates.0.insert(Arc::clone(&claim.tool), claim.at) else {
            return;
        };
        let is_close = claim.at < last.plus(rate.spacing());
        if is_close && last <= claim.at.plus(WRONG_CLOCK) {
            self.report(
                Invariant::START_RATES,
                format!(
                    "{name} began at {:?}, and the one before at {last:?}, with {rate}",
                    claim.at
                ),
            );
        }
    }

    /// A task of a tool with a rate begins only from its queue.
    pub(super) fn check_first_claim(&mut self, new: &NewTask) {
        if new.claim.is_some() && *new.tool == *RATED {
            let what = format!("{} began as it was created", self.name(&new.id));
            self.report(Invariant::START_RATES, what);
        }
    }
}

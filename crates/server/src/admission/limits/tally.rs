//! Counted permits, limited for each holder and in all.

use parking_lot::Mutex;
use std::{collections::HashMap, hash::Hash, sync::Arc};

/// No permit is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Full {
    /// The holder has reached its limit.
    #[error("{0} of one client")]
    OfOne(usize),
    /// The limit of all together is reached.
    #[error("{0} of all together")]
    InAll(usize),
}

/// Counts permits by their holder. A holder without permits is not kept.
pub(super) struct Tally<K: Eq + Hash> {
    of_one: usize,
    pub(super) in_all: usize,
    counts: Arc<Mutex<Counts<K>>>,
}

struct Counts<K> {
    by: HashMap<K, usize>,
    in_all: usize,
}

/// A permit; released when dropped.
pub(crate) struct Permit<K: Eq + Hash> {
    counts: Arc<Mutex<Counts<K>>>,
    by: K,
}

impl<K: Eq + Hash + Clone> Tally<K> {
    pub(super) fn new(of_one: usize, in_all: usize) -> Self {
        let counts = Counts {
            by: HashMap::new(),
            in_all: 0,
        };
        Self {
            of_one,
            in_all,
            counts: Arc::new(Mutex::new(counts)),
        }
    }

    /// How many permits are taken.
    pub(super) fn count(&self) -> usize {
        self.counts.lock().in_all
    }

    /// Takes a permit for `by`.
    pub(super) fn enter(&self, by: K) -> Result<Permit<K>, Full> {
        self.enter_up_to(by, usize::MAX)
    }

    /// The same, where one holder may have at most so many.
    pub(super) fn enter_up_to(&self, by: K, most: usize) -> Result<Permit<K>, Full> {
        let of_one = self.of_one.min(most);
        let mut counts = self.counts.lock();
        if counts.in_all >= self.in_all {
            return Err(Full::InAll(self.in_all));
        }
        if counts.by.get(&by).copied().unwrap_or_default() >= of_one {
            return Err(Full::OfOne(of_one));
        }
        counts.in_all += 1;
        *counts.by.entry(by.clone()).or_default() += 1;
        Ok(Permit {
            counts: Arc::clone(&self.counts),
            by,
        })
    }
}

impl<K: Eq + Hash> Drop for Permit<K> {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        counts.in_all -= 1;
        if let Some(count) = counts.by.get_mut(&self.by) {
            *count -= 1;
            if *count == 0 {
                counts.by.remove(&self.by);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with a list of the holders.
        #[test]
        fn s_06_permits_stay_within_the_limits_and_are_released(
            of_one in 0usize..4,
            in_all in 0usize..8,
            steps in prop::collection::vec((0u8..4, any::<prop::sample::Index>(), prop::bool::weighted(0.6)), 0..64),
        ) {
            let tally = Tally::new(of_one, in_all);
            let mut inside: Vec<(u8, Permit<u8>)> = Vec::new();
            for (who, which, enters) in steps {
                if enters {
                    let own = inside.iter().filter(|(by, _)| *by == who).count();
                    match tally.enter(who) {
                        Ok(permit) => {
                            prop_assert!(own < of_one && inside.len() < in_all);
                            inside.push((who, permit));
                        }
                        Err(Full::InAll(limit)) => prop_assert_eq!((limit, inside.len()), (in_all, in_all)),
                        Err(Full::OfOne(limit)) => prop_assert_eq!((limit, own), (of_one, of_one)),
                    }
                } else if !inside.is_empty() {
                    inside.swap_remove(which.index(inside.len()));
                }
            }
            inside.clear();
            let counts = tally.counts.lock();
            prop_assert_eq!((counts.in_all, counts.by.len()), (0, 0), "no holder is kept");
        }
    }
}

//! Places: so many for one, so many in all.

use parking_lot::{Mutex, MutexGuard};
use std::{collections::HashMap, hash::Hash, sync::Arc};

/// No place is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Full {
    /// One client has as many as it may.
    #[error("{0} of one client")]
    OfOne(usize),
    /// There are as many as there may be.
    #[error("{0} of all together")]
    InAll(usize),
}

/// Counts places that are taken, by who has them. Who has none is not remembered.
pub(super) struct Tally<K: Eq + Hash> {
    of_one: usize,
    pub(super) in_all: usize,
    taken: Arc<Mutex<Taken<K>>>,
}

struct Taken<K> {
    by: HashMap<K, usize>,
    in_all: usize,
}

/// A place; given back when dropped.
pub(crate) struct Permit<K: Eq + Hash> {
    taken: Arc<Mutex<Taken<K>>>,
    by: K,
}

impl<K: Eq + Hash + Clone> Tally<K> {
    pub(super) fn new(of_one: usize, in_all: usize) -> Self {
        let taken = Taken {
            by: HashMap::new(),
            in_all: 0,
        };
        Self {
            of_one,
            in_all,
            taken: Arc::new(Mutex::new(taken)),
        }
    }

    /// Takes a place for `by`.
    pub(super) fn enter(&self, by: K) -> Result<Permit<K>, Full> {
        let mut taken = lock(&self.taken);
        if taken.in_all >= self.in_all {
            return Err(Full::InAll(self.in_all));
        }
        if taken.by.get(&by).copied().unwrap_or_default() >= self.of_one {
            return Err(Full::OfOne(self.of_one));
        }
        taken.in_all += 1;
        *taken.by.entry(by.clone()).or_default() += 1;
        Ok(Permit {
            taken: Arc::clone(&self.taken),
            by,
        })
    }
}

impl<K: Eq + Hash> Drop for Permit<K> {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        taken.in_all -= 1;
        if let Some(count) = taken.by.get_mut(&self.by) {
            *count -= 1;
            if *count == 0 {
                taken.by.remove(&self.by);
            }
        }
    }
}

fn lock<K>(taken: &Mutex<Taken<K>>) -> MutexGuard<'_, Taken<K>> {
    taken.lock()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a list of who is inside.
        #[test]
        fn s_06_there_are_never_more_than_the_limits_and_each_place_is_given_back(
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
            let taken = lock(&tally.taken);
            prop_assert_eq!((taken.in_all, taken.by.len()), (0, 0), "nobody is remembered");
        }
    }
}

//! Random jitter for polls and retries.

use parking_lot::Mutex;

/// A random number generator for jitter. It is not used for secrets.
#[derive(Debug)]
pub(crate) struct Jitter(Mutex<fastrand::Rng>);

impl Jitter {
    /// Seeded with `seed`, or by the system.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self(Mutex::new(
            seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed),
        ))
    }

    /// A random number from 0 up to but not including 1.
    pub(crate) fn next(&self) -> f64 {
        let mut rng = self.0.lock();
        rng.f64()
    }
}

//! The runtime's ports for a simulated process: a clock that jumps, randomness from the seed, and the simulation's executor.

use crate::executor::{Executor, Process};
use longhaul_core::{BoxFuture, Clock, Entropy, UnixMillis};
use longhaul_runtime::{Ports, Spawner};
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

/// The time at which every simulation starts, in unix milliseconds.
const START: i64 = 1_700_000_000_000;

/// The difference between a process's clock and the simulated time, in milliseconds.
pub(crate) type Skew = Arc<AtomicI64>;

/// The ports of `process`.
pub(crate) fn ports(executor: &Arc<Executor>, process: Process, skew: &Skew, entropy: fastrand::Rng) -> Ports {
    Ports {
        clock: Arc::new(JumpingClock {
            executor: Arc::clone(executor),
            skew: Arc::clone(skew),
        }),
        entropy: Arc::new(SeededEntropy(Mutex::new(entropy))),
        spawner: Arc::new(ProcessSpawner {
            executor: Arc::clone(executor),
            process,
        }),
    }
}

/// The time by the clock of a process.
pub(crate) fn now(executor: &Executor, skew: &Skew) -> UnixMillis {
    let passed = i64::try_from(executor.elapsed()).unwrap_or(i64::MAX);
    UnixMillis(START + passed + skew.load(Ordering::SeqCst))
}

/// The clock of the store, which does not jump.
pub(crate) fn store_clock(executor: &Arc<Executor>) -> Arc<dyn Clock> {
    Arc::new(JumpingClock {
        executor: Arc::clone(executor),
        skew: Skew::default(),
    })
}

struct JumpingClock {
    executor: Arc<Executor>,
    skew: Skew,
}

impl Clock for JumpingClock {
    fn now(&self) -> UnixMillis {
        now(&self.executor, &self.skew)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.executor.elapsed())
    }

    /// Monotonic, like the system's: jumps of the clock do not change it.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(self.executor.sleep(duration))
    }
}

struct SeededEntropy(Mutex<fastrand::Rng>);

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().fill(bytes);
    }
}

struct ProcessSpawner {
    executor: Arc<Executor>,
    process: Process,
}

impl Spawner for ProcessSpawner {
    fn spawn(&self, work: BoxFuture<'static, ()>) {
        self.executor.spawn(self.process, work);
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.executor.spawn(self.process, Box::pin(async move { work() }));
    }
}

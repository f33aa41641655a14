//! Time and randomness that are the same each time.

use longhaul_core::{BoxFuture, Clock, Entropy, UnixMillis};
use longhaul_runtime::{Ports, Spawner};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    time::Instant,
};

/// A runtime of one thread, in which time passes only when nothing else can happen.
pub(crate) fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap()
}

/// Ports into the runtime this is called in.
pub(crate) fn ports() -> Ports {
    Ports {
        clock: Arc::new(Paused::here()),
        entropy: Arc::new(Counted(AtomicU64::new(0))),
        spawner: Arc::new(Here(Handle::current())),
    }
}

/// Tokio's time, which is paused.
struct Paused(Instant);

impl Paused {
    #[expect(clippy::disallowed_methods, reason = "this is the port")]
    fn here() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Paused {
    fn now(&self) -> UnixMillis {
        UnixMillis(1_795_165_200_000).plus(self.0.elapsed().as_millis() as u64)
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the port")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// The same bytes in each world.
struct Counted(AtomicU64);

impl Entropy for Counted {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            // Spread, so that no two ids have the same prefix.
            let next = self
                .0
                .fetch_add(1, Ordering::Relaxed)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            chunk.copy_from_slice(&next.to_be_bytes()[..chunk.len()]);
        }
    }
}

struct Here(Handle);

impl Spawner for Here {
    #[expect(clippy::disallowed_methods, reason = "this is the port")]
    fn spawn(&self, work: BoxFuture<'static, ()>) {
        self.0.spawn(work);
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        work();
    }
}

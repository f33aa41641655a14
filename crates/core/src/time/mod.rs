//! Time as Longhaul keeps it, and the port through which it comes in.

pub(crate) mod duration;
pub(crate) mod timestamp;

use std::{future::Future, pin::Pin, time::Duration};

/// A boxed future, so that ports stay object-safe without naming an executor.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A length of time in milliseconds.
pub type Millis = u64;

/// A point in time: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UnixMillis(pub i64);

impl UnixMillis {
    /// This time plus `millis`, saturating instead of wrapping.
    pub fn plus(self, millis: Millis) -> Self {
        Self(self.0.saturating_add(i64::try_from(millis).unwrap_or(i64::MAX)))
    }

    /// Milliseconds from `earlier` to here; 0 if `earlier` is later.
    pub fn since(self, earlier: Self) -> Millis {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}

/// One reading of a [`Clock`], for showing times to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The present time on the clock's own time line.
    pub at: UnixMillis,
    /// How far the system's clock is ahead of that time line, in milliseconds.
    pub offset: i64,
}

impl Now {
    /// The time of the system's clock at a time of the engine's clock.
    pub fn in_the_world(self, at: UnixMillis) -> UnixMillis {
        UnixMillis(at.0.saturating_add(self.offset))
    }
}

impl From<UnixMillis> for Now {
    fn from(at: UnixMillis) -> Self {
        Self { at, offset: 0 }
    }
}

/// The only clock Longhaul reads.
///
/// Whatever is a length of time (a deadline, a backoff, a retention) counts by [`now`](Self::now), also where it is kept as the time at
/// which it ends. Only what people mean by a date counts by [`wall`](Self::wall).
pub trait Clock: Send + Sync {
    /// The present time. The system's clock may jump; an engine's clock, which is derived from it, never does.
    fn now(&self) -> UnixMillis;

    /// The system's clock. It may jump, either way, at any time.
    fn wall(&self) -> UnixMillis {
        self.now()
    }

    /// How far [`wall`](Self::wall) is ahead of [`now`](Self::now), in milliseconds. It changes only when the system's clock was set, so that shown
    /// times are stable.
    fn offset(&self) -> i64 {
        0
    }

    /// How much time has passed since some moment before. It never jumps and never goes back.
    fn monotonic(&self) -> Duration;

    /// The present time, for showing times to people.
    fn read(&self) -> Now {
        Now {
            at: self.now(),
            offset: self.offset(),
        }
    }

    /// Completes after `duration` has passed.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

//! Time as Longhaul keeps it, and the port through which it comes in.

use std::{future::Future, pin::Pin, time::Duration};

/// A boxed future, so that ports stay object-safe without naming an executor.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A length of time in milliseconds.
pub type Millis = u64;

/// A moment: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UnixMillis(pub i64);

impl UnixMillis {
    /// This moment plus `millis`, stopping at the end of time instead of wrapping.
    pub fn plus(self, millis: Millis) -> Self {
        Self(self.0.saturating_add(i64::try_from(millis).unwrap_or(i64::MAX)))
    }

    /// Milliseconds from `earlier` to here; 0 if `earlier` is later.
    pub fn since(self, earlier: Self) -> Millis {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}

/// The only clock Longhaul reads.
pub trait Clock: Send + Sync {
    /// The present moment. It may jump; nothing relies on it never going back.
    fn now(&self) -> UnixMillis;

    /// Completes after `duration` has passed.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

//! How much one principal, and all together, may ask of this server (S-06, G1-59).
//!
//! Requests are counted here, streams too; live tasks and stored bytes are counted by the store, in the transaction that creates.

use governor::{
    Quota as Rate, RateLimiter,
    clock::{Clock as _, Reference},
    middleware::NoOpMiddleware,
    nanos::Nanos,
    state::keyed::HashMapStateStore,
};
use longhaul_core::{Clock, Principal, QuotaExceeded};
use longhaul_wire::RpcError;
use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Limits, each of them optional.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Requests of one principal in a second, with bursts of twice as many. Nobody is limited without authentication, since all
    /// clients are the same principal then, unless this is given all the same.
    pub requests_per_second: Option<NonZeroU32>,
    /// Long-lived streams of one principal at once: GET streams and subscriptions.
    pub streams: usize,
}

/// Streams of one principal.
const STREAMS: usize = 1024;
/// What is said to those who have too many tasks or bytes: nobody knows when there will be room.
const QUOTA_PAUSE: Duration = Duration::from_secs(10);
/// The same for streams.
const STREAM_PAUSE: Duration = Duration::from_secs(5);
/// Principals that have asked for nothing lately are forgotten when so many are remembered.
const REMEMBERED: usize = 10_000;

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests_per_second: None,
            streams: STREAMS,
        }
    }
}

/// Why a request is not answered now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Busy {
    /// Too many requests.
    #[error("Too many requests: at most {limit} in a second")]
    Rate {
        /// In a second.
        limit: u32,
        /// Until the next one is welcome.
        wait: Duration,
    },
    /// Too many live tasks, or too many bytes.
    #[error("The call was not taken: {0}")]
    Quota(QuotaExceeded),
    /// Too many streams.
    #[error("Too many streams are open: at most {limit}")]
    Streams {
        /// At once.
        limit: usize,
    },
}

impl From<Busy> for RpcError {
    /// HTTP 429 with `Retry-After`. The protocol defines no code for it (C-47), so ours is outside what it reserves.
    fn from(busy: Busy) -> Self {
        let wait = match &busy {
            Busy::Rate { wait, .. } => *wait,
            Busy::Streams { .. } => STREAM_PAUSE,
            Busy::Quota(_) => QUOTA_PAUSE,
        };
        RpcError::busy(busy.to_string(), wait)
    }
}

/// Counts what is limited.
pub(crate) struct Meter {
    limits: Limits,
    requests: Option<Requests>,
    streams: Streams,
}

struct Requests {
    clock: PortClock,
    limiter: RateLimiter<Principal, HashMapStateStore<Principal>, PortClock, NoOpMiddleware<Moment>>,
}

/// Open streams by principal.
#[derive(Clone, Default)]
struct Streams(Arc<Mutex<HashMap<Principal, usize>>>);

/// A principal's right to an open stream; given back when dropped.
pub(crate) struct StreamPermit {
    streams: Streams,
    principal: Principal,
}

impl Meter {
    pub(crate) fn new(limits: Limits, clock: Arc<dyn Clock>) -> Self {
        let requests = limits.requests_per_second.map(|most| {
            let clock = PortClock(clock);
            let rate = Rate::per_second(most).allow_burst(most.saturating_mul(NonZeroU32::MIN.saturating_add(1)));
            Requests {
                limiter: RateLimiter::new(rate, HashMapStateStore::default(), clock.clone()),
                clock,
            }
        });
        Self {
            limits,
            requests,
            streams: Streams::default(),
        }
    }

    /// Counts a request.
    pub(crate) fn request(&self, principal: &Principal) -> Result<(), Busy> {
        let Some(Requests { clock, limiter }) = &self.requests else {
            return Ok(());
        };
        if limiter.len() > REMEMBERED {
            limiter.retain_recent();
        }
        limiter.check_key(principal).map_err(|early| Busy::Rate {
            limit: self.limits.requests_per_second.map_or(0, NonZeroU32::get),
            wait: early.wait_time_from(clock.now()),
        })
    }

    /// Counts a stream for as long as the permit lives.
    pub(crate) fn stream(&self, principal: &Principal) -> Result<StreamPermit, Busy> {
        let limit = self.limits.streams;
        let mut open = self.streams.lock();
        let count = open.entry(principal.clone()).or_default();
        if *count >= limit {
            return Err(Busy::Streams { limit });
        }
        *count += 1;
        Ok(StreamPermit {
            streams: self.streams.clone(),
            principal: principal.clone(),
        })
    }
}

impl Streams {
    fn lock(&self) -> MutexGuard<'_, HashMap<Principal, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self.streams.lock();
        if let Some(count) = open.get_mut(&self.principal) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.principal);
            }
        }
    }
}

/// The clock port, as the limiter wants to read it.
#[derive(Clone)]
struct PortClock(Arc<dyn Clock>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moment(Nanos);

impl governor::clock::Clock for PortClock {
    type Instant = Moment;

    fn now(&self) -> Moment {
        let millis = u64::try_from(self.0.now().0).unwrap_or_default();
        Moment(Nanos::from(Duration::from_millis(millis)))
    }
}

impl Reference for Moment {
    fn duration_since(&self, earlier: Self) -> Nanos {
        self.0.saturating_sub(earlier.0)
    }

    fn saturating_sub(&self, duration: Nanos) -> Self {
        Self(self.0.saturating_sub(duration))
    }
}

impl std::ops::Add<Nanos> for Moment {
    type Output = Self;

    fn add(self, more: Nanos) -> Self {
        Self(self.0 + more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::{BoxFuture, UnixMillis};
    use std::sync::atomic::{AtomicI64, Ordering};

    struct Hand(AtomicI64);

    impl Clock for Hand {
        fn now(&self) -> UnixMillis {
            UnixMillis(self.0.load(Ordering::SeqCst))
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    fn meter(requests: Option<u32>, streams: usize) -> (Arc<Hand>, Meter) {
        let clock = Arc::new(Hand(AtomicI64::new(1_700_000_000_000)));
        let limits = Limits {
            requests_per_second: requests.and_then(NonZeroU32::new),
            streams,
        };
        (clock.clone(), Meter::new(limits, clock))
    }

    #[test]
    fn s_06_a_principal_gets_its_rate_and_is_told_when_the_next_request_is_welcome() {
        let (clock, meter) = meter(Some(10), 1);
        let (one, other) = (Principal::named("one"), Principal::named("other"));
        assert_eq!(
            (0..50).filter(|_| meter.request(&one).is_ok()).count(),
            20,
            "a burst of two seconds"
        );
        let Err(Busy::Rate { limit: 10, wait }) = meter.request(&one) else {
            panic!("limited")
        };
        assert!(meter.request(&other).is_ok(), "somebody else is not");
        clock
            .0
            .fetch_add(i64::try_from(wait.as_millis()).unwrap() + 1, Ordering::SeqCst);
        assert!(meter.request(&one).is_ok());
        assert!(meter.request(&one).is_err());
    }

    #[test]
    fn nobody_is_limited_without_a_rate() {
        let (_, meter) = meter(None, 1);
        assert!((0..10_000).all(|_| meter.request(&Principal::local()).is_ok()));
    }

    #[test]
    fn a_stream_gives_its_place_back() {
        let (_, meter) = meter(None, 2);
        let local = Principal::local();
        let first = meter.stream(&local).unwrap();
        let _second = meter.stream(&local).unwrap();
        assert!(matches!(meter.stream(&local), Err(Busy::Streams { limit: 2 })));
        assert!(meter.stream(&Principal::named("other")).is_ok());
        drop(first);
        assert!(meter.stream(&local).is_ok());
    }
}

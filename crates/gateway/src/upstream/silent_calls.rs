//! The calls to an upstream that has answered nothing for long.

use longhaul_core::{Clock, approximate_duration, whole_millis};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};

/// When an upstream was last heard of, by the monotonic clock.
#[derive(Clone)]
pub(crate) struct LastHeard(Arc<Mutex<Duration>>);

impl LastHeard {
    /// Now, by this clock.
    pub(crate) fn now(clock: &dyn Clock) -> Self {
        Self(Arc::new(Mutex::new(clock.monotonic())))
    }

    /// It is heard of again.
    pub(crate) fn set(&self, clock: &dyn Clock) {
        *self.0.lock() = clock.monotonic();
    }

    pub(crate) fn silence(&self, clock: &dyn Clock) -> Duration {
        clock.monotonic().saturating_sub(*self.0.lock())
    }
}

/// The calls to an upstream that has answered nothing for long.
#[derive(Default)]
pub(crate) struct SilentCalls(Mutex<Vec<LastHeard>>);

impl SilentCalls {
    /// What is wrong with the upstream, if it answers some calls nothing.
    pub(crate) fn words(&self, clock: &dyn Clock) -> Option<String> {
        let calls = self.0.lock();
        let longest = calls.iter().map(|heard| heard.silence(clock)).max()?;
        let calls = match calls.len() {
            1 => "one call".to_owned(),
            calls => format!("{calls} calls"),
        };
        Some(format!(
            "{calls} and pings have had no answer for {}",
            in_seconds(longest)
        ))
    }

    /// Adds a call.
    pub(crate) fn add(&self, heard: &LastHeard) -> SilentCall<'_> {
        self.0.lock().push(heard.clone());
        SilentCall {
            calls: self,
            heard: heard.clone(),
        }
    }
}

/// A call is one of them until this is dropped.
pub(crate) struct SilentCall<'a> {
    calls: &'a SilentCalls,
    heard: LastHeard,
}

impl Drop for SilentCall<'_> {
    fn drop(&mut self) {
        let is_other = |heard: &LastHeard| !Arc::ptr_eq(&heard.0, &self.heard.0);
        self.calls.0.lock().retain(is_other);
    }
}

/// A duration in whole seconds.
pub(crate) fn in_seconds(duration: Duration) -> String {
    approximate_duration(whole_millis(duration) / 1_000 * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::{BoxFuture, UnixMillis};

    /// A clock that says what it is set to.
    struct FixedClock(Duration);

    impl Clock for FixedClock {
        fn now(&self) -> UnixMillis {
            UnixMillis(0)
        }

        fn monotonic(&self) -> Duration {
            self.0
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn an_upstream_is_silent_while_one_of_its_calls_is() {
        let at = |seconds| FixedClock(Duration::from_secs(seconds));
        let heard = |seconds| LastHeard::now(&at(seconds));
        let calls = SilentCalls::default();
        assert_eq!(calls.words(&at(1_000)), None);
        let first = calls.add(&heard(100));
        let expected = "one call and pings have had no answer for 15m";
        assert_eq!(calls.words(&at(1_000)).unwrap(), expected);
        let second = calls.add(&heard(940));
        let expected = "2 calls and pings have had no answer for 15m1s";
        assert_eq!(calls.words(&at(1_001)).unwrap(), expected);
        drop(first);
        let expected = "one call and pings have had no answer for 1m";
        assert_eq!(calls.words(&at(1_000)).unwrap(), expected);
        drop(second);
        assert_eq!(calls.words(&at(1_000)), None);
    }
}

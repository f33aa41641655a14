//! Requests in a second.

use super::{Busy, Source};
use governor::{
    Quota, RateLimiter,
    clock::{Clock as _, Reference},
    middleware::NoOpMiddleware,
    nanos::Nanos,
    state::{InMemoryState, NotKeyed, keyed::HashMapStateStore},
};
use longhaul_core::{Clock, Principal};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    hash::Hash,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// How many senders are kept before idle ones are removed for the first time.
const MIN_KEPT: usize = 10_000;

type DirectLimiter<State> = RateLimiter<NotKeyed, State, PortClock, NoOpMiddleware<MonotonicInstant>>;
type KeyedLimiter<K> = RateLimiter<K, HashMapStateStore<K>, PortClock, NoOpMiddleware<MonotonicInstant>>;

/// Counts requests.
pub(super) struct Rates {
    clock: PortClock,
    per_principal: Option<(NonZeroU32, SenderLimiter<Principal>)>,
    in_all: Option<(NonZeroU32, DirectLimiter<InMemoryState>)>,
}

/// Counts denied requests by where they came from.
pub(super) struct DeniedRates {
    clock: PortClock,
    most: NonZeroU32,
    each: SenderLimiter<Source>,
    over: Mutex<OverRate>,
}

/// Who is over the rate, until when. Bounded as the limiter is, which keeps each of them, too.
struct OverRate {
    until: HashMap<Source, MonotonicInstant>,
    /// As [`SenderLimiter::sweep_above`].
    sweep_above: usize,
}

/// Counts requests of some kind by principal.
pub(super) struct MethodRate {
    rates: Rates,
    /// It is a default, which does not concern the user who runs the server.
    spares_local: bool,
}

impl MethodRate {
    /// At most `set`, else `default`.
    pub(super) fn new(set: Option<NonZeroU32>, default: Option<NonZeroU32>, clock: &Arc<dyn Clock>) -> Self {
        Self {
            rates: Rates::new(set.or(default), None, clock),
            spares_local: set.is_none(),
        }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// Of one too many: how many are allowed in a second, and the time until the next one.
    pub(super) fn count(&self, principal: &Principal) -> Result<(), (u32, Duration)> {
        self.count_as(principal, principal, NonZeroU32::MIN)
    }

    /// Counts so many requests of a principal at once, under another name; at most as many as a burst has.
    ///
    /// # Errors
    /// As [`count`](Self::count); none of them is counted.
    pub(super) fn count_as(
        &self,
        principal: &Principal,
        name: &Principal,
        requests: NonZeroU32,
    ) -> Result<(), (u32, Duration)> {
        if self.rates.per_principal.is_none() || (self.spares_local && *principal == Principal::local()) {
            return Ok(());
        }
        match self.rates.count_all(name, requests) {
            Err(Busy::Rate { limit, wait }) => Err((limit, wait)),
            _ => Ok(()),
        }
    }
}

/// Counts requests by sender.
struct SenderLimiter<K: Clone + Hash + Eq> {
    limiter: KeyedLimiter<K>,
    /// How many are kept before idle ones are removed again: twice as many as were left the last time, so that the cost of a sweep is spread
    /// over as many new senders.
    sweep_above: AtomicUsize,
}

impl Rates {
    pub(super) fn new(per_principal: Option<NonZeroU32>, in_all: Option<NonZeroU32>, clock: &Arc<dyn Clock>) -> Self {
        let clock = PortClock(Arc::clone(clock));
        let per_principal = per_principal.map(|most| (most, SenderLimiter::new(most, &clock)));
        let in_all = in_all.map(|most| (most, RateLimiter::direct_with_clock(rate(most), clock.clone())));
        Self {
            clock,
            per_principal,
            in_all,
        }
    }

    /// Counts a request. A principal over its own rate is refused before the common rate is charged.
    pub(super) fn count(&self, principal: &Principal) -> Result<(), Busy> {
        self.count_all(principal, NonZeroU32::MIN)
    }

    /// Counts so many requests of a principal at once, at most as many as a burst has. For all together they are one.
    fn count_all(&self, principal: &Principal, requests: NonZeroU32) -> Result<(), Busy> {
        if let Some((most, each)) = &self.per_principal {
            each.remove_idle();
            let requests = requests.min(rate(*most).burst_size());
            // A burst fits.
            let early = each.limiter.check_key_n(principal, requests).unwrap_or(Ok(()));
            early.map_err(|early| busy(*most, early.wait_time_from(self.clock.now())))?;
        }
        if let Some((most, limiter)) = &self.in_all {
            let early = limiter.check();
            early.map_err(|early| busy(*most, early.wait_time_from(self.clock.now())))?;
        }
        Ok(())
    }
}

impl DeniedRates {
    pub(super) fn new(most: NonZeroU32, clock: &Arc<dyn Clock>) -> Self {
        let clock = PortClock(Arc::clone(clock));
        Self {
            most,
            each: SenderLimiter::new(most, &clock),
            over: Mutex::new(OverRate {
                until: HashMap::new(),
                sweep_above: MIN_KEPT,
            }),
            clock,
        }
    }

    /// Counts a denied request.
    pub(super) fn count(&self, source: Source) -> Result<(), Busy> {
        self.each.remove_idle();
        self.each.limiter.check_key(&source).map_err(|early| {
            let now = self.clock.now();
            let wait = early.wait_time_from(now);
            let mut over = self.over.lock();
            if over.until.len() > over.sweep_above {
                over.until.retain(|_, until| *until > now);
                over.sweep_above = over.until.len().saturating_mul(2).max(MIN_KEPT);
            }
            over.until.insert(source, now + Nanos::from(wait));
            busy(self.most, wait)
        })
    }

    /// Whether the next denied request would be too many.
    pub(super) fn check(&self, source: Source) -> Result<(), Busy> {
        let now = self.clock.now();
        match self.over.lock().until.get(&source) {
            Some(until) if *until > now => Err(busy(self.most, until.duration_since(now).into())),
            _ => Ok(()),
        }
    }
}

fn busy(most: NonZeroU32, wait: Duration) -> Busy {
    Busy::Rate {
        limit: most.get(),
        wait,
    }
}

impl<K: Clone + Hash + Eq> SenderLimiter<K> {
    fn new(most: NonZeroU32, clock: &PortClock) -> Self {
        Self {
            limiter: RateLimiter::new(rate(most), HashMapStateStore::default(), clock.clone()),
            sweep_above: AtomicUsize::new(MIN_KEPT),
        }
    }

    fn remove_idle(&self) {
        let above = self.sweep_above.load(Ordering::Relaxed);
        if self.limiter.len() <= above {
            return;
        }
        // Concurrent requests need not sweep, too.
        let mine = self
            .sweep_above
            .compare_exchange(above, usize::MAX, Ordering::Relaxed, Ordering::Relaxed);
        if mine.is_ok() {
            self.limiter.retain_recent();
            let next = self.limiter.len().saturating_mul(2).max(MIN_KEPT);
            self.sweep_above.store(next, Ordering::Relaxed);
        }
    }
}

fn rate(most: NonZeroU32) -> Quota {
    Quota::per_second(most).allow_burst(most.saturating_mul(NonZeroU32::MIN.saturating_add(1)))
}

/// Reads the clock port's monotonic time for the limiters.
#[derive(Clone)]
struct PortClock(Arc<dyn Clock>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MonotonicInstant(Nanos);

impl governor::clock::Clock for PortClock {
    type Instant = MonotonicInstant;

    fn now(&self) -> MonotonicInstant {
        MonotonicInstant(Nanos::from(self.0.monotonic()))
    }
}

impl Reference for MonotonicInstant {
    fn duration_since(&self, earlier: Self) -> Nanos {
        self.0.saturating_sub(earlier.0)
    }

    fn saturating_sub(&self, duration: Nanos) -> Self {
        Self(self.0.saturating_sub(duration))
    }
}

impl std::ops::Add<Nanos> for MonotonicInstant {
    type Output = Self;

    fn add(self, more: Nanos) -> Self {
        Self(self.0 + more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::{BoxFuture, UnixMillis};
    use std::sync::atomic::AtomicI64;

    #[derive(Default)]
    struct ManualClock {
        monotonic: AtomicI64,
        /// How much the system clock was set by.
        set: AtomicI64,
    }

    impl ManualClock {
        fn advance(&self, millis: i64) {
            self.monotonic.fetch_add(millis, Ordering::SeqCst);
        }
    }

    impl Clock for ManualClock {
        fn now(&self) -> UnixMillis {
            let passed = self.monotonic.load(Ordering::SeqCst) + self.set.load(Ordering::SeqCst);
            UnixMillis(1_700_000_000_000 + passed)
        }

        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.monotonic.load(Ordering::SeqCst).cast_unsigned())
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    fn rates(per_principal: Option<u32>, in_all: Option<u32>) -> (Arc<ManualClock>, Rates) {
        let hand = Arc::new(ManualClock::default());
        let clock: Arc<dyn Clock> = hand.clone();
        let most = |most: Option<u32>| most.and_then(NonZeroU32::new);
        (hand, Rates::new(most(per_principal), most(in_all), &clock))
    }

    fn denied(per_second: u32) -> (Arc<ManualClock>, DeniedRates) {
        let hand = Arc::new(ManualClock::default());
        let clock: Arc<dyn Clock> = hand.clone();
        let per_second = NonZeroU32::new(per_second).unwrap();
        (hand, DeniedRates::new(per_second, &clock))
    }

    fn welcome(rates: &Rates, principal: &Principal, tries: usize) -> usize {
        (0..tries).filter(|_| rates.count(principal).is_ok()).count()
    }

    #[test]
    fn s_06_a_principal_gets_its_rate_and_a_time_to_retry() {
        let (hand, rates) = rates(Some(10), None);
        let (one, other) = (Principal::named("one"), Principal::named("other"));
        assert_eq!(welcome(&rates, &one, 50), 20, "a burst of two seconds");
        let Err(Busy::Rate { limit: 10, wait }) = rates.count(&one) else {
            panic!("limited")
        };
        assert!(rates.count(&other).is_ok(), "somebody else is not");
        let wait = i64::try_from(wait.as_millis()).unwrap() + 1;
        hand.advance(wait);
        assert!(rates.count(&one).is_ok());
        assert!(rates.count(&one).is_err());
    }

    #[test]
    fn setting_the_clock_does_not_change_the_rate() {
        for set in [-3_600_000, 3_600_000] {
            let (hand, rates) = rates(Some(10), Some(10));
            let one = Principal::named("one");
            assert_eq!(welcome(&rates, &one, 50), 20);
            hand.set.fetch_add(set, Ordering::SeqCst);
            let Err(Busy::Rate { wait, .. }) = rates.count(&one) else {
                panic!("no time has passed")
            };
            assert!(wait <= Duration::from_millis(100), "{wait:?}");
            hand.advance(1_000);
            assert_eq!(welcome(&rates, &one, 50), 10, "a second's");
        }
    }

    #[test]
    fn s_06_a_principal_over_its_rate_uses_nothing_of_the_common_rate() {
        let (_, rates) = rates(Some(2), Some(4));
        let principals = ["one", "two", "three"].map(Principal::named);
        let served = principals.each_ref().map(|principal| welcome(&rates, principal, 50));
        assert_eq!(served, [4, 4, 0], "a burst of 4 for each, of 8 for all");
        let fourth = rates.count(&Principal::named("four"));
        assert!(matches!(fourth, Err(Busy::Rate { limit: 4, .. })));
    }

    #[test]
    fn without_a_rate_no_request_is_limited() {
        let (_, rates) = rates(None, None);
        assert_eq!(welcome(&rates, &Principal::local(), 10_000), 10_000);
    }

    /// Sends requests of `count` new principals; returns how often all principals were swept.
    fn newcomers(rates: &Rates, group: &str, count: usize) -> usize {
        let (_, each) = rates.per_principal.as_ref().unwrap();
        let mut sweeps = 0;
        for nth in 0..count {
            let before = (each.limiter.len(), each.sweep_above.load(Ordering::Relaxed));
            rates.count(&Principal::named(format!("{group} {nth}"))).unwrap();
            sweeps += usize::from(before.0 > before.1);
        }
        sweeps
    }

    /// Otherwise many addresses could have credentials of each verified elsewhere, without a bound.
    #[test]
    fn s_06_however_many_are_over_the_rate_of_denied_requests_each_is_known() {
        let (hand, denied) = denied(1);
        let sources = (0..2 * MIN_KEPT as u32).map(|nth| Source::Address(std::net::Ipv4Addr::from(nth).into()));
        for source in sources.clone() {
            while denied.count(source).is_ok() {}
        }
        assert!(sources.clone().all(|source| denied.check(source).is_err()));
        hand.advance(60_000);
        assert!(sources.clone().all(|source| denied.check(source).is_ok()));
        for source in sources.take(3) {
            while denied.count(source).is_ok() {}
        }
        assert!(denied.over.lock().until.len() <= 2 * MIN_KEPT + 3);
    }

    #[test]
    fn s_06_denied_requests_are_counted_by_where_they_come_from() {
        let (hand, denied) = denied(5);
        let one = Source::Address([127, 0, 0, 1].into());
        for _ in 0..10 {
            denied.count(one).unwrap();
            denied.check(one).unwrap();
        }
        let busy = denied.count(one).unwrap_err();
        assert_eq!(denied.check(one), Err(busy.clone()));
        assert_eq!(busy.wait(), Duration::from_millis(200));
        // The clients of a proxy that cannot be told apart use up nothing of the proxy's own.
        for other in [
            Source::Address([127, 0, 0, 2].into()),
            Source::Unreadable([127, 0, 0, 1].into()),
            Source::User(1),
        ] {
            assert_eq!((denied.check(other), denied.count(other)), (Ok(()), Ok(())));
        }
        hand.advance(200);
        assert_eq!((denied.check(one), denied.count(one)), (Ok(()), Ok(())));
    }

    #[test]
    fn idle_principals_are_removed() {
        let (hand, rates) = rates(Some(1), None);
        let (_, each) = rates.per_principal.as_ref().unwrap();
        for group in ["first", "second", "third"] {
            newcomers(&rates, group, MIN_KEPT + 1);
            hand.advance(10_000);
        }
        newcomers(&rates, "last", 2);
        assert!(each.limiter.len() <= MIN_KEPT, "{}", each.limiter.len());
    }

    #[test]
    fn sweeps_that_find_no_idle_principal_become_rarer() {
        let (_, rates) = rates(Some(1), None);
        assert_eq!(newcomers(&rates, "busy", 16 * MIN_KEPT), 4);
    }
}

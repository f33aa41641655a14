//! The engine's own clock, which never jumps.
//!
//! Deadlines, backoffs and retentions are stored as the times at which they end. By the system's clock, setting it would end some early and
//! others late. So an engine has a clock of its own: it starts at the system's time and continues with monotonic time. Only dates are compared
//! with the system's clock, and only what people are shown is converted to it. Where many nodes share a store, each follows the store's clock.

use longhaul_core::{BoxFuture, Clock, Millis, UnixMillis, whole_millis};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tracing::warn;

/// A difference, in milliseconds, that is no step: the two clocks are read one after the other.
const TOLERANCE: u64 = 1_000;

/// How far ahead of the system's clock the newest task may be and still be believed. To follow a row from the far future would end all deadlines and
/// delete all results at once.
const FURTHEST: Millis = 24 * 3_600_000;

/// A clock that starts at the system's time and never jumps.
pub(crate) struct EngineClock {
    system: Arc<dyn Clock>,
    /// The time at [`origin`](Self::origin), in unix milliseconds: set anew to follow the store's clock.
    began: AtomicI64,
    /// The monotonic clock when this one began.
    origin: Duration,
    /// The latest time that it has shown, before it was set back to follow the store's clock.
    floor: AtomicI64,
    /// How far the system's clock is ahead, in milliseconds, when it was last compared.
    offset: AtomicI64,
}

impl EngineClock {
    /// Begins now, but not before `newest`, unless that is too far ahead: what is stored must not lie in the future because the system's clock was set
    /// back while nothing ran.
    pub(crate) fn begin(system: Arc<dyn Clock>, newest: Option<UnixMillis>) -> Self {
        let (wall, origin) = (system.wall(), system.monotonic());
        let ahead = newest.map_or(0, |newest| newest.since(wall));
        if ahead > FURTHEST {
            let ahead = longhaul_core::approximate_duration(ahead);
            warn!(
                "the newest task is {ahead} ahead of the system's clock: if the clock is wrong, set it and start again"
            );
        }
        let began = if ahead > FURTHEST { wall } else { wall.plus(ahead) };
        Self {
            system,
            began: AtomicI64::new(began.0),
            origin,
            floor: AtomicI64::new(i64::MIN),
            offset: AtomicI64::new(wall.0 - began.0),
        }
    }

    /// Follows the clock of a store that many nodes share: it was asked at `asked` by monotonic time, and has said that it was `now`. This clock never
    /// goes back: if it is ahead, it stands still until the store's has caught up.
    pub(crate) fn follow(&self, asked: Duration, now: UnixMillis) {
        self.floor.fetch_max(self.at(self.monotonic()).0, Ordering::Relaxed);
        self.set(asked, now);
    }

    /// As [`follow`](Self::follow), before anything was done by this clock: it goes back, too.
    pub(crate) fn set(&self, asked: Duration, now: UnixMillis) {
        let (earliest, latest) = (self.at(asked), self.at(self.monotonic()));
        let error = now.0 - now.0.clamp(earliest.0, latest.0);
        self.began.fetch_add(error, Ordering::Relaxed);
        self.offset.fetch_sub(error, Ordering::Relaxed);
    }

    /// The time when monotonic time is `monotonic`.
    fn at(&self, monotonic: Duration) -> UnixMillis {
        let passed = monotonic.saturating_sub(self.origin);
        let began = UnixMillis(self.began.load(Ordering::Relaxed));
        began.plus(whole_millis(passed))
    }

    /// By how much the system's clock was set since the last call, if it was.
    pub(crate) fn step(&self) -> Option<i64> {
        let offset = self.wall().0.saturating_sub(self.now().0);
        let step = offset.saturating_sub(self.offset());
        if step.unsigned_abs() < TOLERANCE {
            return None;
        }
        self.offset.store(offset, Ordering::Relaxed);
        Some(step)
    }
}

impl Clock for EngineClock {
    fn now(&self) -> UnixMillis {
        let floor = UnixMillis(self.floor.load(Ordering::Relaxed));
        self.at(self.monotonic()).max(floor)
    }

    fn wall(&self) -> UnixMillis {
        self.system.wall()
    }

    fn offset(&self) -> i64 {
        self.offset.load(Ordering::Relaxed)
    }

    fn monotonic(&self) -> Duration {
        self.system.monotonic()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.system.sleep(duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: i64 = 3_600_000;

    /// The system's clock and the monotonic one, each set by hand.
    #[derive(Default)]
    struct Hand {
        wall: AtomicI64,
        monotonic: AtomicI64,
    }

    impl Clock for Hand {
        fn now(&self) -> UnixMillis {
            UnixMillis(self.wall.load(Ordering::SeqCst))
        }

        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.monotonic.load(Ordering::SeqCst).cast_unsigned())
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn a_row_from_the_far_future_is_not_followed() {
        let hand = Arc::new(Hand::default());
        let newest = UnixMillis(0).plus(FURTHEST);
        assert_eq!(EngineClock::begin(hand.clone(), Some(newest)).now(), newest);
        assert_eq!(EngineClock::begin(hand, Some(newest.plus(1))).now(), UnixMillis(0));
    }

    #[test]
    fn it_follows_the_clock_of_a_store_and_never_goes_back() {
        let hand = Arc::new(Hand::default());
        let clock = EngineClock::begin(hand.clone(), None);
        let pass = |millis| hand.monotonic.fetch_add(millis, Ordering::SeqCst);
        let asked = hand.monotonic();
        pass(10);
        clock.follow(asked, UnixMillis(7));
        assert_eq!(clock.now(), UnixMillis(10), "the answer was under way");
        clock.follow(asked, UnixMillis(1_000));
        assert_eq!(clock.now(), UnixMillis(1_000));
        let asked = hand.monotonic();
        clock.follow(asked, UnixMillis(400));
        for (passed, shown) in [(0, 1_000), (599, 1_000), (1, 1_000), (1, 1_001)] {
            pass(passed);
            assert_eq!(clock.now(), UnixMillis(shown));
            clock.follow(
                hand.monotonic(),
                UnixMillis(400 + hand.monotonic().as_millis() as i64 - 10),
            );
        }
    }

    proptest! {
        #[test]
        fn the_time_line_goes_with_monotonic_time_however_the_clock_is_set(
            stored in prop::option::of(-10 * HOUR..10 * HOUR),
            moves in prop::collection::vec((0..HOUR, -3 * HOUR..3 * HOUR), 1..20),
        ) {
            let noon = 1_700_000_000_000;
            let hand = Arc::new(Hand { wall: AtomicI64::new(noon), ..Hand::default() });
            let newest = stored.map(|stored| UnixMillis(noon + stored));
            let line = EngineClock::begin(hand.clone(), newest);
            let began = line.now();
            prop_assert_eq!(began, newest.map_or(UnixMillis(noon), |newest| newest.max(UnixMillis(noon))));
            let mut passed = 0;
            for (span, set) in moves {
                passed += span;
                hand.monotonic.fetch_add(span, Ordering::SeqCst);
                hand.wall.fetch_add(span + set, Ordering::SeqCst);
                prop_assert_eq!(line.now(), UnixMillis(began.0 + passed));
                prop_assert_eq!(line.step().unwrap_or_default(), if set.unsigned_abs() < TOLERANCE { 0 } else { set });
                prop_assume!(set.unsigned_abs() >= TOLERANCE || set == 0);
                prop_assert_eq!(line.read().in_the_world(line.now()), hand.now(), "shown as the world has it");
            }
        }
    }
}

//! The intervals of polls and retries.

use longhaul_core::Millis;

/// Used when the server asks for no interval.
const DEFAULT_INTERVAL: Millis = 1_000;
/// A shorter interval would be a busy loop.
const MIN_INTERVAL: Millis = 20;
/// The longest pause between two looks at a task that a server can ask for, in milliseconds: a day.
pub const LONGEST_POLL_INTERVAL: Millis = MAX_INTERVAL;
pub(crate) const MAX_INTERVAL: Millis = 24 * 60 * 60_000;
/// While all changes are pushed.
const RARE_INTERVAL: Millis = 30_000;
/// The same for each task, if there are many: a hundred polls a second for all of them. The end of a task whose push was lost is noticed after the
/// longest interval.
const RARE_INTERVAL_OF_EACH: Millis = 10;
const LONGEST_RARE_INTERVAL: Millis = 5 * 60_000;
const FIRST_RETRY: Millis = 500;
const MAX_RETRY: Millis = 15_000;

/// Milliseconds until the next poll: the interval the server asks for plus up to a fifth of it, so that many clients
/// do not poll at the same moment. `jitter` is from 0 to 1. With `pushed` the server pushes all changes of so many tasks: then a poll only finds what was
/// lost.
pub(crate) fn next_poll(hint: Option<Millis>, pushed: Option<usize>, jitter: f64) -> Millis {
    let shortest = pushed.map_or(MIN_INTERVAL, |tasks| {
        let of_each = (tasks as Millis).saturating_mul(RARE_INTERVAL_OF_EACH);
        of_each.clamp(RARE_INTERVAL, LONGEST_RARE_INTERVAL)
    });
    let interval = hint.unwrap_or(DEFAULT_INTERVAL).clamp(shortest, MAX_INTERVAL);
    interval + scaled(interval / 5, jitter)
}

/// Milliseconds until the retry after `attempt` failures in a row (from 1): exponential backoff from half a second to 15 s, between
/// half and all of it by `jitter`, and at least the server's `Retry-After`.
pub(crate) fn next_retry(attempt: u32, retry_after: Option<Millis>, jitter: f64) -> Millis {
    let doublings = attempt.saturating_sub(1).min(16);
    let max = (FIRST_RETRY << doublings).min(MAX_RETRY);
    let wait = max / 2 + scaled(max / 2, jitter);
    wait.max(retry_after.unwrap_or(0).min(MAX_INTERVAL))
}

fn scaled(millis: Millis, jitter: f64) -> Millis {
    (millis as f64 * jitter.clamp(0.0, 1.0)) as Millis
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn polls_are_never_faster_than_asked(hint in MIN_INTERVAL..MAX_INTERVAL, jitter in 0.0..1.0) {
            let wait = next_poll(Some(hint), None, jitter);
            prop_assert!((hint..=hint + hint / 5).contains(&wait));
        }

        #[test]
        fn retries_slow_down_and_stay_bounded(attempt in 1..u32::MAX, after in proptest::option::of(any::<u64>()), jitter in 0.0..1.0) {
            let wait = next_retry(attempt, after, jitter);
            prop_assert!((FIRST_RETRY / 2..=MAX_INTERVAL).contains(&wait));
            prop_assert!(wait >= after.unwrap_or(0).min(MAX_INTERVAL));
            prop_assert!(after.is_some() || wait <= MAX_RETRY);
        }
    }

    #[test]
    fn intervals_are_bounded() {
        assert_eq!(next_poll(Some(0), None, 0.0), MIN_INTERVAL);
        assert_eq!(next_poll(Some(u64::MAX), None, 0.0), MAX_INTERVAL);
        assert_eq!(next_poll(None, None, 0.0), DEFAULT_INTERVAL);
        for (tasks, interval) in [
            (1, RARE_INTERVAL),
            (10_000, 100_000),
            (usize::MAX, LONGEST_RARE_INTERVAL),
        ] {
            assert_eq!(next_poll(Some(1), Some(tasks), 0.0), interval);
        }
        assert!(next_retry(1, None, 0.99) < next_retry(3, None, 0.0));
    }
}

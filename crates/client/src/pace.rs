//! How often a server is asked.

use longhaul_core::Millis;

/// Where the server gives no hint.
const DEFAULT_INTERVAL: Millis = 1_000;
/// A hint below this would be a busy loop.
const SHORTEST_INTERVAL: Millis = 20;
/// A hint beyond this would leave a finished task unnoticed for too long.
const LONGEST_INTERVAL: Millis = 5 * 60_000;
const FIRST_RETRY: Millis = 500;
const LONGEST_RETRY: Millis = 15_000;

/// Milliseconds until the next poll: what the server asked for (G1-23, G2-31) and up to a fifth more, so that many clients of
/// one server do not stay in step. `chance` is from 0 to 1.
pub(crate) fn next_poll(hint: Option<Millis>, chance: f64) -> Millis {
    let interval = hint
        .unwrap_or(DEFAULT_INTERVAL)
        .clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
    interval + scaled(interval / 5, chance)
}

/// Milliseconds until a server that failed `attempt` times in a row (from 1) is asked again: doubling from half a second to
/// 15 s, between half and all of it by `chance`, and never sooner than the server itself asked for.
pub(crate) fn next_retry(attempt: u32, retry_after: Option<Millis>, chance: f64) -> Millis {
    let doublings = attempt.saturating_sub(1).min(16);
    let most = (FIRST_RETRY << doublings).min(LONGEST_RETRY);
    let wait = most / 2 + scaled(most / 2, chance);
    wait.max(retry_after.unwrap_or(0).min(LONGEST_INTERVAL))
}

fn scaled(millis: Millis, chance: f64) -> Millis {
    (millis as f64 * chance.clamp(0.0, 1.0)) as Millis
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn polls_are_never_faster_than_asked(hint in SHORTEST_INTERVAL..LONGEST_INTERVAL, chance in 0.0..1.0) {
            let wait = next_poll(Some(hint), chance);
            prop_assert!((hint..=hint + hint / 5).contains(&wait));
        }

        #[test]
        fn retries_slow_down_and_stay_bounded(attempt in 1..u32::MAX, after in proptest::option::of(any::<u64>()), chance in 0.0..1.0) {
            let wait = next_retry(attempt, after, chance);
            prop_assert!((FIRST_RETRY / 2..=LONGEST_INTERVAL).contains(&wait));
            prop_assert!(wait >= after.unwrap_or(0).min(LONGEST_INTERVAL));
            prop_assert!(after.is_some() || wait <= LONGEST_RETRY);
        }
    }

    #[test]
    fn a_silly_hint_is_bounded() {
        assert_eq!(next_poll(Some(0), 0.0), SHORTEST_INTERVAL);
        assert_eq!(next_poll(Some(u64::MAX), 0.0), LONGEST_INTERVAL);
        assert_eq!(next_poll(None, 0.0), DEFAULT_INTERVAL);
        assert!(next_retry(1, None, 0.99) < next_retry(3, None, 0.0));
    }
}

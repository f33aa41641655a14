//! What a tool's author or operator decides about its calls.

use crate::Millis;
use serde::{Deserialize, Serialize};

/// Which calls of a tool become tasks; see the table in `docs/calls.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskPolicy {
    /// No call is a task.
    Never,
    /// A call is a task if the client supports tasks.
    #[default]
    Optional,
    /// As `Optional`, but a modern call that ends within this many milliseconds is answered directly.
    After(Millis),
    /// Every call is a task; a client that does not support tasks is refused.
    Always,
}

/// After which ends an attempt is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryOn {
    /// The attempt left no record of its end.
    Crash,
    /// The tool returned an error. For a command: any exit code that does not count as success, a signal, or a program that cannot be started.
    Error,
    /// The attempt took longer than its tool's timeout. Only commands have one.
    Timeout,
    /// The command exited with this code, and it does not count as success.
    Exit(u8),
}

/// What happens to a durable task whose code diverges from its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnNonDeterminism {
    /// It is blocked until its code or an operator changes something, or for too long.
    #[default]
    Block,
    /// It fails at once.
    Fail,
}

/// How often and after how long a failed attempt is retried. Never after a cancel or a passed deadline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Attempts in all, the first included; at least 1.
    pub attempts: u32,
    /// Wait before the second attempt; doubled before each further one.
    pub backoff: Millis,
    /// After which ends.
    pub on: Vec<RetryOn>,
}

impl Default for Retry {
    /// One attempt, none after it.
    fn default() -> Self {
        Self {
            attempts: 1,
            backoff: 0,
            on: Vec::new(),
        }
    }
}

impl Retry {
    /// The wait before the next attempt after `used` attempts, the last of which ended with `why`; `None` if that was the last.
    ///
    /// ```
    /// use longhaul_core::{Retry, RetryOn};
    /// let retry = Retry { attempts: 3, backoff: 10_000, on: vec![RetryOn::Crash] };
    /// assert_eq!(retry.wait_after(1, RetryOn::Crash), Some(10_000));
    /// assert_eq!(retry.wait_after(2, RetryOn::Crash), Some(20_000));
    /// assert_eq!(retry.wait_after(3, RetryOn::Crash), None);
    /// assert_eq!(retry.wait_after(1, RetryOn::Error), None);
    /// ```
    pub fn wait_after(&self, used: u32, why: RetryOn) -> Option<Millis> {
        if used >= self.attempts || !self.names(why) {
            return None;
        }
        let doublings = used.saturating_sub(1).min(20);
        Some(self.backoff.saturating_mul(1 << doublings))
    }

    /// Whether an attempt that ended with `why` may be retried. `Error` includes every exit code, but no timeout.
    fn names(&self, why: RetryOn) -> bool {
        let is_error = matches!(why, RetryOn::Exit(_));
        self.on.contains(&why) || is_error && self.on.contains(&RetryOn::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(on: &[RetryOn]) -> Retry {
        Retry {
            attempts: 2,
            backoff: 7,
            on: on.to_vec(),
        }
    }

    #[test]
    fn error_includes_every_exit_code_and_no_timeout() {
        use RetryOn::*;
        let all = [Crash, Error, Timeout, Exit(1), Exit(75)];
        for (on, retried) in [
            (&[Crash][..], &[Crash][..]),
            (&[Error], &[Error, Exit(1), Exit(75)]),
            (&[Timeout], &[Timeout]),
            (&[Exit(75)], &[Exit(75)]),
            (&[Exit(75), Error], &[Error, Exit(1), Exit(75)]),
        ] {
            let found: Vec<_> = { all.iter().copied() }
                .filter(|why| retry(on).wait_after(1, *why).is_some())
                .collect();
            assert_eq!(found, retried, "{on:?}");
        }
    }

    /// It is part of a definition that is stored with tasks.
    #[test]
    fn stored_policies_are_read() {
        for (text, on) in [
            (
                r#"{"attempts":2,"backoff":7,"on":["crash","error"]}"#,
                &[RetryOn::Crash, RetryOn::Error],
            ),
            (
                r#"{"attempts":2,"backoff":7,"on":["timeout",{"exit":75}]}"#,
                &[RetryOn::Timeout, RetryOn::Exit(75)],
            ),
        ] {
            assert_eq!(serde_json::from_str::<Retry>(text).unwrap(), retry(on));
            assert_eq!(serde_json::to_string(&retry(on)).unwrap(), text);
        }
    }
}

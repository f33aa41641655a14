//! The decisions of a round, drawn from the seed. The same seed gives the same decisions, but not the same timing.

use fastrand::Rng;
use std::time::Duration;

/// How many clients run at once, alternately of each era.
pub(super) const CLIENTS: usize = 4;

/// One round.
pub(super) struct Plan {
    /// When to kill a server that is started before the round's, possibly before it has recovered.
    pub(super) false_start: Option<Duration>,
    /// How long the clients work before the server is killed.
    pub(super) load: Duration,
    /// Which supervisor is killed too, and when.
    pub(super) victim: Option<Victim>,
    /// Whether to suspend a supervisor that has not started its command until the next server has recovered its attempt.
    pub(super) late_starter: bool,
    /// The seeds of the clients' decisions.
    pub(super) clients: [u64; CLIENTS],
    /// The seed for the choice of tasks that are polled after the restart.
    pub(super) audit: u64,
}

/// A supervisor to be killed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Victim {
    /// Whether it is killed while the server runs, or after it.
    pub(super) server_lives: bool,
    /// Any number; its remainder selects one of the running supervisors.
    pub(super) nth: usize,
}

impl Plan {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let false_start = rng.u64(0..120);
        Self {
            false_start: (rng.u8(0..5) == 0).then(|| Duration::from_millis(false_start)),
            load: Duration::from_millis(rng.u64(100..400)),
            victim: (rng.u8(0..3) == 0).then(|| Victim {
                server_lives: rng.bool(),
                nth: rng.usize(..),
            }),
            late_starter: rng.u8(0..3) == 0,
            clients: std::array::from_fn(|_| rng.u64(..)),
            audit: rng.u64(..),
        }
    }
}

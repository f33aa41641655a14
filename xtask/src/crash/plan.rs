//! What a round does, drawn from the seed: the same seed makes the same decisions. When the machine carries them out is its own.

use fastrand::Rng;
use std::time::Duration;

/// Clients at once, of either era in turn.
pub(super) const CLIENTS: usize = 4;

/// One round.
pub(super) struct Plan {
    /// A server that is killed so soon after its start that it may not have recovered yet.
    pub(super) false_start: Option<Duration>,
    /// How long the clients work before the server is killed.
    pub(super) load: Duration,
    /// Which supervisor dies too, and when.
    pub(super) victim: Option<Victim>,
    /// Whether a supervisor that has not begun is held back until the next server has judged its attempt.
    pub(super) late_starter: bool,
    /// The seeds of the clients' decisions.
    pub(super) clients: [u64; CLIENTS],
    /// The seed of what is looked at after the restart.
    pub(super) audit: u64,
}

/// A supervisor to be killed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Victim {
    /// While the server watches, or once it is gone.
    pub(super) server_lives: bool,
    /// Any number; its remainder chooses among those that live.
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

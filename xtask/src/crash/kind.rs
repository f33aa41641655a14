//! The tools of the crash run: each a real command that is hard on the server in its own way.

use fastrand::Rng;
use serde_json::{Value, json};

/// The most that a printing command writes, apart from its last line.
const MAX_PRINTED: u64 = 4 << 20;

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Ends at once.
    Quick,
    /// Takes its time.
    Slow,
    /// Takes its time, and is tried again after a crash.
    Retried,
    /// Takes its time and does not listen to SIGTERM.
    Stubborn,
    /// Writes more than is kept.
    Chatty,
    /// Says no.
    Failing,
    /// Is silent for long and then prints much, every byte of which is accounted for.
    Printing,
}

/// Which tools are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// All, mostly those that live long enough to be killed.
    Mixed,
    /// Mostly those that print after a silence. Many run at once, so that the silences overlap.
    Printing,
}

impl Load {
    /// Commands that run at once.
    pub(super) fn max_running(self) -> usize {
        match self {
            Self::Mixed => 8,
            Self::Printing => 100,
        }
    }

    /// More open tasks than this make no new ones: the drain would take for ever.
    pub(super) fn most_open(self) -> usize {
        match self {
            Self::Mixed => 40,
            Self::Printing => 80,
        }
    }

    /// The longest silence, in milliseconds.
    fn longest_silence(self) -> u64 {
        match self {
            Self::Mixed => 1_500,
            Self::Printing => 20_000,
        }
    }
}

impl Kind {
    pub(super) const ALL: [Self; 7] = [
        Self::Quick,
        Self::Slow,
        Self::Retried,
        Self::Stubborn,
        Self::Chatty,
        Self::Failing,
        Self::Printing,
    ];

    /// The tool's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Slow => "slow",
            Self::Retried => "retried",
            Self::Stubborn => "stubborn",
            Self::Chatty => "chatty",
            Self::Failing => "failing",
            Self::Printing => "printing",
        }
    }

    pub(super) fn draw(load: Load, rng: &mut Rng) -> Self {
        if load == Load::Printing && rng.u8(0..10) > 0 {
            return Self::Printing;
        }
        match rng.u8(0..11) {
            10 => Self::Printing,
            0 | 1 => Self::Quick,
            2..5 => Self::Slow,
            5..7 => Self::Retried,
            7 => Self::Stubborn,
            8 => Self::Chatty,
            _ => Self::Failing,
        }
    }

    /// Arguments of a call, and its token, which says from outside which call a command belongs to.
    pub(super) fn arguments(self, token: String, load: Load, rng: &mut Rng) -> (Value, String) {
        let millis = match self {
            Self::Slow | Self::Retried => rng.u64(50..600),
            Self::Stubborn => rng.u64(30..300),
            Self::Quick | Self::Chatty | Self::Failing => 0,
            Self::Printing => rng.u64(0..=load.longest_silence()),
        };
        let (bytes, token) = match self {
            Self::Printing => {
                // Of every order of magnitude: what is lost may be a byte, or all beyond the first pipe.
                let most = MAX_PRINTED >> rng.u32(0..=22);
                let bytes = rng.u64(0..=most);
                (bytes, printing_token(&token, bytes))
            }
            _ => (0, token),
        };
        (json!({"token": token, "millis": millis, "bytes": bytes}), token)
    }
}

/// The token of a call of a printing command, which ends with the number of bytes to print.
fn printing_token(token: &str, bytes: u64) -> String {
    format!("{token}.{bytes}")
}

/// The number of bytes in a printing token.
pub(super) fn printed_bytes(token: &str) -> Option<u64> {
    token.rsplit('.').next()?.parse().ok()
}

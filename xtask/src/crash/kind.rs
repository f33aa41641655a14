//! The tools of the crash test.

use fastrand::Rng;
use serde_json::{Value, json};

/// How much a printing command writes at most, apart from its last line.
const MAX_PRINTED: u64 = 4 << 20;

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Ends at once.
    Quick,
    /// Takes a while.
    Slow,
    /// Takes a while, and is retried after a crash.
    Retried,
    /// Takes a while and ignores SIGTERM.
    Stubborn,
    /// Writes more than the server stores.
    Chatty,
    /// Fails.
    Failing,
    /// Prints nothing for a while and then a lot, of which no byte may be lost.
    Printing,
}

/// Which tools are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// All, mostly those that run long enough to be killed.
    Mixed,
    /// Mostly `Kind::Printing`. Many run at once.
    Printing,
}

impl Load {
    /// How many commands run at once.
    pub(crate) fn max_running(self) -> usize {
        match self {
            Self::Mixed => 8,
            Self::Printing => 100,
        }
    }

    /// No tasks are created while this many are open, so that they can all end at the end of the run.
    pub(crate) fn max_open(self) -> usize {
        match self {
            Self::Mixed => 40,
            Self::Printing => 80,
        }
    }

    /// The maximum time until a command prints, in milliseconds.
    fn max_silence(self) -> u64 {
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
    pub(crate) fn name(self) -> &'static str {
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

    pub(crate) fn draw(load: Load, rng: &mut Rng) -> Self {
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

    /// The arguments of a call, and its token, which identifies the call of a command.
    pub(crate) fn arguments(self, token: String, load: Load, rng: &mut Rng) -> (Value, String) {
        let millis = match self {
            Self::Slow | Self::Retried => rng.u64(50..600),
            Self::Stubborn => rng.u64(30..300),
            Self::Quick | Self::Chatty | Self::Failing => 0,
            Self::Printing => rng.u64(0..=load.max_silence()),
        };
        let (bytes, token) = match self {
            Self::Printing => {
                // Of every order of magnitude, because the loss may be a byte or everything after the first pipe buffer.
                let max = MAX_PRINTED >> rng.u32(0..=22);
                let bytes = rng.u64(0..=max);
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

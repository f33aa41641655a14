//! The tools whose commands are journaled.

use crate::{ledger::LedgerCall, mcp::CallOutcome};
use fastrand::Rng;
use serde_json::{Value, json};

/// How much a printing command writes at most, apart from its last line.
const MAX_PRINTED: u64 = 4 << 20;

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CommandKind {
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
pub enum CommandLoad {
    /// All, mostly those that run long enough to be killed.
    Mixed,
    /// Mostly `CommandKind::Printing`. Many run at once.
    Printing,
}

impl CommandLoad {
    /// How many commands run at once.
    pub fn max_running(self) -> usize {
        match self {
            Self::Mixed => 8,
            Self::Printing => 100,
        }
    }

    /// No tasks are created while this many are open, so that they can all end at the end of the run.
    pub fn max_open(self) -> usize {
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

impl CommandKind {
    pub const ALL: [Self; 7] = [
        Self::Quick,
        Self::Slow,
        Self::Retried,
        Self::Stubborn,
        Self::Chatty,
        Self::Failing,
        Self::Printing,
    ];

    /// The tool's name.
    pub fn name(self) -> &'static str {
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

    pub fn draw(load: CommandLoad, rng: &mut Rng) -> Self {
        if load == CommandLoad::Printing && rng.u8(0..10) > 0 {
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

    /// A call, and its arguments.
    pub fn call(self, token: String, load: CommandLoad, rng: &mut Rng) -> (CommandCall, Value) {
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
                (bytes, format!("{token}.{bytes}"))
            }
            _ => (0, token),
        };
        let arguments = json!({"token": token, "millis": millis, "bytes": bytes});
        (CommandCall { kind: self, token }, arguments)
    }
}

/// A call of a command. The token of one that prints ends with the number of bytes.
#[derive(Debug, Clone)]
pub struct CommandCall {
    pub kind: CommandKind,
    pub token: String,
}

impl LedgerCall for CommandCall {
    fn token(&self) -> &str {
        &self.token
    }

    /// Its result is compared with the journal, once that is complete.
    fn may_end_as(&self, _: &CallOutcome) -> bool {
        true
    }
}

/// The number of bytes in a printing token.
pub(super) fn printed_bytes(token: &str) -> Option<u64> {
    token.rsplit('.').next()?.parse().ok()
}

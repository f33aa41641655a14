//! Durable tasks that cannot go on until their code, or an operator, changes something.

use crate::{InvalidJson, Json, Outcome, RpcFailure, UnixMillis, shorten};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{fmt, sync::Arc};

/// How much of why it is blocked is shown, in bytes.
const LONGEST_LINE: usize = 1_000;

/// Why a task is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockReason {
    /// The replayed code did something else than its journal has.
    NonDeterminism,
    /// Its attempts crashed again and again without a new journal entry.
    Poisoned,
    /// The server does not offer its durable tool any more, or not as a durable one, and only that tool's code can resume the task.
    Unavailable,
}

/// As people read it: `non-determinism`, `poisoned`.
impl fmt::Display for BlockReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NonDeterminism => "non-determinism",
            Self::Poisoned => "poisoned",
            Self::Unavailable => "unavailable",
        })
    }
}

/// Names the code that runs a task: its tool's definition and the build of the program. Opaque; equal texts are equal code.
pub type CodeFingerprint = Arc<str>;

/// The end of an attempt whose task cannot go on with the present code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Why.
    pub reason: BlockReason,
    /// What ends the task if nothing changes in time. Its message is shown meanwhile.
    pub failure: RpcFailure,
    /// The code that could not go on.
    pub code: CodeFingerprint,
    /// When it is tried again, whatever the code.
    pub retry_at: UnixMillis,
    /// When it ends if it is blocked then. The first block since the task's last new journal entry sets it; later ones do not change it.
    pub until: UnixMillis,
}

/// The record of a task that is blocked, or is retried after a block. A new journal entry clears it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// Why.
    pub reason: BlockReason,
    /// What ends the task if nothing changes until then.
    pub failure: RpcFailure,
    /// The code that could not go on, the latest last. At most [`Blocked::MOST_CODES`] of them.
    pub codes: Vec<CodeFingerprint>,
    /// Since when.
    pub since: UnixMillis,
    /// When it ends if it is blocked then.
    pub until: UnixMillis,
    /// How often it was retried without forward progress.
    pub tries: u32,
}

/// As a store keeps it.
#[derive(Serialize, Deserialize)]
struct Layout {
    reason: BlockReason,
    code: i32,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
    codes: Vec<String>,
    since: i64,
    until: i64,
    tries: u32,
}

impl Blocked {
    /// How many are kept. The oldest is dropped first; it may then try the task again, which does no harm.
    pub const MOST_CODES: usize = 8;

    /// The first block of a task, or another one after `before`.
    pub(crate) fn new(before: Option<&Self>, block: &Block, at: UnixMillis) -> Self {
        let mut codes = before.map_or_else(Vec::new, |before| before.codes.clone());
        codes.retain(|code| *code != block.code);
        codes.push(Arc::clone(&block.code));
        if codes.len() > Self::MOST_CODES {
            codes.remove(0);
        }
        Self {
            reason: block.reason,
            failure: block.failure.clone(),
            codes,
            since: before.map_or(at, |before| before.since),
            until: before.map_or(block.until, |before| before.until),
            tries: before.map_or(0, |before| before.tries.saturating_add(1)),
        }
    }

    /// Whether the task was blocked under this code before.
    pub fn is_known_for(&self, code: &str) -> bool {
        self.codes.iter().any(|known| **known == *code)
    }

    /// The failure that ends the task.
    pub(crate) fn outcome(&self) -> Outcome {
        Outcome::RpcError(self.failure.clone())
    }

    /// As a store may keep it.
    pub fn to_json(&self) -> Json {
        let layout = Layout {
            reason: self.reason,
            code: self.failure.code,
            message: self.failure.message.to_string(),
            data: (self.failure.data.as_ref()).and_then(|data| serde_json::from_str(data.as_str()).ok()),
            codes: self.codes.iter().map(ToString::to_string).collect(),
            since: self.since.0,
            until: self.until.0,
            tries: self.tries,
        };
        // Texts, numbers and JSON texts always can be written.
        Json::trusted(serde_json::to_string(&layout).unwrap_or_default())
    }

    /// As it was kept.
    ///
    /// # Errors
    /// [`InvalidJson`] for what [`to_json`](Self::to_json) did not write.
    pub fn from_json(json: &str) -> Result<Self, InvalidJson> {
        let layout: Layout = serde_json::from_str(json).map_err(|error| InvalidJson(error.to_string()))?;
        Ok(Self {
            reason: layout.reason,
            failure: RpcFailure {
                code: layout.code,
                message: layout.message.into(),
                data: layout.data.map(|data| Json::from(&*data)),
            },
            codes: layout.codes.into_iter().map(Into::into).collect(),
            since: UnixMillis(layout.since),
            until: UnixMillis(layout.until),
            tries: layout.tries,
        })
    }
}

/// As people read it: `blocked (poisoned): 5 attempts failed …`. At most about 1 KiB, as any line about a task: names of entries can be long.
impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = shorten(&self.failure.message, LONGEST_LINE);
        write!(f, "blocked ({}): {message}", self.reason)
    }
}

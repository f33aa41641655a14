//! The calls of the durable tools of `under_fire`.

pub mod steps;

use crate::{
    ledger::{Ledger, LedgerCall},
    mcp::{CallOutcome, ClientEra},
};
use fastrand::Rng;
use serde_json::{Value, json};
use std::{path::Path, process::Command};

/// The ledger of these calls.
pub type DurableLedger = Ledger<DurableCall>;

/// A tool of `under_fire`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DurableTool {
    Chain,
    Family,
    /// It asks.
    Confirm,
}

impl DurableTool {
    pub fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Family => "family",
            Self::Confirm => "confirm",
        }
    }
}

/// A call.
#[derive(Debug, Clone)]
pub struct DurableCall {
    pub tool: DurableTool,
    pub token: String,
    pub steps: u32,
}

impl DurableCall {
    /// What a call answers to that question.
    pub const WORD: &'static str = "yes";

    pub fn draw(token: String, era: ClientEra, rng: &mut Rng) -> Self {
        let (tool, steps) = match rng.u8(0..8) {
            0 | 1 => (DurableTool::Family, rng.u32(2..6)),
            // A legacy client would be asked in its session.
            2 | 3 if era == ClientEra::Modern => (DurableTool::Confirm, 2),
            _ => (DurableTool::Chain, rng.u32(2..9)),
        };
        Self { tool, token, steps }
    }

    /// The arguments, with steps of so many milliseconds.
    pub fn arguments(&self, millis: u64) -> Value {
        json!({"token": self.token, "steps": self.steps, "millis": millis})
    }
}

impl LedgerCall for DurableCall {
    fn token(&self) -> &str {
        &self.token
    }

    fn may_end_as(&self, outcome: &CallOutcome) -> bool {
        match self.tool {
            DurableTool::Chain | DurableTool::Family => outcome.is(&self.token),
            DurableTool::Confirm => outcome.is(&format!("{} {}", self.token, Self::WORD)),
        }
    }
}

/// `under_fire` with a data directory of its own.
pub fn under_fire(program: &Path, data: &Path, effects_flag: &str, effects: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("--data-dir").arg(data).arg(effects_flag).arg(effects);
    command
}

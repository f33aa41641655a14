//! The calls of durable tools: what was acknowledged, and how it ended.

use super::{effects::rank, violation::Violation};
use crate::mcp::{Era, Outcome};
use fastrand::Rng;
use parking_lot::Mutex;
use std::collections::HashMap;

/// Clients use only this many of the newest tasks.
const NEWEST: usize = 60;

/// A tool of `under_fire`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Chain,
    Family,
    /// It asks.
    Confirm,
}

impl Tool {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Family => "family",
            Self::Confirm => "confirm",
        }
    }
}

/// A call.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) tool: Tool,
    pub(super) token: String,
    pub(super) steps: u32,
    cancel_sent: bool,
    outcome: Option<Outcome>,
}

impl Call {
    pub(super) fn draw(token: String, era: Era, rng: &mut Rng) -> Self {
        let (tool, steps) = match rng.u8(0..8) {
            0 | 1 => (Tool::Family, rng.u32(2..6)),
            // A legacy client would be asked in its session.
            2 | 3 if era == Era::Modern => (Tool::Confirm, 2),
            _ => (Tool::Chain, rng.u32(2..9)),
        };
        Self {
            tool,
            token,
            steps,
            cancel_sent: false,
            outcome: None,
        }
    }

    /// The rank of its last step.
    pub(super) fn last(&self) -> u32 {
        rank(&(self.steps - 1).to_string()).unwrap_or_default()
    }

    fn text(&self) -> String {
        match self.tool {
            Tool::Chain | Tool::Family => self.token.clone(),
            Tool::Confirm => format!("{} yes", self.token),
        }
    }

    fn may_end_as(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Cancelled => self.cancel_sent,
            Outcome::Result { is_error: false, text } => *text == self.text(),
            _ => false,
        }
    }

    /// Whether it has ended, and with its result.
    pub(super) fn has_succeeded(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Result { .. }))
    }
}

/// All calls that were acknowledged.
#[derive(Default)]
pub(super) struct Calls(Mutex<Records>);

#[derive(Default)]
struct Records {
    calls: HashMap<String, Call>,
    /// In the order of their acknowledgements.
    order: Vec<String>,
    open: usize,
}

impl Calls {
    pub(super) fn record_acknowledged(&self, task: &str, call: Call) {
        let mut records = self.0.lock();
        records.order.push(task.to_owned());
        records.open += 1;
        records.calls.insert(task.to_owned(), call);
    }

    pub(super) fn record_cancel_sent(&self, task: &str) {
        if let Some(call) = self.0.lock().calls.get_mut(task) {
            call.cancel_sent = true;
        }
    }

    /// Records and checks an outcome. That there is no other is checked with the history of the task.
    pub(super) fn record_end(&self, task: &str, outcome: Outcome) -> Result<(), Violation> {
        let mut records = self.0.lock();
        let Some(call) = records.calls.get_mut(task) else {
            return Ok(());
        };
        if !call.may_end_as(&outcome) {
            return Err(Violation::WrongOutcome {
                task: task.to_owned(),
                token: call.token.clone(),
                outcome,
            });
        }
        if call.outcome.replace(outcome).is_none() {
            records.open -= 1;
        }
        Ok(())
    }

    /// How many have not been seen to end.
    pub(super) fn open(&self) -> usize {
        self.0.lock().open
    }

    pub(super) fn count(&self) -> usize {
        self.0.lock().order.len()
    }

    /// One of the newest.
    pub(super) fn pick(&self, rng: &mut Rng) -> Option<String> {
        let records = self.0.lock();
        let newest = &records.order[records.order.len().saturating_sub(NEWEST)..];
        rng.choice(newest).cloned()
    }

    /// One of the newest of a tool that has not ended.
    pub(super) fn pick_of(&self, tool: Tool, rng: &mut Rng) -> Option<String> {
        let records = self.0.lock();
        let newest = records.order.iter().rev().take(NEWEST);
        let open: Vec<&String> = newest
            .filter(|task| {
                let call = &records.calls[*task];
                call.tool == tool && call.outcome.is_none()
            })
            .collect();
        rng.choice(open).cloned()
    }

    /// All, with their tasks.
    pub(super) fn all(&self) -> Vec<(String, Call)> {
        let records = self.0.lock();
        let all = records.order.iter();
        all.map(|task| (task.clone(), records.calls[task].clone())).collect()
    }

    /// The tasks that have not been seen to end.
    pub(super) fn open_tasks(&self) -> Vec<(String, Call)> {
        let mut all = self.all();
        all.retain(|(_, call)| call.outcome.is_none());
        all
    }
}

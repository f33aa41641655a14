//! The report of a run.

use super::CrashError;
use serde_json::json;

pub(super) struct Report {
    pub(super) seed: u64,
    pub(super) rounds: u32,
    /// Tasks whose creation was acknowledged.
    pub(super) acknowledged: usize,
    /// Tasks whose cancellation was acknowledged.
    pub(super) cancelled: usize,
    pub(super) deleted: usize,
    /// Results of commands that a later server adopted while they ran.
    pub(super) reattached: usize,
    pub(super) supervisors_killed: usize,
    /// Attempts that a restart declared void.
    pub(super) voided: usize,
    /// Void attempts whose supervisor started later.
    pub(super) late_starters: usize,
    pub(super) commands: usize,
    /// Servers that were killed before they had recovered, or shortly after.
    pub(super) false_starts: u32,
    /// Printing commands whose output was complete, and its length.
    pub(super) printed: usize,
    pub(super) bytes: u64,
}

impl Report {
    pub(super) fn print(&self, as_json: bool) {
        if as_json {
            println!("{}", self.as_json());
            return;
        }
        println!("seed                {}", self.seed);
        println!("rounds              {}", self.rounds);
        println!("acknowledged        {}", self.acknowledged);
        println!("cancelled           {}", self.cancelled);
        println!("deleted             {}", self.deleted);
        println!("re-attached         {}", self.reattached);
        println!("supervisors killed  {}", self.supervisors_killed);
        println!("attempts voided     {}", self.voided);
        println!("late starters       {}", self.late_starters);
        println!("commands run        {}", self.commands);
        println!("killed at start     {}", self.false_starts);
        println!("outputs whole       {}, {} bytes", self.printed, self.bytes);
    }

    fn as_json(&self) -> serde_json::Value {
        json!({
            "seed": self.seed,
            "rounds": self.rounds,
            "acknowledged": self.acknowledged,
            "cancelled": self.cancelled,
            "deleted": self.deleted,
            "reattached": self.reattached,
            "supervisorsKilled": self.supervisors_killed,
            "voided": self.voided,
            "lateStarters": self.late_starters,
            "commands": self.commands,
            "falseStarts": self.false_starts,
            "outputsWhole": self.printed,
            "outputBytes": self.bytes,
        })
    }

    /// Returns an error if one of these did not happen: the run has not tested it.
    pub(super) fn check(&self) -> Result<(), CrashError> {
        let needed = [
            (self.acknowledged, "task was acknowledged"),
            (self.cancelled, "cancel was acknowledged"),
            (self.deleted, "deletion was requested"),
            (self.reattached, "running command was adopted by a later server"),
            (self.supervisors_killed, "supervisor was killed"),
            (self.printed, "command printed after a silence"),
        ];
        match needed.iter().find(|(count, _)| *count == 0) {
            Some((_, what)) => Err(CrashError::Idle { what, seed: self.seed }),
            None => Ok(()),
        }
    }
}

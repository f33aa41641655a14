//! The report of a run.

use super::ClusterError;
use serde_json::json;
use std::{collections::BTreeMap, time::Duration};

pub(super) struct Report {
    pub(super) seed: u64,
    /// The kind of network between nodes and database.
    pub(super) network: &'static str,
    pub(super) rounds: u32,
    /// How often what happened to the nodes.
    pub(super) faults: BTreeMap<&'static str, usize>,
    /// Tasks whose creation was acknowledged.
    pub(super) acknowledged: usize,
    /// Answers about tasks that were checked for an order.
    pub(super) answers_checked: usize,
    pub(super) commands: usize,
    /// Effects of steps.
    pub(super) steps: usize,
    /// Of which so many again, each cut off between its effect and its entry.
    pub(super) repeated: usize,
    /// Of which so many of runs that were cut off from their lease.
    pub(super) stale: usize,
    pub(super) plain_calls: usize,
    pub(super) questions: usize,
    pub(super) cancels: usize,
    pub(super) repeated_calls: usize,
    pub(super) unanswered: usize,
    /// How long the last tasks took to end.
    pub(super) drained_in: Duration,
}

impl Report {
    fn lines(&self) -> [(&'static str, usize); 11] {
        [
            ("acknowledged", self.acknowledged),
            ("answers checked", self.answers_checked),
            ("commands", self.commands),
            ("effects of steps", self.steps),
            ("repeated steps", self.repeated),
            ("stale steps", self.stale),
            ("plain calls", self.plain_calls),
            ("questions answered", self.questions),
            ("cancels", self.cancels),
            ("calls repeated", self.repeated_calls),
            ("unanswered", self.unanswered),
        ]
    }

    pub(super) fn print(&self, as_json: bool) {
        if as_json {
            let lines: BTreeMap<_, _> = self.lines().into_iter().collect();
            let drained = self.drained_in.as_secs_f64();
            let report = json!({
                "seed": self.seed, "network": self.network, "rounds": self.rounds, "faults": self.faults, "counts": lines,
                "drainedInSeconds": drained,
            });
            println!("{report}");
            return;
        }
        println!("{:<36}{}", "seed", self.seed);
        println!("{:<36}{}", "network", self.network);
        println!("{:<36}{}", "rounds", self.rounds);
        for (what, count) in self
            .faults
            .iter()
            .map(|(what, count)| (*what, *count))
            .chain(self.lines())
        {
            println!("{what:<36}{count}");
        }
        println!("{:<36}{:.1} s", "last tasks ended after", self.drained_in.as_secs_f64());
    }

    /// Returns an error if one of these did not happen: the run has not tested it.
    pub(super) fn check(&self) -> Result<(), ClusterError> {
        let needed = [
            (self.acknowledged, "task was acknowledged"),
            (self.commands, "command was run"),
            (self.steps, "step was run"),
            (self.questions, "question was answered"),
            (self.cancels, "cancel was acknowledged"),
            (self.repeated_calls, "call was made again"),
        ];
        match needed.iter().find(|(count, _)| *count == 0) {
            Some((_, what)) => Err(ClusterError::Idle { what, seed: self.seed }),
            None => Ok(()),
        }
    }
}

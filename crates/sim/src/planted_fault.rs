//! Faults planted on purpose, to verify that the simulation finds them.

use clap::ValueEnum;
use std::fmt;

/// A fault in the store of the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlantedFault {
    /// Some writes are acknowledged before they are executed, and a crash in between loses them.
    AckBeforeCommit,
    /// A change with a stale fence is applied.
    MissingFence,
    /// After a restart, a new input request gets the key of an earlier one.
    ReusedKey,
    /// Nodes are not told of changes, and find no newer versions when they ask for them.
    LostWakeup,
    /// A write whose answer is lost is said to have failed.
    UnknownAsFailed,
    /// A lease that has ended counts as held.
    StaleLease,
    /// A schedule starts a task also if its row has another planned time.
    ForgottenRow,
    /// A tool with a start rate is claimed from as one without.
    ForgottenRate,
    /// A task with a unique value is created as one without.
    ForgottenValue,
    /// The limits of groups are not kept.
    UnlimitedGroups,
}

impl fmt::Display for PlantedFault {
    /// The name on the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

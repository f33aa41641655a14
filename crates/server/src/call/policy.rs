//! Which calls become tasks: the table of design section 7.

use longhaul_core::{Millis, TaskPolicy};

/// How a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    /// Legacy, with `task`.
    LegacyTask,
    /// Legacy, without.
    LegacyPlain,
    /// Modern, declaring that it copes with tasks.
    ModernDeclaring,
    /// Modern, not declaring it.
    ModernPlain,
}

/// What becomes of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// A task, at once.
    Task,
    /// The client waits for the answer.
    Wait(Patience),
}

/// How long a waiting client's call is held, in milliseconds from now, and what it is answered then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As long as it takes.
    Endless,
    /// After that it becomes a task.
    Promote(Millis),
    /// After that it becomes a task, and the client, which knows no tasks, is told in words how to follow it.
    HandOff(Millis),
}

/// Why the tool cannot be called in this way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unroutable {
    /// It only runs as a task.
    MustBeTask,
    /// It never runs as a task.
    CannotBeTask,
    /// It only runs as a task, and the client has not declared that it copes with one.
    MustDeclare,
}

impl Route {
    /// `handoff` is the tool's, for those who know no tasks.
    pub(crate) fn of(policy: TaskPolicy, handoff: Option<Millis>, asking: Asking) -> Result<Self, Unroutable> {
        match (policy, asking) {
            (TaskPolicy::Never, Asking::LegacyTask) => Err(Unroutable::CannotBeTask),
            (TaskPolicy::Always, Asking::LegacyPlain) => Err(Unroutable::MustBeTask),
            (TaskPolicy::Always, Asking::ModernPlain) => Err(Unroutable::MustDeclare),
            (TaskPolicy::Always | TaskPolicy::Optional, Asking::ModernDeclaring) | (_, Asking::LegacyTask) => {
                Ok(Self::Task)
            }
            (TaskPolicy::After(millis), Asking::ModernDeclaring) => Ok(Self::Wait(Patience::Promote(millis))),
            (TaskPolicy::Never, _) => Ok(Self::Wait(Patience::Endless)),
            (_, Asking::LegacyPlain | Asking::ModernPlain) => {
                Ok(Self::Wait(handoff.map_or(Patience::Endless, Patience::HandOff)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Asking::*, Patience::*, Unroutable::*, *};

    #[test]
    fn the_table_of_the_design() {
        const TASK: Result<Route, Unroutable> = Ok(Route::Task);
        const WAIT: Result<Route, Unroutable> = Ok(Route::Wait(Endless));
        const AFTER: Result<Route, Unroutable> = Ok(Route::Wait(Promote(5)));
        let asking = [LegacyTask, LegacyPlain, ModernDeclaring, ModernPlain];
        let table = [
            (TaskPolicy::Never, [Err(CannotBeTask), WAIT, WAIT, WAIT]),
            (TaskPolicy::Optional, [TASK, WAIT, TASK, WAIT]),
            (TaskPolicy::After(5), [TASK, WAIT, AFTER, WAIT]),
            (TaskPolicy::Always, [TASK, Err(MustBeTask), TASK, Err(MustDeclare)]),
        ];
        for (policy, routes) in table {
            let found = asking.map(|asking| Route::of(policy, None, asking));
            assert_eq!(found, routes, "{policy:?}");
            // Who waits, and may have a task instead, is handed off; nothing else changes.
            let handed_off = routes.map(|route| match route {
                WAIT if policy != TaskPolicy::Never => Ok(Route::Wait(HandOff(9))),
                other => other,
            });
            let found = asking.map(|asking| Route::of(policy, Some(9), asking));
            assert_eq!(found, handed_off, "{policy:?}, handing off");
        }
    }
}

//! Which calls become tasks: decided by the tool's policy, and by what the client asks for and declares.

use longhaul_core::{Millis, TaskPolicy};

/// How a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerMode {
    /// Legacy, with `task`.
    LegacyTask,
    /// Legacy, without.
    LegacyPlain,
    /// Modern, declaring tasks.
    ModernDeclaring,
    /// Modern, declaring tasks and wanting one at once, since its caller does not wait.
    ModernDetached,
    /// Modern, not declaring tasks.
    ModernPlain,
}

impl CallerMode {
    /// Whether the call can be answered with a task.
    pub(crate) fn takes_task(self) -> bool {
        matches!(self, Self::LegacyTask | Self::ModernDeclaring | Self::ModernDetached)
    }
}

/// How the call is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// A task, at once.
    Task,
    /// The client waits for the answer.
    Wait(WaitPolicy),
}

/// How long a client waits for a plain call, in milliseconds from now, and what happens then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitPolicy {
    /// As long as it takes.
    Unlimited,
    /// After that it becomes a task.
    Promote(Millis),
    /// The same, from the moment when its work begins: what does the work may have to be started first.
    PromoteOnceBegun(Millis),
    /// After that it becomes a task, and a text tells the client, which has no tasks, how to follow it.
    HandOff(Millis),
}

/// Why the tool cannot be called in this way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteError {
    /// It only runs as a task.
    MustBeTask,
    /// It never runs as a task.
    CannotBeTask,
    /// It only runs as a task, and the client has not declared tasks.
    MustDeclare,
}

impl Route {
    /// `handoff` is the tool's, for clients without tasks.
    pub(crate) fn of(policy: TaskPolicy, handoff: Option<Millis>, mode: CallerMode) -> Result<Self, RouteError> {
        match (policy, mode) {
            (TaskPolicy::Never, CallerMode::LegacyTask) => Err(RouteError::CannotBeTask),
            (TaskPolicy::Always, CallerMode::LegacyPlain) if handoff.is_none() => Err(RouteError::MustBeTask),
            (TaskPolicy::Always, CallerMode::ModernPlain) if handoff.is_none() => Err(RouteError::MustDeclare),
            (TaskPolicy::Always, CallerMode::LegacyPlain | CallerMode::ModernPlain) => {
                Ok(Self::Wait(WaitPolicy::HandOff(0)))
            }
            (TaskPolicy::Always | TaskPolicy::Optional, CallerMode::ModernDeclaring | CallerMode::ModernDetached)
            | (TaskPolicy::After(_), CallerMode::ModernDetached)
            | (_, CallerMode::LegacyTask) => Ok(Self::Task),
            (TaskPolicy::After(millis), CallerMode::ModernDeclaring) => Ok(Self::Wait(WaitPolicy::Promote(millis))),
            (TaskPolicy::Never, _) => Ok(Self::Wait(WaitPolicy::Unlimited)),
            (_, CallerMode::LegacyPlain | CallerMode::ModernPlain) => {
                Ok(Self::Wait(handoff.map_or(WaitPolicy::Unlimited, WaitPolicy::HandOff)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CallerMode::*, RouteError::*, WaitPolicy::*, *};

    #[test]
    fn the_table_of_the_design() {
        const TASK: Result<Route, RouteError> = Ok(Route::Task);
        const WAIT: Result<Route, RouteError> = Ok(Route::Wait(Unlimited));
        const AFTER: Result<Route, RouteError> = Ok(Route::Wait(Promote(5)));
        let mode = [LegacyTask, LegacyPlain, ModernDeclaring, ModernDetached, ModernPlain];
        let table = [
            (TaskPolicy::Never, [Err(CannotBeTask), WAIT, WAIT, WAIT, WAIT]),
            (TaskPolicy::Optional, [TASK, WAIT, TASK, TASK, WAIT]),
            (TaskPolicy::After(5), [TASK, WAIT, AFTER, TASK, WAIT]),
            (
                TaskPolicy::Always,
                [TASK, Err(MustBeTask), TASK, TASK, Err(MustDeclare)],
            ),
        ];
        for (policy, routes) in table {
            let found = mode.map(|mode| Route::of(policy, None, mode));
            assert_eq!(found, routes, "{policy:?}");
            // A call that is waited for and may become a task is handed off, and one that must be a task at once; nothing else changes.
            let handed_off = routes.map(|route| match route {
                WAIT if policy != TaskPolicy::Never => Ok(Route::Wait(HandOff(9))),
                Err(MustBeTask | MustDeclare) => Ok(Route::Wait(HandOff(0))),
                other => other,
            });
            let found = mode.map(|mode| Route::of(policy, Some(9), mode));
            assert_eq!(found, handed_off, "{policy:?}, handing off");
        }
    }
}

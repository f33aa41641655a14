//! Which calls become tasks: the table of design section 7.

use longhaul_core::{Millis, TaskPolicy};

/// How a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asking {
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
pub(super) enum Route {
    /// A task, at once.
    Task,
    /// The client waits for the answer, and gets a task instead if it takes longer than `promote_after`.
    Wait {
        /// Milliseconds from now.
        promote_after: Option<Millis>,
    },
}

/// Why the tool cannot be called in this way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unroutable {
    /// It only runs as a task.
    MustBeTask,
    /// It never runs as a task.
    CannotBeTask,
    /// It only runs as a task, and the client has not declared that it copes with one.
    MustDeclare,
}

impl Route {
    pub(super) fn of(policy: TaskPolicy, asking: Asking) -> Result<Self, Unroutable> {
        match (policy, asking) {
            (TaskPolicy::Never, Asking::LegacyTask) => Err(Unroutable::CannotBeTask),
            (TaskPolicy::Always, Asking::LegacyPlain) => Err(Unroutable::MustBeTask),
            (TaskPolicy::Always, Asking::ModernPlain) => Err(Unroutable::MustDeclare),
            (TaskPolicy::Always | TaskPolicy::Optional, Asking::ModernDeclaring) | (_, Asking::LegacyTask) => {
                Ok(Self::Task)
            }
            (TaskPolicy::After(millis), Asking::ModernDeclaring) => Ok(Self::Wait {
                promote_after: Some(millis),
            }),
            (TaskPolicy::Never, _) | (_, Asking::LegacyPlain | Asking::ModernPlain) => {
                Ok(Self::Wait { promote_after: None })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Asking::*, Unroutable::*, *};

    #[test]
    fn the_table_of_the_design() {
        const TASK: Result<Route, Unroutable> = Ok(Route::Task);
        const WAIT: Result<Route, Unroutable> = Ok(Route::Wait { promote_after: None });
        const AFTER: Result<Route, Unroutable> = Ok(Route::Wait { promote_after: Some(5) });
        let asking = [LegacyTask, LegacyPlain, ModernDeclaring, ModernPlain];
        let table = [
            (TaskPolicy::Never, [Err(CannotBeTask), WAIT, WAIT, WAIT]),
            (TaskPolicy::Optional, [TASK, WAIT, TASK, WAIT]),
            (TaskPolicy::After(5), [TASK, WAIT, AFTER, WAIT]),
            (TaskPolicy::Always, [TASK, Err(MustBeTask), TASK, Err(MustDeclare)]),
        ];
        for (policy, routes) in table {
            assert_eq!(asking.map(|asking| Route::of(policy, asking)), routes, "{policy:?}");
        }
    }
}

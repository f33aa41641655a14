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
    /// The client waits for the answer.
    Wait,
    /// The client waits, and gets a task if it takes longer than this.
    WaitThenTask(Millis),
    /// Refused: this tool only runs as a task.
    MustBeTask,
    /// Refused: this tool never runs as a task.
    CannotBeTask,
    /// Refused: the client would have to declare the extension.
    MustDeclare,
}

impl Route {
    pub(super) fn of(policy: TaskPolicy, asking: Asking) -> Self {
        match (policy, asking) {
            (TaskPolicy::Never, Asking::LegacyTask) => Self::CannotBeTask,
            (TaskPolicy::Never, _) => Self::Wait,
            (_, Asking::LegacyTask) => Self::Task,
            (TaskPolicy::Always, Asking::LegacyPlain) => Self::MustBeTask,
            (TaskPolicy::Always, Asking::ModernPlain) => Self::MustDeclare,
            (TaskPolicy::Always | TaskPolicy::Optional, Asking::ModernDeclaring) => Self::Task,
            (TaskPolicy::After(millis), Asking::ModernDeclaring) => Self::WaitThenTask(millis),
            (_, Asking::LegacyPlain | Asking::ModernPlain) => Self::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Asking::*, Route::*, *};

    #[test]
    fn the_table_of_the_design() {
        let asking = [LegacyTask, LegacyPlain, ModernDeclaring, ModernPlain];
        let table = [
            (TaskPolicy::Never, [CannotBeTask, Wait, Wait, Wait]),
            (TaskPolicy::Optional, [Task, Wait, Task, Wait]),
            (TaskPolicy::After(5), [Task, Wait, WaitThenTask(5), Wait]),
            (TaskPolicy::Always, [Task, MustBeTask, Task, MustDeclare]),
        ];
        for (policy, routes) in table {
            assert_eq!(asking.map(|asking| Route::of(policy, asking)), routes, "{policy:?}");
        }
    }
}

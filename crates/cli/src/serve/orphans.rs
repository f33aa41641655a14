//! Folders of attempts whose tasks the database does not know. A folder goes before its task's row, and comes after it: so they prove that
//! the database was removed, restored from a backup, or lost its write-ahead log.

use longhaul_core::{Store, TaskId};
use longhaul_upstream::command::Attempts;
use serde_json::json;

/// What was found at the start.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    kept: usize,
    /// How many of those that were kept have a command that still runs.
    running: usize,
    removed: usize,
    /// Why they could not all be looked at, or removed.
    problem: Option<String>,
}

impl Orphans {
    /// Looks for them, and removes those that nothing runs in if that is asked for. Call it before anything is begun.
    pub(super) async fn find(attempts: &Attempts, store: &dyn Store, remove: bool) -> Self {
        let mut found = Self::default();
        let tasks = attempts.tasks().unwrap_or_else(|error| {
            found.problem = Some(error.to_string());
            Vec::new()
        });
        for task in tasks {
            match store.peek(&task).await {
                Ok(Some(_)) => {}
                Ok(None) => found.note(attempts, &task, remove),
                Err(error) => found.problem = Some(error.to_string()),
            }
        }
        found
    }

    fn note(&mut self, attempts: &Attempts, task: &TaskId, remove: bool) {
        let looked = attempts.is_held(task).and_then(|held| {
            if remove && !held {
                attempts.remove(task)?;
            }
            Ok(held)
        });
        match looked {
            Ok(false) if remove => self.removed += 1,
            Ok(held) => {
                self.kept += 1;
                self.running += usize::from(held);
            }
            Err(error) => {
                self.kept += 1;
                self.problem = Some(error.to_string());
            }
        }
    }

    /// For people; nothing if there is nothing to say.
    pub(super) fn as_text(&self) -> Option<String> {
        let mut text = Vec::new();
        if self.removed > 0 {
            text.push(format!(
                "removed {} folders of attempts whose tasks the database does not know",
                self.removed
            ));
        }
        if self.kept > 0 {
            let running = match self.running {
                0 => String::new(),
                running => format!(", and the commands of {running} still run"),
            };
            text.push(format!(
                "warning: {} folders in `attempts` belong to tasks that the database does not know: it was removed, restored from a backup, or lost its \
                 write-ahead log. They are kept, with the logs and results of their commands{running}. To remove those in which nothing runs, start the \
                 server once with --remove-orphaned-attempts",
                self.kept
            ));
        }
        if let Some(problem) = &self.problem {
            text.push(format!(
                "warning: not every folder in `attempts` could be looked at: {problem}"
            ));
        }
        (!text.is_empty()).then(|| text.join("\n"))
    }

    pub(super) fn as_json(&self) -> serde_json::Value {
        json!({"kept": self.kept, "running": self.running, "removed": self.removed})
    }
}

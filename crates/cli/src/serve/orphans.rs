//! Attempt folders whose tasks are not in the database. A folder is created after its task's row and removed before it, so an orphaned
//! folder proves that the database was removed, restored from a backup, or lost its write-ahead log.

use longhaul_command::Attempts;
use longhaul_core::{Store, TaskId};
use serde_json::json;

/// The orphaned folders found at start.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    kept: usize,
    /// How many kept folders have a command that still runs.
    running: usize,
    removed: usize,
    /// Why not all folders could be checked or removed.
    problem: Option<String>,
}

impl Orphans {
    /// Finds orphaned folders. With `remove`, deletes those without a running command.
    ///
    /// Call it after the start is recorded: a copy of the database that knows those tasks is then recognized as an older one.
    pub(super) async fn find(attempts: &Attempts, store: &dyn Store, remove: bool) -> Self {
        let mut found = Self::default();
        let tasks = attempts.tasks().unwrap_or_else(|error| {
            found.problem = Some(error.to_string());
            Vec::new()
        });
        for task in tasks {
            match store.get_unscoped(&task).await {
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

    /// The lines to print, if there are any.
    pub(super) fn as_text(&self) -> Option<String> {
        let mut text = Vec::new();
        if self.removed > 0 {
            text.push(format!(
                "removed {} attempt folders whose tasks are not in the database",
                self.removed
            ));
        }
        if self.kept > 0 {
            let running = match self.running {
                0 => String::new(),
                running => format!("; commands still run in {running} of them"),
            };
            text.push(format!(
                "warning: {} attempt folders belong to tasks that are not in the database: it was removed, restored from a backup, or lost its \
                 write-ahead log. They are kept, with the logs and results of their commands{running}. To remove those without a running command, \
                 start the server once with --remove-orphaned-attempts",
                self.kept
            ));
        }
        if let Some(problem) = &self.problem {
            text.push(format!("warning: could not check every attempt folder: {problem}"));
        }
        (!text.is_empty()).then(|| text.join("\n"))
    }

    pub(super) fn as_json(&self) -> serde_json::Value {
        json!({"kept": self.kept, "running": self.running, "removed": self.removed})
    }
}

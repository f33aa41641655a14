//! The report that `serve` prints when it is ready.

use super::orphans::Orphans;
use crate::{
    amounts::{count, size},
    output,
};
use longhaul_core::store::NodeRole;
use longhaul_runtime::Recovered;
use serde_json::json;
use std::path::PathBuf;

pub(super) struct Report {
    pub(super) name: String,
    /// `None` if the address is in use.
    pub(super) url: Option<String>,
    pub(super) role: NodeRole,
    /// Where it is operated, besides the socket in its data directory.
    pub(super) admin: Option<String>,
    /// Who may come in.
    pub(super) who: Vec<String>,
    pub(super) data_dir: PathBuf,
    /// The database with the tasks, if they are not in the data directory.
    pub(super) store: Option<String>,
    pub(super) tools: Vec<String>,
    pub(super) recovered: Recovered,
    /// Disk usage of the logs and results of commands; `None` if unknown.
    pub(super) bytes_held: Option<u64>,
    /// Reasons why commands may not survive the server on this machine.
    pub(super) hazards: Vec<String>,
    pub(super) orphans: Orphans,
    /// Why the database is read-only.
    pub(super) reads_only: Option<String>,
}

impl Report {
    pub(super) fn print(&self, json: bool) {
        for hazard in &self.hazards {
            output::note(&format!("warning: {hazard}"));
        }
        if let Some(orphans) = self.orphans.as_text() {
            output::note(&orphans);
        }
        if let Some(why) = &self.reads_only {
            output::note(&format!(
                "warning: {why}.\n  The server is read-only: tasks can be read, but nothing runs, and calls, answers and cancels are refused. To continue with this \
                 database, stop the server and start it once with --accept-restored-database."
            ));
        }
        if json {
            output::json_line(&self.as_json());
        } else {
            output::note(&self.as_text());
        }
    }

    fn as_text(&self) -> String {
        let address = self.url.as_deref().unwrap_or("only longhaul stdio");
        let serves = match self.role {
            NodeRole::Both => format!("serves {address}\n  access {}", self.who.join("; ")),
            NodeRole::Front => format!(
                "is a front: it serves {address}, and workers run its tasks\n  access {}",
                self.who.join("; ")
            ),
            NodeRole::Worker => "is a worker: it runs tasks, and accepts no requests".to_owned(),
        };
        let mut text = format!(
            "`{}` {serves}\n  data   {}{}\n  tools  {}",
            self.name,
            self.data_dir.display(),
            self.store
                .as_ref()
                .map(|store| format!("\n  store  {store}"))
                .unwrap_or_default(),
            self.tools.join(", ")
        );
        if let Some(admin) = &self.admin {
            text.push_str(&format!("\n  admin  {admin}"));
        }
        if let Some(bytes) = self.bytes_held.filter(|bytes| *bytes > 0) {
            text.push_str(&format!("\n  held   {} of command logs and results", size(bytes)));
        }
        let Recovered {
            attempts,
            orphaned_calls,
            live,
        } = self.recovered;
        if attempts + orphaned_calls > 0 || live.queued > 0 {
            text.push_str(&format!(
                "\n  recovered {}, {} queued; cancelled {}",
                count(attempts as u64, "running task"),
                live.queued,
                count(orphaned_calls as u64, "orphaned call")
            ));
        }
        text
    }

    fn as_json(&self) -> serde_json::Value {
        let Recovered {
            attempts,
            orphaned_calls,
            live,
        } = self.recovered;
        json!({
            "name": self.name,
            "url": self.url,
            "role": self.role.word(),
            "admin": self.admin,
            "access": self.who,
            "dataDir": self.data_dir,
            "store": self.store,
            "tools": self.tools,
            "bytesHeld": self.bytes_held,
            "recovered": {
                "attempts": attempts,
                "forsaken": orphaned_calls,
                "queued": live.queued,
                "running": live.running,
                "parked": live.suspended,
                "blocked": live.blocked,
            },
            "hazards": self.hazards,
            "orphanedAttempts": self.orphans.as_json(),
            "readsOnly": self.reads_only,
        })
    }
}

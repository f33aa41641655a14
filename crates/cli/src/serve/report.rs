//! The report that `serve` prints when it is ready.

use super::orphans::Orphans;
use crate::output::{
    self,
    amounts::{count, size},
};
use longhaul_core::{plain_line, store::NodeRole};
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
    /// How many prompts, resources and resource templates there are.
    pub(super) content: [usize; 3],
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
        let access = format!("  access {}", self.who.join("; "));
        let (serves, access) = match self.role {
            NodeRole::Both => (format!("serves {address}"), Some(access)),
            NodeRole::Front => (
                format!("is a front: it serves {address}, and workers run its tasks"),
                Some(access),
            ),
            NodeRole::Worker => ("is a worker: it runs tasks, and accepts no requests".to_owned(), None),
        };
        let mut lines = vec![format!("`{}` {serves}", self.name)];
        lines.extend(access);
        lines.push(format!("  data   {}", self.data_dir.display()));
        lines.extend(self.store.as_ref().map(|store| format!("  store  {store}")));
        let content = self.content.iter().zip(["prompt", "resource", "resource template"]);
        let content = content.filter(|(number, _)| **number > 0);
        let content: Vec<String> = content.map(|(number, what)| count(*number as u64, what)).collect();
        if !self.tools.is_empty() || content.is_empty() {
            lines.push(format!("  tools  {}", self.tools.join(", ")));
        }
        if !content.is_empty() {
            lines.push(format!("  offers {}", content.join(", ")));
        }
        lines.extend(self.admin.as_ref().map(|admin| format!("  admin  {admin}")));
        if let Some(bytes) = self.bytes_held.filter(|bytes| *bytes > 0) {
            lines.push(format!("  held   {} of command logs and results", size(bytes)));
        }
        let Recovered {
            attempts,
            orphaned_calls,
            live,
        } = self.recovered;
        if attempts + orphaned_calls > 0 || live.queued > 0 {
            lines.push(format!(
                "  recovered {}, {} queued; cancelled {}",
                count(attempts as u64, "running task"),
                live.queued,
                count(orphaned_calls as u64, "orphaned call")
            ));
        }
        // Upstreams name their tools as they like.
        let lines: Vec<String> = lines.iter().map(|line| plain_line(line)).collect();
        lines.join("\n")
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

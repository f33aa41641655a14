//! What `serve` says once it serves.

use super::orphans::Orphans;
use crate::output;
use longhaul_runtime::Recovered;
use serde_json::json;
use std::path::PathBuf;

pub(super) struct Report {
    pub(super) name: String,
    /// `None` if the address is taken.
    pub(super) url: Option<String>,
    pub(super) data_dir: PathBuf,
    pub(super) tools: Vec<String>,
    pub(super) recovered: Recovered,
    /// On disk, for the logs and results of commands; `None` if it could not be told.
    pub(super) bytes_held: Option<u64>,
    /// Why commands might not survive the server here.
    pub(super) hazards: Vec<String>,
    pub(super) orphans: Orphans,
    /// Why tasks can be read and nothing else.
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
                "warning: {why}.\n  Nothing is run, and calls, answers and cancels are refused; tasks can be read. If the database is the one to go on with, stop \
                 this server and start it once with --accept-restored-database."
            ));
        }
        if json {
            output::json_line(&self.as_json());
        } else {
            output::note(&self.as_text());
        }
    }

    fn as_text(&self) -> String {
        let mut text = format!(
            "`{}` serves {}\n  data   {}\n  tools  {}",
            self.name,
            self.url.as_deref().unwrap_or("longhaul stdio alone"),
            self.data_dir.display(),
            self.tools.join(", ")
        );
        if let Some(bytes) = self.bytes_held.filter(|bytes| *bytes > 0) {
            text.push_str(&format!("\n  held   {} of command logs and results", size(bytes)));
        }
        let Recovered {
            attempts,
            forsaken,
            live,
        } = self.recovered;
        if attempts + forsaken > 0 || live.queued > 0 {
            text.push_str(&format!(
                "\n  found  {attempts} attempts of an earlier run, taken up again; {} tasks queued; {forsaken} calls whose caller is gone, cancelled",
                live.queued
            ));
        }
        text
    }

    fn as_json(&self) -> serde_json::Value {
        let Recovered {
            attempts,
            forsaken,
            live,
        } = self.recovered;
        json!({
            "name": self.name,
            "url": self.url,
            "dataDir": self.data_dir,
            "tools": self.tools,
            "bytesHeld": self.bytes_held,
            "recovered": {
                "attempts": attempts,
                "forsaken": forsaken,
                "queued": live.queued,
                "running": live.running,
                "parked": live.parked,
                "blocked": live.blocked,
            },
            "hazards": self.hazards,
            "orphanedAttempts": self.orphans.as_json(),
            "readsOnly": self.reads_only,
        })
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

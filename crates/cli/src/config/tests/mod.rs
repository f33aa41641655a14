//! Files, good and bad.

mod mistakes;
mod shared_store;
mod sound;
mod warnings;

use super::Environment;
use std::fs;
use tempfile::TempDir;

/// Enough for a file to be sound, to which a test adds what it is about.
const SERVER: &str = "[server]\nname = \"box\"\n";
const TOOL: &str = "[[tool]]\nname = \"t\"\ndescription = \"d\"\n";

fn environment() -> Environment {
    Environment {
        home: Some("/home/me".into()),
        state_home: None,
        cores: 6,
        path: Some("/bin:/usr/bin".into()),
        now: longhaul_core::UnixMillis(1_800_000_000_000),
        variable: |name| std::env::var(name).ok(),
    }
}

fn folder_with(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("jobs.toml"), text).unwrap();
    folder
}

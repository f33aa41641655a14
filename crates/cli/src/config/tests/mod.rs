//! Files, good and bad.

mod mistakes;
mod shared_store;
mod sound;
mod warnings;

use super::{Config, ConfigError, Environment, load};
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
        needs_variables: true,
    }
}

fn folder_with(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("jobs.toml"), text).unwrap();
    folder
}

/// A file that is sound but for these keys of `[server]` and the sections behind them.
fn folder_with_server(keys: &str) -> TempDir {
    folder_with(&format!("{SERVER}{keys}\n{TOOL}command = [\"true\"]\n"))
}

/// A file that is sound but for these keys of its tool.
fn folder_with_tool(keys: &str) -> TempDir {
    folder_with(&format!("{SERVER}{TOOL}{keys}"))
}

fn load_in(folder: &TempDir) -> Result<Config, ConfigError> {
    load(&folder.path().join("jobs.toml"), &environment())
}

/// What is wrong with the file, one line each, without the folder.
fn problems_in(folder: &TempDir) -> Vec<String> {
    let error = load_in(folder).unwrap_err().to_string();
    error.lines().map(|line| without_folder(folder, line)).collect()
}

/// What is said about a file that is accepted.
fn warnings_in(folder: &TempDir) -> Vec<String> {
    let warnings = load_in(folder).unwrap().warnings;
    let lines = warnings.iter().map(|warning| warning.at("jobs.toml"));
    lines.map(|line| without_folder(folder, &line)).collect()
}

fn without_folder(folder: &TempDir, line: &str) -> String {
    line.replace(&format!("{}/", folder.path().display()), "")
}

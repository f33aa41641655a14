//! The keys of `[server]` about a database that servers share.

use super::{SERVER, TOOL, environment, folder_with};
use crate::config::load;

/// What is said about the keys: problems, or else warnings.
fn said(keys: &str) -> Vec<String> {
    let folder = folder_with(&format!("{SERVER}{keys}\n{TOOL}command = [\"true\"]\n"));
    let prefix = format!("{}/", folder.path().display());
    match load(&folder.path().join("jobs.toml"), &environment()) {
        Ok(config) => config.warnings.iter().map(|warning| warning.at("jobs.toml")).collect(),
        Err(error) => error
            .to_string()
            .lines()
            .map(|line| line.replace(&prefix, ""))
            .collect(),
    }
}

const STORE: &str = "store = \"postgres://jobs@127.0.0.1/jobs\"\n";

#[test]
fn amounts_have_their_ranges() {
    for (keys, wanted) in [
        (
            "store_connections = 4\nstore_statement_timeout = \"100ms\"\nstore_lock_timeout = \"10ms\"",
            None,
        ),
        (
            "store_connections = 1000\nstore_statement_timeout = \"10m\"\nstore_lock_timeout = \"10m\"",
            None,
        ),
        // The default of the other timeout follows.
        ("store_statement_timeout = \"1s\"", None),
        (
            "store_connections = 3",
            Some("`store_connections` must be a whole number from 4 to 1000, not 3"),
        ),
        (
            "store_connections = 1001",
            Some("`store_connections` must be a whole number from 4 to 1000, not 1001"),
        ),
        (
            "store_statement_timeout = \"99ms\"",
            Some("`store_statement_timeout` must be 100ms to 10m"),
        ),
        (
            "store_statement_timeout = \"11m\"",
            Some("`store_statement_timeout` must be 100ms to 10m"),
        ),
        (
            "store_lock_timeout = \"9ms\"",
            Some("`store_lock_timeout` must be 10ms to 10m"),
        ),
        (
            "store_lock_timeout = \"6s\"",
            Some(
                "`store_lock_timeout` must be at most `store_statement_timeout` (5s), which ends a statement that waits for a lock, too",
            ),
        ),
    ] {
        let found = said(&format!("{STORE}{keys}"));
        let wanted: Vec<String> = wanted.iter().map(|wanted| format!("jobs.toml:4: {wanted}")).collect();
        assert_eq!(found, wanted, "{keys}");
    }
}

#[test]
fn they_mean_something_only_with_a_database() {
    for key in [
        "store_schema = \"x\"",
        "store_connections = 9",
        "store_statement_timeout = \"1s\"",
        "store_lock_timeout = \"1s\"",
        "node_lease = \"20s\"",
        "lost_after = \"1h\"",
    ] {
        let name = key.split(' ').next().unwrap();
        assert_eq!(
            said(key),
            [format!("jobs.toml:3: `{name}` means something only with `store`")]
        );
    }
}

//! The keys of `[server]` about a database that servers share.

use super::{folder_with_server, load_in, problems_in, warnings_in};

/// What is said about the keys: problems, or else warnings.
fn said(keys: &str) -> Vec<String> {
    let folder = folder_with_server(keys);
    match load_in(&folder) {
        Ok(_) => warnings_in(&folder),
        Err(_) => problems_in(&folder),
    }
}

const STORE: &str = "store = \"postgres://jobs@127.0.0.1/jobs\"\n";

#[test]
fn amounts_have_their_ranges() {
    for sound in [
        "store_connections = 4\nstore_statement_timeout = \"100ms\"\nstore_lock_timeout = \"10ms\"",
        "store_connections = 1000\nstore_statement_timeout = \"10m\"\nstore_lock_timeout = \"10m\"",
        // The default of the other timeout follows.
        "store_statement_timeout = \"1s\"",
    ] {
        assert_eq!(said(&format!("{STORE}{sound}")), [""; 0], "{sound}");
    }
    let longer = "must be at most `store_statement_timeout` (5s), which ends a statement that waits for a lock, too";
    for (key, value, wanted) in [
        ("connections", "3", "must be a whole number from 4 to 1000, not 3"),
        ("connections", "1001", "must be a whole number from 4 to 1000, not 1001"),
        ("statement_timeout", "\"99ms\"", "must be 100ms to 10m"),
        ("statement_timeout", "\"11m\"", "must be 100ms to 10m"),
        ("lock_timeout", "\"9ms\"", "must be 10ms to 10m"),
        ("lock_timeout", "\"6s\"", longer),
    ] {
        let found = said(&format!("{STORE}store_{key} = {value}"));
        assert_eq!(found, [format!("jobs.toml:4: `store_{key}` {wanted}")]);
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
        let wanted = format!("jobs.toml:3: `{name}` means something only with `store`");
        assert_eq!(said(key), [wanted]);
    }
}

//! A data directory that is not as the server has left it: restored, emptied, removed.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "../assertions/mod.rs"]
#[allow(dead_code)]
mod assertions;
mod attempt_ends;
mod backup;
mod backup_kills;
mod backup_load;
#[expect(
    dead_code,
    clippy::disallowed_methods,
    reason = "the tests of the store use the rest, and run on tokio"
)]
#[path = "../../../store-postgres/tests/postgres/server.rs"]
mod database;
mod failed_starts;
mod migrate_kills;
#[path = "../../../private-dir/tests/planted/mod.rs"]
mod planted;
mod readiness;
mod roles;
mod secret_arguments;
mod shared_store;
mod support;

use crate::assertions::*;
use planted::PLANTS;
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output, Stdio},
};
use support::{JOBS, Place, Served, ends, longhaul, run, until};

fn remove_database(data: &Path) {
    for name in ["longhaul.db", "longhaul.db-wal", "longhaul.db-shm"] {
        let _ = fs::remove_file(data.join(name));
    }
}

/// On both streams.
fn all_said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The backup calls two tasks queued; one of them has run since. Nothing runs until somebody says so, and then each runs once.
#[test]
fn a_restored_database_runs_nothing_until_it_is_accepted() {
    let place = Place::new();
    let data = place.file("data");
    let server = place.serve(&[]);
    assert_eq!(server.report["readsOnly"], Value::Null);
    let running = server.begin();
    until("the first runs", || place.runs() == 1);
    let queued = server.begin();
    server.kill();
    let backup = ["longhaul.db", "longhaul.db-wal"].map(|name| (name, fs::read(data.join(name)).unwrap()));

    let server = place.serve(&[]);
    fs::write(place.file("gate"), "").unwrap();
    until("both are over", || server.look(&queued) == "completed");
    assert_eq!(place.runs(), 2);
    server.kill();
    remove_database(&data);
    for (name, bytes) in &backup {
        fs::write(data.join(name), bytes).unwrap();
    }

    let server = place.serve(&[]);
    let why = server.report["readsOnly"].as_str().unwrap();
    why.has("the database is older than the data directory");
    assert_eq!([&running, &queued].map(|id| server.look(id)), ["working"; 2]);
    for refused in [&["call", "gate"][..], &["task", &queued, "--cancel"]] {
        server.run(refused).fails().says("has not accepted it yet");
    }
    server.kill().has("start it once with --accept-restored-database");
    assert_eq!(place.runs(), 2);

    // What has a folder is not run again even then.
    let server = place.serve(&["--accept-restored-database"]);
    assert_eq!(server.report["readsOnly"], Value::Null);
    until("both are over", || {
        server.look(&running) == "completed" && server.look(&queued) == "completed"
    });
    assert_eq!(place.runs(), 2);
    server.kill();
    let server = place.serve(&[]);
    assert_eq!(server.report["readsOnly"], Value::Null, "it is accepted once");
}

/// The folders prove that there was a database. They are kept until somebody asks for their removal, and those that are in use even then.
#[test]
fn folders_without_their_database_are_told_of_and_kept() {
    let place = Place::new();
    let (data, attempts) = (place.file("data"), place.file("data/attempts"));
    let server = place.serve(&[]);
    let first = server.begin();
    until("the first runs", || place.runs() == 1);
    server.kill();
    remove_database(&data);

    let server = place.serve(&["--remove-orphaned-attempts"]);
    let orphaned = |server: &Served, kept: u8, running: u8, removed: u8| {
        let found = &server.report["orphanedAttempts"];
        found.has_members(json!({"kept": kept, "running": running, "removed": removed}));
    };
    server.report["readsOnly"]
        .as_str()
        .unwrap()
        .has("the database is older");
    orphaned(&server, 1, 1, 0);
    let said = server.kill();
    said.has("commands still run in 1 of them")
        .has("--remove-orphaned-attempts");

    let server = place.serve(&["--accept-restored-database", "--remove-orphaned-attempts"]);
    orphaned(&server, 1, 1, 0);
    server.kill();
    fs::write(place.file("gate"), "").unwrap();
    until("its command has ended", || {
        attempts.join(&first).join("1/exit").exists()
    });
    let server = place.serve(&[]);
    orphaned(&server, 1, 0, 0);
    server.kill();
    assert!(attempts.join(&first).exists());
    let server = place.serve(&["--remove-orphaned-attempts"]);
    orphaned(&server, 0, 0, 1);
    assert!(!attempts.join(&first).exists());
}

/// Each kind of thing in the place of each file of the directory: the server says at once what it is and where, and leaves alone what it leads to.
#[test]
fn nothing_planted_is_followed_emptied_or_waited_for() {
    let files =
        "lock longhaul.db longhaul.db-wal longhaul.db-shm longhaul.db-journal node node.draft owner.sock attempts";
    for file in files.split(' ') {
        for (said, plant) in PLANTS {
            let said = match (file, said) {
                ("attempts", "a directory") | ("owner.sock", "a socket") => continue,
                ("attempts" | "owner.sock", "2 names") => "a regular file",
                _ => said,
            };
            let place = Place::new();
            let (data, victim) = (place.file("data"), place.file("victim"));
            fs::create_dir(&data).unwrap();
            fs::write(&victim, "precious").unwrap();
            plant(&data.join(file), &victim);
            let words = ends(&place, &["serve", "jobs.toml"], 1);
            let name = file.strip_suffix(".draft").unwrap_or(file);
            assert!(words.contains(said) && words.contains(name), "{file}, {said}: {words}");
            assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{file}, {said}");
            assert!(!victim.with_extension("not").exists(), "{file}, {said}");
        }
    }
}

/// What an operator runs on such a directory, or on such a file, ends too, and says what is wrong.
#[cfg(target_os = "linux")]
#[test]
fn no_command_waits_for_a_fifo_in_place_of_a_file() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let fifo = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    // It is killed by the test run if it hangs.
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command
            .args(words)
            .env("XDG_STATE_HOME", "/nonexistent")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    for file in ["lock", "longhaul.db", "node", "keys.json", "admin.key", "host"] {
        let place = Place::new();
        let server = place.serve(&[]);
        drop(server);
        let planted = place.file("data").join(file);
        let _ = fs::remove_file(&planted);
        fifo(&planted);
        let (data, copy, jobs) = (place.file("data"), place.file("copy"), place.file("jobs.toml"));
        let [data, copy, jobs] = [&data, &copy, &jobs].map(|path| path.to_str().unwrap());
        for words in [
            &["admin", "doctor", data][..],
            &["admin", "stats", data],
            &["backup", data, copy],
            &["keys", "list", jobs],
            &["keys", "add", jobs, "me"],
        ] {
            run(words);
        }
        if ["lock", "longhaul.db", "keys.json", "node", "host"].contains(&file) {
            let found = run(&["admin", "doctor", data]);
            let said = all_said(&found);
            assert!(!found.status.success(), "{file}: {said}");
            said.has("a named pipe");
        }
    }
    let place = Place::new();
    let named = place.file("named");
    fifo(&named);
    let named = named.to_str().unwrap();
    for words in [
        &["check", named][..],
        &["serve", named],
        &["serve", "--mcp-config", named],
        &["keys", "add", named, "me"],
        &["admin", "doctor", named],
        &["backup", named, "copy"],
        &["restore", named, "data"],
        &["import", "claude-code", "--file", named],
        &["call", "-s", "http://127.0.0.1:1/mcp", "tool", "--input", named],
        &["tools", "--mcp-config", named, "-s", "x"],
    ] {
        println!("{words:?}");
        run(words).fails();
    }
    all_said(&run(&["check", named])).has("it is a named pipe, and should be a regular file");
}

#[test]
fn a_reserve_that_is_larger_than_the_disk_is_refused() {
    let place = Place::with(&JOBS.replacen("[server]", "[server]\ndisk_reserve = \"1000000GiB\"", 1));
    for words in [&["serve", "jobs.toml"][..], &["admin", "doctor", "jobs.toml"]] {
        let output = longhaul(&place, words).output().unwrap();
        all_said(output.ends(1)).has("`disk_reserve` is 1024000000 MiB, and the disk of");
    }
}

/// Whatever it answers, it acknowledges nothing that the next server does not know.
#[test]
fn a_server_whose_directory_is_removed_ends_at_the_next_call() {
    let place = Place::new();
    let mut server = place.serve(&[]);
    fs::remove_dir_all(place.file("data")).unwrap();
    let refused = server.run(&["call", "gate"]);
    assert!(!refused.status.success(), "{refused:?}");
    assert_eq!(server.child.wait().unwrap().code(), Some(74));
    assert_eq!(place.runs(), 0);
    server.kill().has("was removed, moved or replaced");
}

/// Programs read standard output.
#[test]
fn commands_that_work_with_files_print_their_failures_as_json() {
    let place = Place::new();
    fs::write(place.file("wrong.toml"), "[server]\nnam = 1\n").unwrap();
    fs::write(place.file("taken.tar"), "").unwrap();
    place.serve(&[]).kill();
    let nowhere = "postgres://127.0.0.1:1/d";
    for (words, status, kind, why) in [
        (&["keys", "list", "wrong.toml"][..], 2, "usage", "where the keys are"),
        (&["keys", "revoke", "jobs.toml", "nobody"], 1, "failed", "nobody"),
        (&["backup", "wrong.toml", "copy.tar"], 2, "usage", "unknown key `nam`"),
        (&["backup", "jobs.toml", "taken.tar"], 1, "failed", "exists already"),
        (&["restore", "taken.tar", "wrong.toml"], 2, "usage", "unknown key `nam`"),
        (&["restore", "taken.tar", "jobs.toml"], 1, "failed", "is not empty"),
        (
            &["migrate", "jobs.toml", "--to", "mysql://h/d"],
            2,
            "usage",
            "--to must be",
        ),
        (
            &["migrate", "jobs.toml", "--to", nowhere],
            1,
            "failed",
            "does not answer",
        ),
    ] {
        let (code, printed, said) = run(&place, &[words, &["--json"]].concat());
        assert_eq!(code, Some(status), "{words:?}: {said}");
        assert_eq!(printed["error"]["kind"], kind, "{words:?}: {printed}");
        let message = printed["error"]["message"].as_str().unwrap();
        message.has(why);
        assert!(said.contains(message), "{words:?}: {message}: {said}");
    }
}

/// Such as the root of a web server: it would be closed to those who read it.
#[test]
fn a_folder_that_others_read_is_taken_by_no_command() {
    let place = Place::new();
    let data = place.file("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("index.html"), "").unwrap();
    let set = |mode| fs::set_permissions(&data, fs::Permissions::from_mode(mode)).unwrap();
    set(0o755);
    let words: [&[&str]; 5] = [
        &["serve", "jobs.toml"],
        &["check", "jobs.toml"],
        &["keys", "add", "jobs.toml", "ci"],
        &["stdio", "jobs.toml"],
        &["wrap", "--data-dir", "data", "--", "true"],
    ];
    for words in words {
        let refused = longhaul(&place, words).output().unwrap();
        all_said(refused.fails()).has("it has other files");
        let mode = data.metadata().unwrap().permissions().mode() & 0o777;
        let files = fs::read_dir(&data).unwrap().count();
        assert_eq!((mode, files), (0o755, 1), "{words:?}");
    }
}

//! `longhaul backup` and `longhaul restore`: what is in a backup, and what becomes of it.

use super::{
    remove_database,
    support::{JOBS, Place, Served, done, ends, names, run, until},
};
use crate::assertions::*;
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

/// A server with a running and a queued task.
fn busy(place: &Place) -> (Served, String, String) {
    let server = place.serve(&[]);
    let running = server.begin();
    until("the first runs", || place.runs() == 1);
    let queued = server.begin();
    (server, running, queued)
}

/// A server on a restored directory.
fn serve(place: &Place, data_dir: &str, flags: &[&str]) -> Served {
    let data_dir = place.file(data_dir);
    let data_dir = data_dir.to_str().unwrap();
    place.serve(&[&["--data-dir", data_dir], flags].concat())
}

/// The error of a task, as its owner sees it.
fn failure(server: &Served, id: &str) -> String {
    let shown = server.run(&["task", id, "--wait"]);
    String::from_utf8_lossy(&shown.stderr).into_owned()
}

fn open_gate(place: &Place) {
    fs::write(place.file("gate"), "").unwrap();
}

/// Its default would be another directory than is meant.
#[test]
fn a_restore_does_not_guess_where_a_mistyped_directory_is() {
    let place = Place::new();
    drop(place.serve(&[]));
    done(&place, &["backup", "jobs.toml", "backup.tar", "--json"]);
    let jobs = fs::read_to_string(place.file("jobs.toml")).unwrap();
    fs::write(place.file("mistyped.toml"), jobs.replace("data_dir", "datadir")).unwrap();
    let said = ends(&place, &["restore", "backup.tar", "mistyped.toml"], 2);
    said.has("unknown key `datadir` in [server]; did you mean `data_dir`?");
}

/// The server that the backup was taken of runs on. The restored one runs nothing by itself, and what ran is never run again.
#[test]
fn a_restored_server_interrupts_what_ran_and_asks_before_it_runs_what_was_queued() {
    let place = Place::new();
    let (server, running, queued) = busy(&place);
    fs::write(place.file("data/keys.json.new"), "half").unwrap();
    fs::create_dir(place.file("data/more")).unwrap();
    fs::write(place.file("data/more/token.json"), "secret").unwrap();
    let taken = done(&place, &["backup", "jobs.toml", "backup.tar", "--json"]);
    let tasks = json!({"queued": 1, "running": 1, "suspended": 0, "blocked": 0, "ended": 0});
    assert_eq!(taken["tasks"], tasks);
    assert_eq!(taken["attemptFolders"], 1);
    let mode = fs::metadata(place.file("backup.tar")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(names(&place), ["backup.tar", "data", "home", "jobs.toml", "runs"]);

    let restored = done(&place, &["restore", "backup.tar", "--data-dir", "copy", "--json"]);
    restored.has_members(json!({"interrupted": 1, "queued": 1, "mustBeAccepted": true}));
    let token = fs::read_to_string(place.file("copy/more/token.json")).unwrap();
    assert_eq!(token, "secret");
    assert!(!place.file("copy/keys.json.new").exists());
    for file in ["copy/longhaul.db", "copy/more/token.json"] {
        let mode = fs::metadata(place.file(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let hosts = ["data/host", "copy/host"].map(|file| fs::read_to_string(place.file(file)).unwrap());
    assert_ne!(hosts[0], hosts[1], "it is another host");

    let copy = serve(&place, "copy", &[]);
    let why = copy.report["readsOnly"].as_str().unwrap().to_owned();
    assert!(why.contains("was restored from a backup that was taken on 20"), "{why}");
    assert_eq!(copy.report["orphanedAttempts"]["kept"], 0);
    assert_eq!([&running, &queued].map(|id| copy.look(id)), ["failed", "working"]);
    let said = failure(&copy, &running);
    said.has("interrupted: this ran when the backup was taken");
    assert!(!copy.run(&["call", "gate"]).status.success(), "it is read-only");
    copy.kill();
    assert_eq!(place.runs(), 1);

    // The original goes on as if nothing had happened.
    assert_eq!(server.look(&running), "working");
    let copy = serve(&place, "copy", &["--accept-restored-database"]);
    until("the queued one runs", || place.runs() == 2);
    open_gate(&place);
    until("the queued one has ended", || copy.look(&queued) == "completed");
    assert_eq!(copy.look(&running), "failed");
    copy.kill();
    until("the original has ended, too", || server.look(&queued) == "completed");
    assert_eq!(server.look(&running), "completed");
    // Once in each of the two for the queued one.
    assert_eq!(place.runs(), 3);
}

#[test]
fn queued_tasks_run_or_end_as_the_operator_chooses() {
    let place = Place::new();
    let (server, running, queued) = busy(&place);
    done(&place, &["backup", "jobs.toml", "backup.tar"]);
    let restore = |name: &str, choice: &str| {
        let words = ["restore", "backup.tar", "--data-dir", name, choice, "--json"];
        done(&place, &words)
    };
    let ended = restore("ended", "--interrupt-queued");
    ended.has_members(json!({"interruptedQueued": 1, "queued": 0, "mustBeAccepted": false}));
    restore("run", "--run-queued").has_members(json!({"queued": 1, "mustBeAccepted": false}));
    server.kill();

    let copy = serve(&place, "ended", &[]);
    assert_eq!(copy.report["readsOnly"], Value::Null);
    assert_eq!([&running, &queued].map(|id| copy.look(id)), ["failed"; 2]);
    let said = failure(&copy, &queued);
    said.has("interrupted: this waited when the backup was taken");
    copy.kill();
    assert_eq!(place.runs(), 1);

    let copy = serve(&place, "run", &[]);
    assert_eq!(copy.report["readsOnly"], Value::Null);
    until("the queued one runs", || place.runs() == 2);
    open_gate(&place);
    until("it has ended", || copy.look(&queued) == "completed");
    assert_eq!(copy.look(&running), "failed");
    assert_eq!(place.runs(), 2);
}

/// Its operators are told the way out, and nothing that would be refused.
#[test]
fn a_server_that_only_reads_says_how_it_goes_on() {
    let place = Place::with(&[JOBS, "[admin]\nlisten = \"127.0.0.1:0\"\n"].concat());
    let (server, _, queued) = busy(&place);
    done(&place, &["admin", "pause", "jobs.toml", "gate", "--json"]);
    let (_, listed, _) = run(&place, &["admin", "doctor", "jobs.toml", "--json"]);
    assert!(listed.to_string().contains("resume"), "{listed}");
    done(&place, &["backup", "jobs.toml", "backup.tar"]);
    let offered = server.get(&format!("/tasks/{queued}")).1;
    assert!(offered.contains(&format!("/tasks/{queued}/raise")), "{offered}");
    server.kill();
    done(&place, &["restore", "backup.tar", "--data-dir", "copy"]);

    let copy = serve(&place, "copy", &[]);
    let of_copy = |command: &str, words: &[&str]| {
        let target = ["admin", command, "jobs.toml", "--data-dir", "copy", "--json"];
        run(&place, &[&target, words].concat())
    };
    for (command, words) in [
        ("cancel", &[&*queued][..]),
        ("raise", &[&*queued]),
        ("resume", &["gate"]),
        ("cancel", &["--all", "--state", "queued", "--yes"]),
    ] {
        let (code, said, _) = of_copy(command, words);
        assert_eq!((code, &said["error"]["kind"]), (Some(5), &json!("not_now")), "{said}");
        let message = said["error"]["message"].as_str().unwrap();
        message.has("--accept-restored-database");
    }
    assert_eq!(of_copy("stats", &[]).1["readsOnly"], true);
    let (_, found, _) = of_copy("doctor", &[]);
    let found = found.to_string();
    found.has("--accept-restored-database").lacks("resume");
    found.lacks("queued, ");
    for page in [&*format!("/tasks/{queued}"), "/tools", "/?state=queued"] {
        println!("{page}");
        let shown = copy.get(page).1;
        shown.has("--accept-restored-database");
        shown.lacks("method=\"post\"").lacks("/bulk/");
    }
    // Clients are not told what they cannot do.
    copy.run(&["task", &queued, "--cancel"]).says_no("--accept");
}

/// The folders are copied after the database, and may know more than it does.
#[test]
fn what_the_folders_know_of_running_and_queued_tasks_is_kept() {
    let place = Place::new();
    let data = place.file("data");
    let (server, running, queued) = busy(&place);
    server.kill();
    open_gate(&place);
    until("the command has ended", || {
        data.join(format!("attempts/{running}/1/exit")).exists()
    });
    // No server runs, and the database calls one running and one queued.
    let taken = done(&place, &["backup", "jobs.toml", "running.tar", "--json"]);
    taken["tasks"].has_members(json!({"running": 1, "queued": 1}));
    let older = ["longhaul.db", "longhaul.db-wal"].map(|name| (name, fs::read(data.join(name)).unwrap_or_default()));
    let server = place.serve(&[]);
    until("the queued one has ended", || server.look(&queued) == "completed");
    server.kill();
    remove_database(&data);
    for (name, bytes) in &older {
        fs::write(data.join(name), bytes).unwrap();
    }
    done(&place, &["backup", "jobs.toml", "both.tar"]);
    assert_eq!(place.runs(), 2);

    for (backup, ended) in [("running.tar", 1), ("both.tar", 2)] {
        println!("{backup}");
        let words = ["restore", backup, "--data-dir", "copy", "--interrupt-queued", "--json"];
        done(&place, &words).has_members(json!({"ended": ended, "interrupted": 0}));
        let copy = serve(&place, "copy", &[]);
        for id in [&running, &queued].into_iter().take(ended) {
            let result = copy.run(&["task", id, "--wait"]);
            assert_eq!(String::from_utf8_lossy(&result.stdout), "through\n", "{backup}");
            let log = copy.run(&["task", id, "--log"]);
            assert_eq!(String::from_utf8_lossy(&log.stdout), "through\n", "{backup}");
        }
        copy.kill();
        fs::remove_dir_all(place.file("copy")).unwrap();
    }
    assert_eq!(place.runs(), 2);
}

/// A failed attempt that its tool would retry is over in a restored copy: the retry may have run where the backup was taken.
#[test]
fn a_failed_attempt_is_not_retried_by_a_restored_server() {
    let jobs = r#"
[server]
name = "test"
listen = "127.0.0.1:0"
data_dir = "data"

[[tool]]
name = "gate"
description = "fails when somebody makes the file `gate`"
command = ["sh", "-c", "echo run >> runs; while [ -e jobs.toml ] && [ ! -e gate ]; do sleep 0.02; done; exit 3"]
task = "always"
retry = { attempts = 5, on = ["error"] }
"#;
    let place = Place::with(jobs);
    let server = place.serve(&[]);
    let id = server.begin();
    until("it runs", || place.runs() == 1);
    server.kill();
    open_gate(&place);
    until("it has failed", || {
        place.file(&format!("data/attempts/{id}/1/exit")).exists()
    });
    done(&place, &["backup", "jobs.toml", "backup.tar"]);
    let restored = done(&place, &["restore", "backup.tar", "--data-dir", "copy", "--json"]);
    restored.has_members(json!({"ended": 1, "queued": 0}));
    let copy = serve(&place, "copy", &[]);
    let failed = copy.run(&["task", &id, "--wait"]);
    failed.fails().prints("exited with code 3");
    assert_eq!(place.runs(), 1);
}

/// `name=value` of the archive: where each entry begins, and how long its content is.
fn entries(archive: &[u8]) -> Vec<(String, usize, usize)> {
    let mut entries = Vec::new();
    let mut at = 0;
    while archive[at] != 0 {
        let text = |from: usize, to: usize| {
            let field = &archive[at + from..at + to];
            String::from_utf8(field.iter().copied().take_while(|byte| *byte != 0).collect()).unwrap()
        };
        let size = usize::from_str_radix(text(124, 136).trim(), 8).unwrap();
        entries.push((text(0, 100), at, size));
        at += 512 + size.div_ceil(512) * 512;
    }
    entries
}

fn refused(place: &Place, backup: &str, expected: &str) {
    let said = ends(place, &["restore", backup, "--data-dir", "copy"], 1);
    said.has(expected);
    for left in ["copy", "copy.restoring"] {
        assert!(!place.file(left).exists(), "{left}: {said}");
    }
}

#[test]
fn a_damaged_or_truncated_or_foreign_file_is_refused_and_leaves_nothing() {
    let place = Place::new();
    let (server, ..) = busy(&place);
    done(&place, &["backup", "jobs.toml", "backup.tar"]);
    server.kill();
    let whole = fs::read(place.file("backup.tar")).unwrap();
    let entries = entries(&whole);
    let (manifest, ..) = entries.last().unwrap();
    assert_eq!(manifest, "manifest.json");
    let bad = |bytes: &[u8], expected: &str| {
        fs::write(place.file("bad.tar"), bytes).unwrap();
        refused(&place, "bad.tar", expected);
    };

    bad(b"", "truncated");
    bad(b"[server]\n", "no backup of longhaul");
    bad(&[&[0x28, 0xb5, 0x2f, 0xfd][..], &[0; 600]].concat(), "zstd -d < FILE");
    for (_, at, size) in &entries {
        // Before it, in its header, behind its header, and in its content.
        for cut in [*at, at + 100, at + 512, at + 512 + size / 2] {
            if *size > 0 || cut != at + 512 {
                bad(&whole[..cut], "truncated");
            }
        }
    }
    for (name, at, size) in &entries {
        if *size > 0 {
            let mut changed = whole.clone();
            changed[at + 512 + size / 2] ^= 1;
            bad(&changed, "it is damaged");
        }
        let mut changed = whole.clone();
        changed[at + 3] ^= 1;
        let is_first = name == "backup.json";
        bad(
            &changed,
            if is_first {
                "no backup of longhaul"
            } else {
                "it is damaged"
            },
        );
    }
    // An entry that is left out, and one that leads elsewhere.
    let (_, at, size) = &entries[2];
    let after = at + 512 + size.div_ceil(512) * 512;
    bad(&[&whole[..*at], &whole[after..]].concat(), "do not fit its manifest");
    let inside = ["data/node", "data/longhaul.db-wal", "data//x", "data/attempts/x"];
    for name in ["data/../../evil", "/data/x"].iter().chain(&inside) {
        bad(&renamed(&whole, entries[2].1, name), "no backup has a file");
    }
    let later = later(&whole, "\"format\": 1", "\"format\": 9");
    bad(&later, "a later release, in format 9");
    assert!(!place.file("evil").exists());
}

/// The archive with another name for the entry at `at`.
fn renamed(archive: &[u8], at: usize, name: &str) -> Vec<u8> {
    let mut archive = archive.to_vec();
    archive[at..at + 100].fill(0);
    archive[at..at + name.len()].copy_from_slice(name.as_bytes());
    archive[at + 148..at + 156].fill(b' ');
    let sum: u32 = archive[at..at + 512].iter().map(|byte| u32::from(*byte)).sum();
    archive[at + 148..at + 156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    archive
}

/// The archive with another text of the same length in its header.
fn later(archive: &[u8], from: &str, to: &str) -> Vec<u8> {
    let mut archive = archive.to_vec();
    let mut places = archive.windows(from.len());
    let at = places.position(|part| part == from.as_bytes()).unwrap();
    archive[at..at + to.len()].copy_from_slice(to.as_bytes());
    archive
}

#[test]
fn nothing_that_is_there_is_replaced() {
    let place = Place::new();
    let (server, ..) = busy(&place);
    let failed = |words: &[&str], expected: &str| {
        ends(&place, words, 1).has(expected);
    };
    done(&place, &["backup", "jobs.toml", "backup.tar"]);
    let before = names(&place);
    let backup = ["backup", "jobs.toml"];
    failed(&[&backup[..], &["backup.tar"]].concat(), "exists already");
    failed(
        &[&backup[..], &["data/backup.tar"]].concat(),
        "is in the data directory",
    );
    failed(&[&backup[..], &["nowhere/backup.tar"]].concat(), "there is no folder");
    let elsewhere = [&backup[..], &["b.tar", "--data-dir", "none"]].concat();
    failed(&elsewhere, "no server has run on this data directory");
    ends(&place, &["backup", "jobs.toml", "-", "--json"], 2).has("leave out --json");
    // The server's own directory, in use, and one with something of somebody's.
    failed(&["restore", "backup.tar", "jobs.toml"], "a server may use it");
    let restore = |backup: &str, to: &str, expected: &str| failed(&["restore", backup, "--data-dir", to], expected);
    fs::create_dir(place.file("full")).unwrap();
    fs::write(place.file("full/notes"), "precious").unwrap();
    restore("backup.tar", "full", "is not empty");
    fs::create_dir_all(place.file("disk/lost+found")).unwrap();
    restore("backup.tar", "disk", "Restore into a folder in it");
    restore("backup.tar", "runs", "is no directory");
    restore("nothing.tar", "copy", "cannot read nothing.tar");
    restore("data", "copy", "cannot read data");
    fs::remove_dir_all(place.file("full")).unwrap();
    fs::remove_dir_all(place.file("disk")).unwrap();
    assert_eq!(names(&place), before);
    server.kill();

    // An empty directory is no other thing than none, also behind a link.
    fs::create_dir(place.file("empty")).unwrap();
    std::os::unix::fs::symlink(place.file("empty"), place.file("link")).unwrap();
    done(&place, &["restore", "backup.tar", "--data-dir", "link"]);
    assert!(place.file("empty/longhaul.db").exists() && place.file("link").is_symlink());
    // The directory of a configuration.
    fs::rename(place.file("data"), place.file("old")).unwrap();
    done(&place, &["restore", "backup.tar", "jobs.toml"]);
    assert!(Path::new(&place.file("data/longhaul.db")).exists());
}

//! `kill -9` in the middle of a backup and of a restore.

use super::support::{Place, Served, done, ends, longhaul, names, until};
use std::{
    fs,
    io::{Read, Write},
    process::{Child, Stdio},
};

/// A server with a finished task.
fn with_a_task(place: &Place) -> (Served, String) {
    let server = place.serve(&[]);
    fs::write(place.file("gate"), "").unwrap();
    let id = server.begin();
    until("it has ended", || server.look(&id) == "completed");
    (server, id)
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The directory `copy` is a whole one.
fn check_copy(place: &Place, id: &str) {
    let copy = place.file("copy");
    let server = place.serve(&["--data-dir", copy.to_str().unwrap()]);
    assert_eq!(server.report["readsOnly"], serde_json::Value::Null);
    assert_eq!(server.look(id), "completed");
    let log = server.run(&["task", id, "--log"]);
    assert_eq!(String::from_utf8_lossy(&log.stdout), "through\n");
    server.kill();
    fs::remove_dir_all(copy).unwrap();
}

/// A backup that nobody reads on waits in the middle.
#[test]
fn a_killed_backup_disturbs_neither_the_server_nor_the_next_backup() {
    let place = Place::new();
    let (server, id) = with_a_task(&place);
    let before = names(&place);
    fs::create_dir(place.file("temp")).unwrap();
    let mut to_pipe = longhaul(&place, &["backup", "jobs.toml", "-", "--temp-dir", "temp"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut first = [0; 512];
    to_pipe.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert!(first.starts_with(b"backup.json"));
    kill(to_pipe);
    fs::remove_dir_all(place.file("temp")).unwrap();
    assert_eq!(names(&place), before);

    for made in ["", "/longhaul.db", "/backup.tar"].map(|name| format!("backup.tar.partial{name}")) {
        let mut to_file = longhaul(&place, &["backup", "jobs.toml", "backup.tar"]);
        let mut to_file = to_file.stderr(Stdio::null()).spawn().unwrap();
        until("it has begun, or is done", || {
            place.file(&made).exists() || to_file.try_wait().unwrap().is_some()
        });
        kill(to_file);
        if !place.file("backup.tar").exists() {
            done(&place, &["backup", "jobs.toml", "backup.tar"]);
        }
        // Whatever is there under its name is whole. What a killed one has left is removed by the next.
        done(&place, &["restore", "backup.tar", "--data-dir", "copy"]);
        check_copy(&place, &id);
        fs::remove_file(place.file("backup.tar")).unwrap();
        done(&place, &["backup", "jobs.toml", "backup.tar"]);
        fs::remove_file(place.file("backup.tar")).unwrap();
        assert_eq!(names(&place), before);
    }
    assert_eq!(server.look(&id), "completed");
    assert!(server.run(&["call", "gate"]).status.success());
}

#[test]
fn a_killed_restore_leaves_no_directory_or_a_whole_one() {
    let place = Place::new();
    let (server, id) = with_a_task(&place);
    done(&place, &["backup", "jobs.toml", "backup.tar"]);
    server.kill();
    let before = names(&place);
    let whole = fs::read(place.file("backup.tar")).unwrap();

    // It waits for the second half.
    let halfway = longhaul(&place, &["restore", "-", "--data-dir", "copy"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut pipe = halfway.stdin.as_ref().unwrap();
    pipe.write_all(&whole[..whole.len() / 2]).unwrap();
    let database = place.file("copy.restoring/data/longhaul.db");
    until("the database is being written", || {
        fs::metadata(&database).is_ok_and(|found| found.len() > 0)
    });
    // Another one does not work in the same folder.
    let said = ends(&place, &["restore", "backup.tar", "--data-dir", "copy"], 1);
    assert!(said.contains("another `longhaul restore` works on"), "{said}");
    kill(halfway);
    assert!(!place.file("copy").exists() && place.file("copy.restoring").exists());
    done(&place, &["restore", "backup.tar", "--data-dir", "copy"]);
    check_copy(&place, &id);
    assert_eq!(names(&place), before, "what the killed one has left is gone");

    for made in [
        "copy.restoring",
        "copy.restoring/data/host",
        "copy.restoring/data/node",
        "copy",
    ] {
        let mut restore = longhaul(&place, &["restore", "backup.tar", "--data-dir", "copy"]);
        let mut restore = restore.stderr(Stdio::null()).spawn().unwrap();
        until("it has begun, or is done", || {
            place.file(made).exists() || restore.try_wait().unwrap().is_some()
        });
        kill(restore);
        if !place.file("copy").exists() {
            done(&place, &["restore", "backup.tar", "--data-dir", "copy"]);
        }
        check_copy(&place, &id);
        let _ = fs::remove_dir_all(place.file("copy.restoring"));
        assert_eq!(names(&place), before);
    }
}

//! What cannot be started: servers and attempts.

use super::support::{JOBS, Place, longhaul, until};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::{
    fs::{self, DirBuilder},
    os::unix::fs::{DirBuilderExt as _, symlink},
    process::Stdio,
};

/// `check` says why `serve` would refuse the machine, in the same words, and makes nothing.
#[test]
fn what_keeps_a_server_from_starting_is_said_by_check() {
    let place = Place::new();
    let jobs = fs::read_to_string(place.file("jobs.toml")).unwrap();
    fs::create_dir(place.file("folder")).unwrap();
    fs::write(place.file("file"), "").unwrap();
    symlink("file", place.file("link")).unwrap();
    mknodat(CWD, place.file("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for settings in [
        "data_dir = \"file\"",
        "data_dir = \"file/below\"",
        "audit = { file = \"folder\" }",
        "audit = { file = \"fifo\" }",
        "audit = { file = \"link\" }",
        "disk_reserve = \"1000000GiB\"",
    ] {
        let jobs = match settings.starts_with("data_dir") {
            true => jobs.replacen("data_dir = \"data\"", settings, 1),
            false => jobs.replacen("[server]\n", &format!("[server]\n{settings}\n"), 1),
        };
        fs::write(place.file("jobs.toml"), jobs).unwrap();
        let run = |word: &str| {
            let output = longhaul(&place, &[word, "jobs.toml"]).output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        let (checked, why) = run("check");
        assert_eq!(checked, Some(2), "{settings}: {why}");
        let why = why.trim_end().strip_prefix("jobs.toml: ").expect(&why);
        assert!(!place.file("data").exists(), "{settings}");
        let (served, said) = run("serve");
        assert_eq!(served, Some(1), "{settings}: {said}");
        assert!(said.contains(why), "{settings}: {said} is not {why}");
        let _ = fs::remove_dir_all(place.file("data"));
    }
}

/// The same of the keys in the data directory, which `check` leaves as they are.
#[test]
fn keys_that_keep_a_server_from_starting_are_said_by_check() {
    let place = Place::new();
    let data = place.file("data");
    DirBuilder::new().mode(0o700).create(&data).unwrap();
    let jobs = format!("{JOBS}\n[server.auth]\napi_keys = true\n\n[admin]\nlisten = \"127.0.0.1:0\"\n");
    fs::write(place.file("jobs.toml"), jobs).unwrap();
    let refused = |word: &str, status: i32, name: &str| {
        let output = longhaul(&place, &[word, "jobs.toml"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{word}: {said}");
        assert!(said.contains(name), "{word}: {said}");
    };
    let both_refuse = |name: &str| {
        refused("check", 2, name);
        refused("serve", 1, name);
    };
    fs::write(data.join("keys.json"), "{").unwrap();
    both_refuse("keys.json, line 1");
    fs::remove_file(data.join("keys.json")).unwrap();
    let _ = fs::remove_file(data.join("admin.key"));
    fs::create_dir(data.join("admin.key")).unwrap();
    both_refuse("admin.key");
}

/// Each queued task tries again and again, so their lines would hide all others.
#[test]
fn attempts_that_cannot_be_started_have_a_line_when_it_begins_and_one_when_it_is_over() {
    let jobs = JOBS.replace("max_running = 1", "max_running = 3");
    let place = Place::with(&format!("{jobs}\n[admin]\nlisten = \"127.0.0.1:0\"\n"));
    let server = place.serve(&[]);
    // No folder can be made behind a link to nothing.
    let (attempts, away) = (place.file("data/attempts"), place.file("data/away"));
    fs::rename(&attempts, &away).unwrap();
    symlink("nothing", &attempts).unwrap();
    let ids: Vec<String> = std::iter::repeat_with(|| server.begin()).take(3).collect();
    let tries = || {
        let metrics = server.get("/metrics").1;
        let of_gate = "longhaul_attempts_ended_total{tool=\"gate\",outcome=\"never_started\"} ";
        let count = metrics.lines().find_map(|line| line.strip_prefix(of_gate));
        count.map_or(0, |count| count.parse().unwrap())
    };
    until("each was tried twice", || tries() >= 6);

    fs::remove_file(&attempts).unwrap();
    fs::rename(&away, &attempts).unwrap();
    until("they run", || place.runs() == 3);
    fs::write(place.file("gate"), "").unwrap();
    until("they are done", || ids.iter().all(|id| server.look(id) == "completed"));
    let said = server.kill();
    let lines = |what: &str| said.lines().filter(|line| line.contains(what)).count();
    assert_eq!(lines("attempts cannot be started"), 1, "{said}");
    assert_eq!(lines("attempts are started again; "), 1, "{said}");
    assert!(said.contains("the folder of the attempt could not be made"), "{said}");
}

/// What is released of the reserve is not for logs.
#[test]
fn the_log_of_a_command_leaves_half_of_the_reserve_free() {
    let place = Place::new();
    let server = place.serve(&[]);
    let id = server.begin();
    until("it runs", || place.runs() == 1);
    let spec = fs::read(place.file(&format!("data/attempts/{id}/1/spec"))).unwrap();
    let spec: serde_json::Value = serde_json::from_slice(&spec).unwrap();
    assert_eq!(spec["least_free"], 16 << 20);
}

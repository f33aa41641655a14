//! `admin`: operating a server from a shell.

use super::support::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
};

/// Runs `longhaul admin SUBCOMMAND FILE …` for a server of `support`.
fn admin(served: &Served, subcommand: &str, words: &[&str]) -> std::process::Output {
    served.on_file(&["admin", subcommand], words).output().unwrap()
}

/// The id of a task of `gate`, which ends with this code.
fn gate(served: &Served, code: u8) -> String {
    let call = run(&["call", &served.url, "gate", &format!("code={code}"), "--detach"]);
    stdout(&call).trim().to_owned()
}

fn state(served: &Served, id: &str, wanted: &str) -> serde_json::Value {
    loop {
        let task = json(&admin(served, "task", &[id, "--json"]));
        if task["state"] == wanted {
            return task;
        }
    }
}

#[test]
fn tasks_are_seen_and_made_again_over_the_socket_in_the_data_directory() {
    let served = Served::start();
    let id = gate(&served, 3);
    state(&served, &id, "running");
    let list = admin(&served, "tasks", &["--state", "live"]);
    stdout(&list).begins_with("TASK ");
    list.prints(&id);
    assert_eq!(json(&admin(&served, "stats", &["--json"]))["running"], 1);
    served.open_gate();
    let task = state(&served, &id, "failed");
    assert_eq!(task["arguments"], json!({"code": 3}));
    assert_eq!(stdout(&admin(&served, "log", &[&id])), "through\n");
    // A part of the id is enough.
    let retried = admin(&served, "retry", &[&id[20..]]);
    let new = stdout(&retried).trim().to_owned();
    assert_eq!(state(&served, &new, "failed")["retryOf"], *id);
    assert_eq!(exit(&admin(&served, "delete", &[&id])), 0);
    let gone = admin(&served, "task", &[&id]);
    assert_eq!((exit(&gone), stdout(&gone)), (5, ""));
    // What `call` has sent has a key, and is kept like a task.
    assert_eq!(exit(&run(&["call", &served.url, "echo", "words=a"])), 0);
    let deleted = admin(&served, "delete", &["--all", "--state", "ended", "--yes"]);
    assert_eq!(exit(&deleted), 0, "{deleted:?}");
    assert_eq!(json(&admin(&served, "tasks", &["--json"]))["tasks"], json!([]));
    let tools = json(&admin(&served, "tools", &["--json"]));
    let mut tools = tools.as_array().unwrap().iter();
    assert_eq!(tools.find(|tool| tool["name"] == "gate").unwrap()["failed"], 2);
}

#[test]
fn numbers_of_a_result_are_shown_as_they_are_written() {
    let served = Served::start_with(PRINT);
    let numbers = "[12345678901234567890123,1.10]";
    let text = format!("text={{\"n\":{numbers}}}");
    let call = run(&["call", &served.url, "print", &text, "--detach"]);
    let id = stdout(&call).trim().to_owned();
    state(&served, &id, "succeeded");
    for words in [&[&*id][..], &[&id, "--json"]] {
        let shown = admin(&served, "task", words);
        let structured = format!("\"structuredContent\":{{\"n\":{numbers}}}");
        assert!(stdout(&shown).contains(&structured), "{shown:?}");
    }
}

/// Over a restart of the server, and until it is interrupted.
#[test]
fn a_log_is_followed_until_its_task_ends() {
    let tool = "\n[[tool]]\nname = \"writes\"\ndescription = \"as gate, after a line\"\ntask = \"always\"\n\
         command = [\"sh\", \"-c\", \"echo begun; while [ -e jobs.toml ] && [ ! -e gate ]; do sleep 0.02; done; echo through\"]\n";
    let mut served = Served::start_with(tool);
    let call = run(&["call", &served.url, "writes", "--detach"]);
    let id = stdout(&call).trim().to_owned();
    let follow = |served: &Served| {
        let mut child = served.on_file(&["admin", "log"], &[&id, "--follow"]).spawn().unwrap();
        let mut log = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        assert_eq!(line, "begun\n");
        (child, log)
    };
    let (interrupted, _log) = follow(&served);
    kill_process(Pid::from_child(&interrupted), Signal::INT).unwrap();
    assert_eq!(exit(&interrupted.wait_with_output().unwrap()), 130);
    let (follows, mut log) = follow(&served);
    served.kill();
    served.restart();
    served.open_gate();
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "through\n");
    let ended = follows.wait_with_output().unwrap();
    assert_eq!(exit(&ended), 0);
    assert!(stderr(&ended).ends_with("the task has succeeded\n"), "{ended:?}");
}

#[test]
fn what_cannot_be_done_is_said_with_its_status() {
    let mut served = Served::start();
    let id = gate(&served, 0);
    state(&served, &id, "running");
    let refused = admin(&served, "release", &[&id, "--json"]);
    let error = json!({"message": "the task is not blocked", "kind": "not_now"});
    assert_eq!((exit(&refused), &json(&refused)["error"]), (5, &error));
    let filter = admin(&served, "tasks", &["--state", "runing"]);
    filter.ends(2).says("`state` cannot be \"runing\"");
    for id in ["../stats", "a b", ""] {
        assert_eq!(exit(&admin(&served, "task", &[id])), 2, "{id:?}");
    }
    for action in ["task", "cancel"] {
        let short = admin(&served, action, &[&id[..4]]);
        short.ends(2).says("may be a part of the ids of several tasks");
    }
    assert_eq!(exit(&admin(&served, "cancel", &[&id])), 0);
    state(&served, &id, "cancelled");
    assert_eq!(exit(&admin(&served, "answer", &[&id, "a=b"])), 5, "it asks nothing");
    served.kill();
    let gone = admin(&served, "stats", &["--json"]);
    assert_eq!((exit(&gone), &json(&gone)["error"]["kind"]), (3, &json!("unreachable")));
    run(&["admin", "stats", "/nonexistent/jobs.toml"]).ends(2);
}

#[test]
fn a_drained_server_ends_and_its_tasks_go_on() {
    let mut served = Served::start();
    let id = gate(&served, 0);
    state(&served, &id, "running");
    assert_eq!(exit(&admin(&served, "drain", &[])), 0);
    assert!(served.child.wait().unwrap().success());
    assert!(!served.folder.path().join("data/admin.sock").exists());
    served.restart();
    served.open_gate();
    state(&served, &id, "succeeded");
}

/// What runs ends before the server does, and what is called meanwhile waits for the next start.
#[test]
fn a_drain_waits_for_what_runs() {
    for by_signal in [false, true] {
        let mut served = Served::start();
        let config = served.folder.path().join("jobs.toml");
        if by_signal {
            served.kill();
            let text = fs::read_to_string(&config).unwrap();
            let text = text.replacen("[server]", "[server]\ndrain_timeout = \"10m\"", 1);
            fs::write(&config, text).unwrap();
            served.restart();
        }
        let id = gate(&served, 0);
        state(&served, &id, "running");
        match by_signal {
            true => kill_process(Pid::from_child(&served.child), Signal::TERM).unwrap(),
            false => assert_eq!(exit(&admin(&served, "drain", &["--timeout", "10m"])), 0),
        }
        let nodes = || json(&served.on_file(&["nodes"], &["--json"]).output().unwrap());
        while nodes()["nodes"][0]["cordon"] != "draining" {}
        let later = gate(&served, 0);
        assert_eq!(json(&admin(&served, "task", &[&later, "--json"]))["state"], "queued");
        assert_eq!(json(&admin(&served, "task", &[&id, "--json"]))["state"], "running");
        served.open_gate();
        assert!(served.child.wait().unwrap().success());
        served.restart();
        let ended = json(&admin(&served, "task", &[&id, "--json"]));
        assert_eq!(ended["state"], "succeeded", "{ended}");
        state(&served, &later, "succeeded");
    }
}

/// By the number that `nodes` shows.
#[test]
fn a_server_is_cordoned() {
    let served = Served::start();
    let nodes = |words: &[&str]| {
        let (action, rest) = words.split_at(words.len().min(1));
        let mut command = served.on_file(&[&["nodes"], action].concat(), rest);
        command.arg("--json").output().unwrap()
    };
    let number = json(&nodes(&[]))["nodes"][0]["node"].to_string();
    assert_eq!(exit(&nodes(&["cordon", &number])), 0);
    assert_eq!(json(&nodes(&[]))["nodes"][0]["cordon"], "cordoned");
    let doctor = admin(&served, "doctor", &[]);
    let said = stdout(&doctor);
    said.has("is cordoned, and no other server begins work")
        .lacks("start a server");
    let id = gate(&served, 0);
    assert_eq!(json(&admin(&served, "task", &[&id, "--json"]))["state"], "queued");
    assert_eq!(exit(&nodes(&["uncordon", &number])), 0);
    state(&served, &id, "running");
    assert_eq!(exit(&nodes(&["cordon", "4711"])), 5);
}

/// Its server can only find out when it asks it for something.
#[test]
#[cfg(target_os = "linux")]
fn the_doctor_finds_a_supervisor_that_was_stopped() {
    let served = Served::start();
    let id = gate(&served, 0);
    let command = served.folder.path().join("data/attempts").join(&id).join("1/pid");
    let stat = loop {
        let command: Option<u32> = fs::read_to_string(&command).ok().and_then(|pid| pid.parse().ok());
        if let Some(command) = command {
            break fs::read_to_string(format!("/proc/{command}/stat")).unwrap();
        }
    };
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let supervisor = fields.split_whitespace().nth(1).unwrap();
    let process = Pid::from_raw(supervisor.parse().unwrap()).unwrap();
    let said = || stdout(&admin(&served, "doctor", &[])).to_owned();
    assert!(!said().contains("SIGSTOP"));
    kill_process(process, Signal::STOP).unwrap();
    let finding = loop {
        let said = said();
        if said.contains("SIGSTOP") {
            break said;
        }
    };
    finding.has(&id).has(&format!("`kill -CONT {supervisor}`"));
    kill_process(process, Signal::CONT).unwrap();
    while said().contains("SIGSTOP") {}
}

#[test]
fn the_doctor_finds_what_is_wrong() {
    let mut served = Served::start();
    let healthy = admin(&served, "doctor", &[]);
    let is_disk_full = stdout(&healthy).contains("MiB left");
    assert!(stdout(&healthy) == "nothing is wrong\n" || is_disk_full, "{healthy:?}");
    let data = served.folder.path().join("data");
    let mode = |mode| fs::set_permissions(&data, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    mode(0o755);
    let open = admin(&served, "doctor", &[]);
    open.ends(1).prints("other users can read").prints("chmod 700");
    mode(0o700);
    let id = gate(&served, 0);
    state(&served, &id, "running");
    served.kill();
    let finds = |what: &str, advice: &str| {
        let dead = json(&admin(&served, "doctor", &["--json"]));
        let found = dead["findings"].as_array().unwrap().iter().any(|finding| {
            let has = |member: &str, part: &str| finding[member].as_str().unwrap().contains(part);
            has("finding", what) && has("advice", advice)
        });
        assert!(found, "{what}: {dead}");
    };
    finds("", "start it: longhaul serve");
    finds("live tasks wait for the server: 1 running", "none is forgotten");
    let node = data.join("node");
    let kept = fs::read(&node).unwrap();
    fs::remove_file(&node).unwrap();
    let missing = "the file `node` beside the database is missing";
    finds(missing, "--accept-restored-database");
    let waiting = "live tasks wait for the server: 1 running";
    finds(waiting, "none of them goes on by itself");
    fs::write(&node, kept).unwrap();
    let keys = data.join("keys.json");
    fs::write(&keys, "{\"keys\": [").unwrap();
    finds("the API keys cannot be read", "mend the file");
    finds("does not answer", "mend first what else is said here; then start it");
    fs::remove_file(&keys).unwrap();
    // A page in the middle is lost.
    let database = data.join("longhaul.db");
    let checkpoint = rusqlite::Connection::open(&database).unwrap();
    checkpoint.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    drop(checkpoint);
    let mut bytes = fs::read(&database).unwrap();
    let pages = bytes.len() / 4096;
    bytes[4096 * 3..4096 * (pages - 1)].fill(0x5a);
    fs::write(&database, bytes).unwrap();
    finds("damaged", "restore the latest backup");
    finds("does not answer", "mend first what else is said here; then start it");
    fs::write(&database, "").unwrap();
    let empty = "longhaul.db is empty, so its tasks are lost, and a server has run here";
    finds(empty, "restore the latest backup");
    finds("does not answer", "mend first what else is said here; then start it");
    fs::remove_file(&database).unwrap();
    finds("longhaul.db is gone", "Do not start the server before");
    finds("does not answer", "mend first what else is said here; then start it");
    let attempts = data.join("attempts");
    fs::remove_dir_all(&attempts).unwrap();
    fs::write(&attempts, "").unwrap();
    finds("attempts is no directory", "move it away");
}

/// A mount that is away must not keep an operator from a server that runs.
#[test]
fn mistakes_elsewhere_in_the_file_are_warnings() {
    let mut served = Served::start();
    let file = served.folder.path().join("jobs.toml");
    let mistakes = "\n[server.audit]\nfile = \"gone/audit.jsonl\"\n[server.tls]\ncert = \"no.pem\"\nkey = \"no.pem\"\n\
         [[tool]]\nname = \"away\"\ndescription = \"x\"\ncommand = [\"true\"]\noutput = \"json\"\noutput_schema = \"no.json\"\n";
    fs::write(&file, [JOBS, mistakes].concat()).unwrap();
    let named = ["gone", "no.pem", "no.json"];
    let stats = admin(&served, "stats", &["--json"]);
    assert_eq!(json(&stats)["name"], "test");
    let backup = served.folder.path().join("backup.tar");
    let nodes = served.on_file(&["nodes"], &[]).output().unwrap();
    let backup = served
        .on_file(&["backup"], &[backup.to_str().unwrap()])
        .output()
        .unwrap();
    for done in [stats, nodes, backup] {
        assert_eq!(exit(&done), 0, "{done:?}");
        for name in named {
            let warns = |line: &str| line.starts_with("warning: ") && line.contains(name);
            assert!(stderr(&done).lines().any(warns), "{name}: {done:?}");
        }
    }
    let doctor = admin(&served, "doctor", &[]);
    assert_eq!((exit(&doctor), stderr(&doctor)), (1, ""));
    let is_named = |name: &&str| stdout(&doctor).contains(name);
    assert!(named.iter().all(is_named), "{doctor:?}");
    assert!(!stdout(&doctor).contains("does not answer"), "{doctor:?}");
    served.kill();
    let doctor = admin(&served, "doctor", &[]);
    doctor.prints("mend first what else is said here; then start it");
    fs::write(&file, "[server\n").unwrap();
    for broken in [admin(&served, "stats", &[]), admin(&served, "doctor", &[])] {
        assert_eq!(exit(&broken), 2, "{broken:?}");
    }
}

/// As by a variable that is not set.
#[test]
fn an_empty_filter_is_none_of_all_tasks() {
    let served = Served::start();
    let id = gate(&served, 0);
    state(&served, &id, "running");
    for filter in ["--tool", "--principal", "--text", "--upstream"] {
        let refused = admin(&served, "cancel", &["--all", "--state", "live", filter, "", "--yes"]);
        refused.ends(2).says(filter);
    }
    state(&served, &id, "running");
}

/// What a server that runs has in memory, its next start does not find.
#[test]
fn the_doctor_finds_what_keeps_a_server_that_runs_from_its_next_start() {
    let served = Served::start();
    let data = served.folder.path().join("data");
    let finds = |what: &str| {
        let found = admin(&served, "doctor", &[]);
        assert!(exit(&found) == 1 && stdout(&found).contains(what), "{what}: {found:?}");
        assert!(!stdout(&found).contains("does not answer"), "{found:?}");
    };
    let keys = data.join("keys.json");
    fs::write(&keys, "{\"keys\": [").unwrap();
    finds("the API keys cannot be read");
    fs::write(&keys, "{\"keys\": []}").unwrap();
    fs::set_permissions(&keys, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    finds("other users may write to it (mode 666)");
    fs::remove_file(&keys).unwrap();
    fs::write(data.join("admin.key"), "x").unwrap();
    finds("the key has 1 characters");
    fs::remove_file(data.join("admin.key")).unwrap();
    let (attempts, moved) = (data.join("attempts"), data.join("moved"));
    fs::rename(&attempts, &moved).unwrap();
    finds("attempts is gone");
    fs::rename(&moved, &attempts).unwrap();
    let database = data.join("longhaul.db");
    fs::rename(&database, &moved).unwrap();
    finds("longhaul.db is gone, and a process uses it");
    fs::rename(&moved, &database).unwrap();
    assert!(!stdout(&admin(&served, "doctor", &[])).contains("gone"));
}

#[test]
fn the_doctor_says_that_a_directory_of_another_user_cannot_be_read() {
    use std::os::unix::{fs::PermissionsExt as _, process::CommandExt as _};
    let folder = tempfile::tempdir().unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(folder.path(), 0o755);
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    mode(&data, 0o000);
    let mut doctor = longhaul(&["admin", "doctor", data.to_str().unwrap()]);
    if rustix::process::geteuid().is_root() {
        // Root may read everything.
        doctor.uid(65_534).gid(65_534);
    }
    let unread = doctor.output().unwrap();
    mode(&data, 0o700);
    unread.ends(5).says("cannot be read: Permission denied");
}

/// A process that is stopped accepts connections, and answers nothing.
#[test]
fn a_server_that_does_not_answer_is_waited_for_aloud() {
    let mut served = Served::start();
    let stats = |served: &Served| {
        let mut child = served.on_file(&["admin", "stats"], &[]).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains("waiting for test to answer"), "{line}");
        (child, said)
    };
    let server = Pid::from_child(&served.child);
    kill_process(server, Signal::STOP).unwrap();
    let (given_up, mut said) = stats(&served);
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    rest.has("no answer within 20 s").has("end it with SIGKILL");
    assert_eq!(exit(&given_up.wait_with_output().unwrap()), 3);
    let (answered, _said) = stats(&served);
    kill_process(server, Signal::CONT).unwrap();
    let answered = answered.wait_with_output().unwrap();
    assert!(stdout(&answered).starts_with("test: 0 queued"), "{answered:?}");
    served.kill();
}

#[test]
fn many_tasks_are_acted_on_with_a_filter() {
    let served = Served::start();
    let ids = [gate(&served, 0), gate(&served, 0)];
    ids.iter().for_each(|id| drop(state(&served, id, "running")));
    let asked = admin(&served, "cancel", &["--all", "--tool", "gate"]);
    asked.ends(2).says("cancel 2 tasks? Nothing was changed: --yes");
    let unfiltered = admin(&served, "cancel", &["--all", "--yes"]);
    unfiltered.ends(2).says("such as `tool`");
    // A filter is for --all.
    admin(&served, "cancel", &[&ids[0], "--tool", "gate"]).ends(2);
    let counted = json(&admin(&served, "principals", &["--json"]));
    assert_eq!(counted["principals"][0]["running"], 2, "{counted}");
    assert!(stdout(&admin(&served, "principals", &[])).starts_with("PRINCIPAL "));
    let done = admin(&served, "cancel", &["--all", "--state", "live", "--yes", "--json"]);
    let expected = json!({"done": 2, "refused": 0, "refusals": []});
    assert_eq!((exit(&done), json(&done)), (0, expected));
    ids.iter().for_each(|id| drop(state(&served, id, "cancelled")));
    let deleted = admin(&served, "delete", &["--all", "--state", "ended", "--yes"]);
    assert_eq!(stdout(&deleted), "delete: 2 done, 0 not\n");
}

/// On an address of its own, for browsers, Prometheus and other machines.
#[test]
fn the_admin_address_needs_a_key_of_whoever_is_not_the_servers_user() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.toml");
    let section = "\n[admin]\nlisten = \"127.0.0.1:0\"\nsame_user = false\n";
    fs::write(&file, [JOBS, section].concat()).unwrap();
    let mut child = longhaul(&["serve", file.to_str().unwrap(), "--json", "--listen", "127.0.0.1:0"])
        .arg("--data-dir")
        .arg(folder.path().join("data"))
        .spawn()
        .unwrap();
    let url = report(&mut child)["admin"].as_str().unwrap().to_owned();
    run(&["admin", "stats", &url]).ends(5).says("--key-file");
    let key = folder.path().join("data/admin.key");
    let granted = run(&["admin", "stats", &url, "--json", "--key-file", key.to_str().unwrap()]);
    assert_eq!(json(&granted)["name"], "test");
    let metrics = fs::read_to_string(folder.path().join("data/metrics.key")).unwrap();
    // The key of metrics opens nothing else.
    let mut wrong = longhaul(&["admin", "stats", &url]);
    wrong
        .env("LONGHAUL_ADMIN_KEY", metrics.trim())
        .output()
        .unwrap()
        .ends(5);
    assert_eq!(mode_of(&key), 0o600);
    child.kill().unwrap();
    child.wait().unwrap();
}

fn mode_of(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

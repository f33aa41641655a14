//! `longhaul stdio` as desktop clients use it: real relays, a real owner, real commands.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "../assertions/mod.rs"]
#[allow(dead_code)]
mod assertions;
mod served_file;

use crate::assertions::*;
use longhaul_schemas::MessageChecker;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// A folder with a configuration, and a tool that waits for a file.
struct Place(TempDir);

impl Place {
    fn new(idle_exit: &str) -> Self {
        Self::with(&format!("listen = \"127.0.0.1:0\"\nidle_exit = \"{idle_exit}\""))
    }

    fn with(server: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let jobs = format!(
            r#"
[server]
name = "test"
data_dir = "data"
{server}

[[tool]]
name = "gate"
description = "ends when somebody makes the file `gate`"
command = ["sh", "-c", "while [ -e jobs.toml ] && [ ! -e gate ]; do sleep 0.02; done; echo through"]
"#
        );
        fs::write(folder.path().join("jobs.toml"), jobs).unwrap();
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    fn open_gate(&self) {
        fs::write(self.path().join("gate"), "").unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.data().join("owner.log")).unwrap_or_default()
    }

    /// The process that owns the data directory.
    fn owner(&self) -> Pid {
        let lock = fs::read_to_string(self.data().join("lock")).unwrap();
        owner_in(&lock)
    }

    /// Every process that serves this folder.
    #[cfg(target_os = "linux")]
    fn servers(&self) -> Vec<Pid> {
        let folder = self.path().to_str().unwrap();
        let serves = |pid: &Pid| {
            let words = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).into_owned();
            words.split('\0').nth(1) == Some("serve") && words.contains(folder)
        };
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let ids = processes.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
        ids.filter(serves).collect()
    }

    #[cfg(not(target_os = "linux"))]
    fn servers(&self) -> Vec<Pid> {
        let owner = self.data().join("owner.sock").exists().then(|| self.owner());
        owner
            .filter(|owner| test_kill_process(*owner).is_ok())
            .into_iter()
            .collect()
    }

    fn relay(&self) -> Relay {
        Relay::start(&["stdio", self.path().join("jobs.toml").to_str().unwrap()])
    }
}

/// The process that a lock names.
fn owner_in(lock: &str) -> Pid {
    let rest = lock.strip_prefix("pid ").unwrap().chars();
    let digits: String = rest.take_while(char::is_ascii_digit).collect();
    Pid::from_raw(digits.parse().unwrap()).unwrap()
}

impl Drop for Place {
    /// Servers are processes of their own, and not only the owner may be there: of two that were started at once, the one that was too late
    /// may still be starting, and would own the directory as soon as the other has left.
    fn drop(&mut self) {
        let mut asked = Vec::new();
        wait_until("all servers have left", || {
            let left = self.servers();
            for server in left.iter().filter(|server| !asked.contains(*server)) {
                let _ = kill_process(*server, Signal::TERM);
            }
            asked.extend(&left);
            left.is_empty()
        });
    }
}

#[expect(clippy::disallowed_methods, reason = "another process gives no sign")]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

/// One desktop client's server, as it sees it.
struct Relay {
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    id: u64,
    checker: MessageChecker,
}

impl Relay {
    fn start(words: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = mpsc::channel();
        let reader = thread::Builder::new().name("output".to_owned());
        reader
            .spawn(move || {
                for line in output.lines() {
                    let _ = send.send(line.unwrap());
                }
            })
            .unwrap();
        Self {
            input: child.stdin.take(),
            child,
            lines,
            id: 0,
            checker: MessageChecker::default(),
        }
    }

    fn tell(&mut self, message: &Value) {
        self.checker.sent(message);
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
    }

    fn line(&mut self) -> Option<Value> {
        let line = self.lines.recv_timeout(Duration::from_secs(60)).ok()?;
        Some(serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line:?}")))
    }

    fn message(&mut self) -> Option<Value> {
        let message = self.line()?;
        self.checker.received(&message).unwrap();
        Some(message)
    }

    /// The result of a modern request.
    fn modern(&mut self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        self.result(method, params)
    }

    fn result(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        self.tell(&json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}));
        let answer = self.message().unwrap_or_else(|| panic!("no answer to {method}"));
        assert_eq!(answer["id"], json!(self.id), "{answer}");
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    fn initialize(&mut self) {
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        self.result("initialize", params);
        self.tell(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    /// A task that waits at the gate.
    fn create(&mut self) -> String {
        let task = self.modern("tools/call", json!({"name": "gate", "arguments": {}}));
        task["taskId"].as_str().unwrap().to_owned()
    }

    fn status(&mut self, task: &str) -> String {
        let task = self.modern("tasks/get", json!({"taskId": task}));
        task["status"].as_str().unwrap().to_owned()
    }

    /// Nothing more comes; what the relay then ends with, and what it has said to its user.
    fn finish(mut self) -> (ExitStatus, String) {
        self.input = None;
        self.end()
    }

    fn end(mut self) -> (ExitStatus, String) {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap(), said)
    }
}

/// Two start at once: the lock of the data directory decides whose owner stays, and both reach it.
#[test]
fn two_clients_share_one_owner_and_their_tasks_run_on_without_them() {
    let place = Place::new("10m");
    let (mut one, mut other) = (place.relay(), place.relay());
    one.initialize();
    let task = other.create();
    assert_eq!(one.status(&task), "working");
    let owner = place.owner();
    assert_eq!(place.log().matches("serves").count(), 1, "{}", place.log());
    let (status, said) = one.finish();
    assert!(status.success() && said.is_empty(), "{said}");
    // The other one is not even asked.
    other.child.kill().unwrap();
    other.end();

    place.open_gate();
    let mut third = place.relay();
    wait_until("the task is done", || third.status(&task) == "completed");
    assert_eq!(place.owner(), owner, "the same one");
    third.finish();
}

/// The host need not do anything: its session goes on, and so do its tasks.
#[test]
fn a_relay_whose_owner_is_killed_goes_on_with_the_next_one() {
    let place = Place::new("10m");
    let mut relay = place.relay();
    let task = relay.create();
    wait_until("the command runs", || {
        fs::read_dir(place.data().join("attempts")).is_ok_and(|attempts| attempts.count() > 0)
    });
    let owner = place.owner();
    kill_process(owner, Signal::KILL).unwrap();
    wait_until("the end of the owner", || {
        std::os::unix::net::UnixStream::connect(place.data().join("owner.sock")).is_err()
    });
    assert_eq!(relay.status(&task), "working");
    assert_ne!(place.owner(), owner);
    let mut another = place.relay();
    assert_eq!(another.status(&task), "working");
    place.open_gate();
    wait_until("the task is done", || relay.status(&task) == "completed");
    let (status, said) = relay.finish();
    assert!(status.success() && said.contains("the server has exited"), "{said}");
    another.finish();
}

#[test]
fn an_owner_leaves_when_nobody_is_there_and_nothing_runs() {
    let place = Place::new("50ms");
    let mut relay = place.relay();
    let task = relay.create();
    let owner = place.owner();
    relay.finish();
    place.open_gate();
    // Not before the task is done, whenever that is: its outcome is there for the next one.
    wait_until("the owner has left", || test_kill_process(owner).is_err());
    assert!(!place.data().join("owner.sock").exists());
    assert!(place.log().contains("longhaul: idle; stopping"), "{}", place.log());
    let mut next = place.relay();
    assert_eq!(next.status(&task), "completed");
    // Come and go, as often as you like: one that leaves is not taken for one that stays.
    next.finish();
    for _ in 0..5 {
        let mut relay = place.relay();
        assert_eq!(relay.status(&task), "completed");
        relay.finish();
    }
}

/// As `longhaul serve` is given it. The first call starts the server, and a task of it is found from another folder.
#[test]
fn a_call_names_its_server_by_the_configuration_file() {
    let place = Place::new("10m");
    let file = place.path().join("jobs.toml");
    let run = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(words)
            .current_dir("/")
            .env("XDG_CONFIG_HOME", place.path())
            .env("XDG_STATE_HOME", place.path().join("state"))
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let file = file.to_str().unwrap();
    let (status, id, said) = run(&["call", file, "gate", "--detach"]);
    assert_eq!(status, Some(0), "{said}");
    let owner = place.owner();
    place.open_gate();
    let id = id.trim();
    for words in [&["task", file, id, "--wait"][..], &["task", id, "--wait"]] {
        let expected = (Some(0), "through\n".to_owned(), String::new());
        assert_eq!(run(words), expected, "{words:?}");
    }
    assert_eq!(place.owner(), owner);
    fs::write(place.path().join("wrong.toml"), "[server]\nnam = \"x\"\n").unwrap();
    let (status, _, said) = run(&["call", place.path().join("wrong.toml").to_str().unwrap(), "gate"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("wrong.toml:2: unknown key `nam`"), "{said}");
    let (status, _, said) = run(&["call", "nosuch.toml", "gate"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("nosuch.toml: it cannot be read"), "{said}");
}

#[test]
fn a_server_started_by_hand_is_an_owner_too() {
    let place = Place::new("10m");
    let file = place.path().join("jobs.toml");
    let mut serve = Relay::start(&["serve", "--json", file.to_str().unwrap()]);
    serve.line().unwrap();
    let mut relay = place.relay();
    relay.create();
    assert_eq!(place.owner().as_raw_nonzero().get().unsigned_abs(), serve.child.id());
    kill_process(place.owner(), Signal::TERM).unwrap();
    let (status, said) = relay.finish();
    assert!(status.success(), "{said}");
    assert!(serve.end().0.success());
}

/// The process that started it finds the faster one, and nobody is to read of an error in the log.
#[test]
fn an_owner_that_finds_a_faster_one_says_nothing() {
    let place = Place::new("10m");
    let mut relay = place.relay();
    relay.create();
    let file = place.path().join("jobs.toml");
    let (status, said) = Relay::start(&["serve", "--detach", file.to_str().unwrap()]).end();
    assert_eq!((status.code(), said.as_str()), (Some(75), ""));
    relay.finish();
}

#[test]
fn a_taken_port_leaves_the_socket() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place::with(&format!("listen = \"{}\"", taken.local_addr().unwrap()));
    let mut relay = place.relay();
    relay.create();
    assert!(place.log().contains("serving only longhaul stdio"), "{}", place.log());
    relay.finish();
}

#[test]
fn what_cannot_be_served_is_said_before_anything_is_started() {
    let place = Place::with("nonsense = 1");
    let (status, said) = place.relay().finish();
    assert_eq!(status.code(), Some(2));
    assert!(said.contains("jobs.toml:5: unknown key `nonsense`"), "{said}");
    assert!(!place.data().exists());
}

#[test]
fn an_owner_that_cannot_start_says_why() {
    let place = Place::new("10m");
    fs::create_dir(place.data()).unwrap();
    fs::write(place.data().join("attempts"), "").unwrap();
    let (status, said) = place.relay().finish();
    assert_eq!(status.code(), Some(1));
    said.has("the server could not start").has("cannot use");
}

#[test]
fn nobody_else_reaches_the_socket_and_a_long_path_is_no_obstacle() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new("10m");
    let deep = place.path().join("x".repeat(200));
    let file = place.path().join("jobs.toml");
    let words = ["stdio", "--data-dir", deep.to_str().unwrap(), file.to_str().unwrap()];
    let mut relay = Relay::start(&words);
    relay.create();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&deep), mode(&deep.join("owner.sock"))), (0o700, 0o600));
    assert_eq!(mode(&deep.join("owner.log")), 0o600);
    let lock = fs::read_to_string(deep.join("lock")).unwrap();
    kill_process(owner_in(&lock), Signal::TERM).unwrap();
    relay.finish();
}

/// A link that somebody has left in the directory before it was private: what it leads to is not written, and nobody is talked to there.
#[test]
fn planted_files_are_refused_in_plain_words() {
    for name in ["owner.log", "owner.sock", "attempts"] {
        let place = Place::new("100ms");
        fs::create_dir(place.data()).unwrap();
        let victim = place.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, place.data().join(name)).unwrap();
        println!("{name}");
        let mut relay = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        relay
            .arg("stdio")
            .arg(place.path().join("jobs.toml"))
            .stdin(Stdio::null());
        relay.output().unwrap().ends(1).says("it is a symbolic link");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        fs::remove_file(place.data().join(name)).unwrap();
    }
}

/// A server that is started as a child is another one in another folder. A recorded task is looked for in the folder in which it was called.
#[test]
fn the_task_of_a_child_is_found_from_another_folder() {
    let place = Place::new("5s");
    let [home, elsewhere] = [(), ()].map(|()| tempfile::tempdir().unwrap());
    let run = |folder: &Path, words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(words).current_dir(folder).stdin(Stdio::null());
        command
            .env("XDG_CONFIG_HOME", home.path())
            .env("XDG_STATE_HOME", home.path())
            .env_remove("LONGHAUL_SERVER");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let server = [env!("CARGO_BIN_EXE_longhaul"), "stdio", "jobs.toml"];
    let with_server = |words: &[&'static str]| [words, &["--"], &server].concat();
    let id = run(place.path(), &with_server(&["call", "gate", "--detach"]));
    let shown = run(elsewhere.path(), &["task", &id[..12]]);
    assert!(shown.contains(&id) && shown.contains("running"), "{shown}");
    // A list starts no server, and says that what it shows may be old.
    let listed = run(elsewhere.path(), &["tasks"]);
    assert!(listed.contains(&id) && listed.contains("(not asked)"), "{listed}");
    let asked = run(place.path(), &with_server(&["tasks"]));
    assert!(asked.contains(&id) && !asked.contains("not asked"), "{asked}");
    place.open_gate();
    while !run(place.path(), &with_server(&["tasks"])).contains("succeeded") {}
    // What has ended stays so, and need not be asked about.
    run(elsewhere.path(), &["tasks"]).has("completed").lacks("not asked");
    let result = run(elsewhere.path(), &["task", &id[..12], "--wait"]);
    assert_eq!(result, "through");
}

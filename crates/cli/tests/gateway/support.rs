//! A folder with an upstream and a gateway, and the command run in it.

pub(crate) use crate::assertions::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Lines, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

pub(crate) const LONGHAUL: &str = env!("CARGO_BIN_EXE_longhaul");
/// A condition that never comes fails the test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with an upstream's configuration, whose tool ends when somebody makes the file `gate`, and notes each start.
pub(crate) fn folder() -> Folder {
    let folder = tempfile::tempdir().unwrap();
    let upstream = r#"
[server]
name = "upstream"
listen = "127.0.0.1:0"
data_dir = "upstream-data"

[[tool]]
name = "gate"
description = "ends when somebody makes the file `gate`"
command = ["sh", "-c", "echo began >> starts; echo waiting; while [ -e upstream.toml ] && [ ! -e gate ]; do sleep 0.02; done; echo through"]

[[tool]]
name = "greet"
description = "greets"
command = ["echo", "Hello"]
task = "never"
"#;
    fs::write(folder.path().join("upstream.toml"), upstream).unwrap();
    Folder(folder)
}

/// The servers that `wrap` and `stdio` have started in it end with it.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        kill_owners(self.path());
    }
}

/// Kills the owners of all data directories below `folder`.
pub(crate) fn kill_owners(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            kill_owners(&path);
        } else if entry.file_name() == "lock" {
            let lock = fs::read_to_string(&path).unwrap_or_default();
            let mut digits = lock.trim_start_matches("pid ").split(|c: char| !c.is_ascii_digit());
            let digits = digits.next();
            let pid = digits.and_then(|digits| Pid::from_raw(digits.parse().ok()?));
            if let Some(pid) = pid {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// A process that is killed with the test.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn longhaul(folder: &Path) -> Command {
    let mut command = Command::new(LONGHAUL);
    command
        .current_dir(folder)
        .env("XDG_STATE_HOME", folder.join("state"))
        .env("XDG_CONFIG_HOME", folder.join("config"))
        .env_remove("LONGHAUL_SERVER")
        .env_remove("LONGHAUL_LOG");
    command
}

/// Starts a server, and reads its address from its report.
pub(crate) fn serve(folder: &Path, arguments: &[&str]) -> Server {
    serve_to(folder, arguments, Stdio::null())
}

fn serve_to(folder: &Path, arguments: &[&str], log: Stdio) -> Server {
    started(longhaul(folder), arguments, log)
}

/// As [`serve`], with a command of which more is known.
pub(crate) fn started(mut command: Command, arguments: &[&str], log: Stdio) -> Server {
    let mut child = command
        .arg("serve")
        .args(arguments)
        .arg("--json")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    let report: Value = serde_json::from_str(&line).unwrap();
    let url = report["url"].as_str().unwrap().to_owned();
    Server { child, url }
}

/// The same. What it says is in the file `log`.
pub(crate) fn serve_with_log(folder: &Path, arguments: &[&str]) -> Server {
    let log = fs::File::create(folder.join("log")).unwrap();
    serve_to(folder, arguments, log.into())
}

/// Runs a client command that succeeds; its standard output.
#[track_caller]
pub(crate) fn done(folder: &Path, arguments: &[&str]) -> String {
    text(&run(folder, arguments))
}

/// Runs a client command.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Output {
    longhaul(folder).args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
pub(crate) fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

#[expect(clippy::disallowed_methods, reason = "another process gives no sign")]
pub(crate) fn until(what: &str, mut is_met: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_met() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A future that must complete.
#[expect(clippy::disallowed_methods, reason = "the test waits for the outside world")]
pub(crate) async fn guarded<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(done) => done,
        Err(_) => panic!("waited in vain for {what}"),
    }
}

pub(crate) fn starts(folder: &Path) -> usize {
    let starts = fs::read_to_string(folder.join("starts")).unwrap_or_default();
    starts.lines().count()
}

/// Adds this to a file.
pub(crate) fn append(folder: &Path, file: &str, more: &str) {
    let text = fs::read_to_string(folder.join(file)).unwrap() + more;
    fs::write(folder.join(file), text).unwrap();
}

pub(crate) fn gateway_config(folder: &Path, url: &str) {
    let config = format!(
        "[server]\nname = \"gateway\"\nlisten = \"127.0.0.1:0\"\ndata_dir = \"gateway-data\"\n\n[upstream.up]\nurl = \"{url}\"\ntask = \"optional\"\n"
    );
    fs::write(folder.join("gateway.toml"), config).unwrap();
}

/// A host that speaks with a server over a pipe, in revision 2025-11-25.
pub(crate) struct Host {
    child: Child,
    requests: ChildStdin,
    responses: Lines<BufReader<ChildStdout>>,
    sent: u64,
    /// What the server says of itself.
    pub(crate) hello: Value,
}

impl Host {
    /// Starts the command, and initializes the session.
    pub(crate) fn start(folder: &Path, command: &[&str]) -> Self {
        Self::of(longhaul(folder), command)
    }

    /// As [`start`](Self::start), with a command of which more is known.
    pub(crate) fn of(mut longhaul: Command, command: &[&str]) -> Self {
        let mut child = longhaul
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut host = Self {
            requests: child.stdin.take().unwrap(),
            responses: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
            sent: 0,
            hello: Value::Null,
        };
        let client = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}});
        host.hello = host.exchange("initialize", client)["result"].take();
        host
    }

    /// Sends a request; its id.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.sent += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.sent, "method": method, "params": params});
        writeln!(self.requests, "{request}").unwrap();
        self.sent
    }

    /// The response to the request with this id. What else comes before it is left out.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        let lines = self.responses.by_ref().map(Result::unwrap);
        let mut messages = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
        messages.find(|message| message["id"] == id).unwrap()
    }

    pub(crate) fn exchange(&mut self, method: &str, params: Value) -> Value {
        let sent = self.send(method, params);
        self.answer(sent)
    }

    /// Closes its end, and waits for the command.
    pub(crate) fn leave(self) {
        let mut child = self.child;
        drop(self.requests);
        child.wait().unwrap();
    }
}

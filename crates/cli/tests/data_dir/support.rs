//! A folder with a configuration, and its server.

use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};
use tempfile::TempDir;

/// Each run leaves a line in `runs`, and ends when there is a file `gate`.
pub(crate) const JOBS: &str = r#"
[server]
name = "test"
listen = "127.0.0.1:0"
data_dir = "data"
max_running = 1

[[tool]]
name = "gate"
description = "ends when somebody makes the file `gate`"
command = ["sh", "-c", "echo run >> runs; while [ -e jobs.toml ] && [ ! -e gate ]; do sleep 0.02; done; echo through"]
task = "always"
retry = { attempts = 3, on = ["crash"] }
"#;

pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self::with(JOBS)
    }

    /// A folder with this configuration.
    pub(crate) fn with(jobs: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("jobs.toml"), jobs).unwrap();
        Self(folder)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn runs(&self) -> usize {
        let runs = fs::read_to_string(self.file("runs")).unwrap_or_default();
        runs.lines().count()
    }

    pub(crate) fn serve(&self, flags: &[&str]) -> Served {
        let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .arg("serve")
            .arg(self.file("jobs.toml"))
            .arg("--json")
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.as_mut().unwrap());
        said.read_line(&mut line).unwrap();
        let report: Value = serde_json::from_str(&line).unwrap();
        // A worker has none.
        let url = report["url"].as_str().unwrap_or_default().to_owned();
        let home = self.file("home");
        Served {
            child,
            report,
            url,
            home,
        }
    }
}

/// The last look at the folder's commands: they end when it is gone.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) report: Value,
    pub(crate) url: String,
    /// Where the client keeps its journal and its configuration.
    home: PathBuf,
}

impl Served {
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        let (word, rest) = words.split_first().unwrap();
        self.command(&[&[*word, &self.url], rest].concat()).output().unwrap()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(words).stdin(Stdio::null());
        command
            .env("XDG_STATE_HOME", &self.home)
            .env("XDG_CONFIG_HOME", &self.home);
        command
    }

    /// Begins a call of `gate`, and returns its id.
    pub(crate) fn begin(&self) -> String {
        let mut command = self.command(&["call", &self.url, "gate"]);
        let mut call = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(call.stderr.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let line = lines.find(|line| line.starts_with("task ")).unwrap();
        call.kill().unwrap();
        call.wait().unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    }

    pub(crate) fn look(&self, id: &str) -> String {
        let shown = self.run(&["task", id, "--json"]);
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        shown["status"].as_str().unwrap().to_owned()
    }

    /// The status and the body of an answer of its admin address.
    pub(crate) fn get(&self, path: &str) -> (String, String) {
        let url = self.report["admin"].as_str().unwrap();
        let address = url.strip_prefix("http://").unwrap();
        let address = address.split('/').next().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap();
        (status.to_owned(), body.to_owned())
    }

    /// Kills the server, and returns what it has said to people.
    pub(crate) fn kill(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "another process gives no sign")]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

/// Runs the program in the folder of `place`.
pub(crate) fn longhaul(place: &Place, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.args(words).current_dir(place.file("")).stdin(Stdio::null());
    command
}

/// Runs it to its end, and returns its exit status, the JSON on standard output, and what it has said to people.
pub(crate) fn run(place: &Place, words: &[&str]) -> (Option<i32>, Value, String) {
    let ended = longhaul(place, words).output().unwrap();
    let json = serde_json::from_slice(&ended.stdout).unwrap_or(Value::Null);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    (ended.status.code(), json, said)
}

/// Runs it to its end, which is this status, and returns what it has said to people.
#[track_caller]
pub(crate) fn ends(place: &Place, words: &[&str], status: i32) -> String {
    let (code, _, said) = run(place, words);
    assert_eq!(code, Some(status), "{words:?}: {said}");
    said
}

/// Runs it to its end, which is good.
pub(crate) fn done(place: &Place, words: &[&str]) -> Value {
    let (code, json, said) = run(place, words);
    assert_eq!(code, Some(0), "{words:?}: {said}");
    json
}

/// The names in the folder, in order.
pub(crate) fn names(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.file("")).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

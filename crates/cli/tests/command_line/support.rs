//! A folder with a configuration, its server, and the command run against it.

pub(crate) use crate::assertions::*;
use longhaul_schemas::CheckingProxy;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, ChildStderr, Command, Output, Stdio},
    sync::LazyLock,
    thread,
};
use tempfile::TempDir;

pub(crate) const JOBS: &str = r#"
[server]
name = "test"

[[tool]]
name = "echo"
description = "says it again"
command = ["echo", "{words}"]
input = { words = { type = "array", items = { type = "string" }, description = "what to say" } }
task = "never"

[[tool]]
name = "gate"
description = "ends when somebody makes the file `gate`"
command = ["sh", "-c", "while [ -e jobs.toml ] && [ ! -e gate ]; do sleep 0.02; done; echo through; exit \"$1\"", "sh", "{code}"]
input = { code = { type = "integer", minimum = 0 } }
task = "always"
"#;

/// A command that is waited for.
pub(crate) const HELD: &str = r#"
[[tool]]
name = "held"
description = "like `gate`, but waited for; says in the file `told` when it is asked to stop"
command = ["sh", "-c", "trap 'echo > told; exit 1' TERM; echo > held; while [ -e jobs.toml ] && [ ! -e gate ]; do sleep 0.02; done; echo through"]
task = "never"
"#;

/// Prints its argument as JSON.
pub(crate) const PRINT: &str = r#"
[[tool]]
name = "print"
description = "prints JSON"
command = ["printf", "%s", "{text}"]
input = { text = { type = "string" } }
output = "json"
task = "always"
"#;

/// The built binary.
pub(crate) fn longhaul(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    // The journal of these calls is not that of whoever runs the tests.
    static STATE: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());
    command
        .args(words)
        .env("XDG_STATE_HOME", STATE.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) fn run(words: &[&str]) -> Output {
    longhaul(words).output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

pub(crate) fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

pub(crate) fn exit(output: &Output) -> i32 {
    output.status.code().unwrap()
}

pub(crate) fn json(output: &Output) -> Value {
    assert_eq!(stdout(output).lines().count(), 1, "{output:?}");
    serde_json::from_str(stdout(output)).unwrap()
}

/// A server of [`JOBS`] in a folder of its own; it dies with this value.
pub(crate) struct Served {
    pub(crate) folder: TempDir,
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    /// What clients speak to: the server, through the proxy.
    pub(crate) url: String,
    /// Hears what the server says, to the last word.
    pub(crate) _proxy: CheckingProxy,
}

impl Served {
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// With more tools than [`JOBS`].
    pub(crate) fn start_with(tools: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("jobs.toml"), [JOBS, tools].concat()).unwrap();
        let (child, address) = serve(folder.path(), "127.0.0.1:0");
        let proxy = CheckingProxy::before(address).unwrap();
        Self {
            folder,
            child,
            address,
            url: format!("http://{}/mcp", proxy.address()),
            _proxy: proxy,
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// After [`kill`](Self::kill): at the same address, on the same data.
    pub(crate) fn restart(&mut self) {
        (self.child, _) = serve(self.folder.path(), &self.address.to_string());
    }

    /// Lets `gate` end.
    pub(crate) fn open_gate(&self) {
        fs::write(self.folder.path().join("gate"), "").unwrap();
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn database(&self) -> std::path::PathBuf {
        self.folder.path().join("data/longhaul.db")
    }

    /// Limits the size of each file the server writes, in bytes, and returns the limit there was.
    #[cfg(target_os = "linux")]
    pub(crate) fn limit_file_size(&self, bytes: Option<u64>) -> Option<u64> {
        use rustix::process::{Resource, Rlimit, prlimit};
        let limit = Rlimit {
            current: bytes,
            maximum: None,
        };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Fsize, limit)
            .unwrap()
            .current
    }

    pub(crate) fn ask_to_stop(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// Begins a call of `held` and waits until its command runs.
    pub(crate) fn hold(&self) -> Child {
        self.hold_by(&mut longhaul(&["call", &self.url, "held"]))
    }

    /// The same, by a caller that does not record the call. So it has no idempotency key, and ends with its connection.
    pub(crate) fn hold_unrecorded(&self) -> Child {
        self.hold_by(&mut longhaul(&["call", "--unrecorded", &self.url, "held"]))
    }

    fn hold_by(&self, caller: &mut Command) -> Child {
        let mut call = caller.spawn().unwrap();
        while !self.folder.path().join("held").exists() {
            assert!(call.try_wait().unwrap().is_none(), "the call has ended before it began");
            thread::yield_now();
        }
        call
    }

    /// A command about the server's configuration: these words, the file, its data directory, and the rest.
    pub(crate) fn on_file(&self, command: &[&str], more: &[&str]) -> Command {
        let (file, data) = (self.folder.path().join("jobs.toml"), self.folder.path().join("data"));
        let target = [file.to_str().unwrap(), "--data-dir", data.to_str().unwrap()];
        longhaul(&[command, &target, more].concat())
    }

    /// Waits until a command has made this file.
    pub(crate) fn sees(&self, file: &str) {
        while !self.folder.path().join(file).exists() {
            thread::yield_now();
        }
    }

    /// Calls `echo` without a task on a connection that stays; what is answered, up to where its body begins.
    pub(crate) fn post_echo(&self) -> (TcpStream, String) {
        let address = self.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
        let mut connection = TcpStream::connect(address).unwrap();
        let body =
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"words":["x"]}}}"#;
        let length = body.len();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {length}\r\n\r\n"
        );
        connection.write_all([&head, body].concat().as_bytes()).unwrap();
        let lines = BufReader::new(&connection).lines().map_while(Result::ok);
        let answer: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        (connection, answer.join("\n"))
    }

    /// Begins a call of `gate` and waits until it is a task.
    pub(crate) fn begin(&self, more: &[&str]) -> Waiting {
        let words = [&["call", &self.url, "gate", "code=0"], more].concat();
        let mut waiting = Waiting::new(longhaul(&words).spawn().unwrap());
        let line = waiting.line_with("task ");
        waiting.id = line.split_whitespace().nth(1).unwrap().to_owned();
        waiting
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.open_gate();
        self.kill();
    }
}

pub(crate) fn serve(folder: &Path, listen: &str) -> (Child, SocketAddr) {
    let (file, data) = (folder.join("jobs.toml"), folder.join("data"));
    let (file, data) = (file.to_str().unwrap(), data.to_str().unwrap());
    let words = ["serve", file, "--listen", listen, "--data-dir", data, "--json"];
    let mut child = longhaul(&words).stderr(Stdio::null()).spawn().unwrap();
    let ready = report(&mut child);
    let url = ready["url"].as_str().unwrap();
    let (_, address) = url.strip_suffix("/mcp").unwrap().split_once("://").unwrap();
    (child, address.parse().unwrap())
}

/// What a server with `--json` says when it is ready.
pub(crate) fn report(child: &mut Child) -> Value {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    serde_json::from_str(&line).unwrap()
}

/// What a server with `LONGHAUL_LOG` says on standard error, from its first line to its last; a file takes it, so that nobody has to read.
pub(crate) fn logged(level: &str, while_served: impl FnOnce(&str, &Child)) -> String {
    logged_as("text", level, while_served)
}

/// The same, in this format.
pub(crate) fn logged_as(format: &str, level: &str, while_served: impl FnOnce(&str, &Child)) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("jobs.toml"), JOBS).unwrap();
    fs::write(folder.path().join("gate"), "").unwrap();
    let log = folder.path().join("log");
    let mut command = longhaul(&[
        "serve",
        "jobs.toml",
        "--listen=127.0.0.1:0",
        "--data-dir=data",
        "--json",
    ]);
    command.args(["--log", format]).env("LONGHAUL_LOG", level);
    command
        .current_dir(folder.path())
        .stderr(fs::File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    let ready = report(&mut child);
    while_served(ready["url"].as_str().unwrap(), &child);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    fs::read_to_string(log).unwrap()
}

/// A `longhaul` that is waiting for a task.
pub(crate) struct Waiting {
    pub(crate) child: Child,
    pub(crate) notes: BufReader<ChildStderr>,
    pub(crate) id: String,
}

impl Waiting {
    pub(crate) fn new(mut child: Child) -> Self {
        let notes = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            notes,
            id: String::new(),
        }
    }

    /// Reads notes up to one that holds `text`.
    pub(crate) fn line_with(&mut self, text: &str) -> String {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            let read = self.notes.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "ended without a note of {text:?}");
        }
        line
    }

    pub(crate) fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// Exit status, standard output, and the notes not yet read.
    pub(crate) fn finish(mut self) -> (i32, String, String) {
        let (mut data, mut notes) = (String::new(), String::new());
        self.notes.read_to_string(&mut notes).unwrap();
        self.child.stdout.take().unwrap().read_to_string(&mut data).unwrap();
        (self.child.wait().unwrap().code().unwrap(), data, notes)
    }
}

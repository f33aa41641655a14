//! The commands as a user meets them: the real binary, a real server, real commands.
#![cfg(unix)]
#![allow(clippy::unwrap_used, missing_docs)]

use longhaul_schemas::CheckingProxy;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, ChildStderr, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};
use tempfile::TempDir;

const JOBS: &str = r#"
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
const HELD: &str = r#"
[[tool]]
name = "held"
description = "like `gate`, but waited for; says in the file `told` when it is asked to stop"
command = ["sh", "-c", "trap 'echo > told; exit 1' TERM; echo > held; while [ -e jobs.toml ] && [ ! -e gate ]; do sleep 0.02; done; echo through"]
task = "never"
"#;

/// Prints its argument as JSON.
const PRINT: &str = r#"
[[tool]]
name = "print"
description = "prints JSON"
command = ["printf", "%s", "{text}"]
input = { text = { type = "string" } }
output = "json"
task = "always"
"#;

/// The built binary.
fn longhaul(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run(words: &[&str]) -> Output {
    longhaul(words).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn exit(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn json(output: &Output) -> Value {
    assert_eq!(stdout(output).lines().count(), 1, "{output:?}");
    serde_json::from_str(stdout(output)).unwrap()
}

/// A server of [`JOBS`] in a folder of its own; it dies with this value.
struct Served {
    folder: TempDir,
    child: Child,
    address: SocketAddr,
    /// What clients speak to: the server, through the proxy.
    url: String,
    /// Hears what the server says, to the last word.
    _proxy: CheckingProxy,
}

impl Served {
    fn start() -> Self {
        Self::start_with("")
    }

    /// With more tools than [`JOBS`].
    fn start_with(tools: &str) -> Self {
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

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// After [`kill`](Self::kill): at the same address, on the same data.
    fn restart(&mut self) {
        (self.child, _) = serve(self.folder.path(), &self.address.to_string());
    }

    /// Lets `gate` end.
    fn open_gate(&self) {
        fs::write(self.folder.path().join("gate"), "").unwrap();
    }

    #[cfg(target_os = "linux")]
    fn database(&self) -> std::path::PathBuf {
        self.folder.path().join("data/longhaul.db")
    }

    /// Limits the size of each file the server writes, in bytes, and returns the limit there was.
    #[cfg(target_os = "linux")]
    fn limit_file_size(&self, bytes: Option<u64>) -> Option<u64> {
        use rustix::process::{Resource, Rlimit, prlimit};
        let limit = Rlimit {
            current: bytes,
            maximum: None,
        };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Fsize, limit)
            .unwrap()
            .current
    }

    fn ask_to_stop(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// Begins a call of `held` and waits until its command runs.
    fn hold(&self) -> Child {
        let call = longhaul(&["call", &self.url, "held"]).spawn().unwrap();
        self.sees("held");
        call
    }

    /// Waits until a command has made this file.
    fn sees(&self, file: &str) {
        while !self.folder.path().join(file).exists() {
            thread::yield_now();
        }
    }

    /// Calls `echo` without a task on a connection that stays; what is answered, up to where its body begins.
    fn post_echo(&self) -> (TcpStream, String) {
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
    fn begin(&self, more: &[&str]) -> Waiting {
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

fn serve(folder: &Path, listen: &str) -> (Child, SocketAddr) {
    let (file, data) = (folder.join("jobs.toml"), folder.join("data"));
    let words = [
        "serve",
        file.to_str().unwrap(),
        "--listen",
        listen,
        "--data-dir",
        data.to_str().unwrap(),
        "--json",
    ];
    let mut child = longhaul(&words).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    let url = ready["url"].as_str().unwrap();
    let address = url.strip_prefix("http://").and_then(|url| url.strip_suffix("/mcp"));
    (child, address.unwrap().parse().unwrap())
}

/// What a server with `LONGHAUL_LOG` says on standard error, from its first line to its last; a file takes it, so that nobody has to read.
fn logged(level: &str, while_served: impl FnOnce(&str, &Child)) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("jobs.toml"), JOBS).unwrap();
    fs::write(folder.path().join("gate"), "").unwrap();
    let log = folder.path().join("log");
    let words = [
        "serve",
        folder.path().join("jobs.toml").to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        folder.path().join("data").to_str().unwrap(),
        "--json",
    ]
    .map(str::to_owned);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut child = longhaul(&words)
        .env("LONGHAUL_LOG", level)
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    while_served(ready["url"].as_str().unwrap(), &child);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    fs::read_to_string(log).unwrap()
}

/// The life of each task is told at `info`, requests and plain calls at `debug`, and at no level a whole id or an argument.
#[test]
fn the_log_tells_of_each_task_and_keeps_its_id() {
    let mut ids = Vec::new();
    let mut work = |url: &str| {
        for code in ["0", "3"] {
            let call = run(&["call", url, "gate", &format!("code={code}")]);
            let id = stderr(&call).split_whitespace().nth(1).unwrap().to_owned();
            assert!(run(&["task", url, &id, "--log"]).status.success());
            ids.push(id);
        }
        assert_eq!(exit(&run(&["call", url, "echo", "words=s3cret"])), 0);
    };
    let trace = logged("trace", |url, _| work(url));
    let info = logged("info", |url, _| work(url));
    let warn = logged("", |url, _| work(url));
    let about = |log: &str, id: &str| -> Vec<String> {
        let lines = log
            .lines()
            .filter(|line| line.contains(&id[..14]) && line.contains(" INFO "));
        lines.map(str::to_owned).collect()
    };
    for (log, ids) in [(&trace, &ids[..2]), (&info, &ids[2..4])] {
        for (id, outcome) in ids.iter().zip(["succeeded", "tool error"]) {
            let lines = about(log, id);
            let told = ["created", "attempt started", "ended"];
            assert_eq!(lines.len(), told.len(), "{lines:#?}");
            for (line, told) in lines.iter().zip(told) {
                assert!(
                    line.contains(told) && line.contains("gate") && line.contains("principal"),
                    "{told}: {line}"
                );
            }
            assert!(
                lines[2].contains(outcome) && lines[2].contains("duration_ms"),
                "{}",
                lines[2]
            );
        }
    }
    assert!(trace.contains("request") && trace.contains("tools/call") && trace.contains("echo"));
    assert!(!info.contains("tools/call") && !info.contains("echo"), "{info}");
    assert!(!warn.contains(" INFO ") && !warn.contains("gate"), "{warn}");
    for log in [&trace, &info, &warn] {
        assert!(ids.iter().all(|id| !log.contains(&**id)), "a whole id: {log}");
        assert!(!log.contains("s3cret"), "{log}");
    }
}

/// A command keeps no journal: its history is its attempts, and how each has ended.
#[test]
fn the_history_of_a_command_is_its_attempts() {
    let retried = r#"
[[tool]]
name = "third_time"
description = "succeeds when it is run for the third time"
command = ["sh", "-c", "echo x >> tries; case $(wc -l < tries) in *1) exit 7;; *2) kill -9 $$;; esac"]
task = "always"
retry = { attempts = 3, backoff = "1ms", on = ["crash", "error"] }
"#;
    let served = Served::start_with(retried);
    let call = run(&["call", &served.url, "third_time"]);
    assert_eq!(exit(&call), 0, "{}", stderr(&call));
    let id = stderr(&call).split_whitespace().nth(1).unwrap().to_owned();
    let shown = run(&["task", &served.url, &id, "--history"]);
    let text = stdout(&shown);
    for told in [
        "attempt 1  failed in",
        "exit code 7",
        "attempt 2  failed in",
        "killed by signal",
        "attempt 3  done in",
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
    let entries = json(&run(&["task", &served.url, &id, "--history", "--json"]))["entries"].clone();
    assert_eq!(entries[0]["exit"], serde_json::json!({"code": 7}));
    assert_eq!(entries[2]["exit"], serde_json::json!({"code": 0}));
    assert_eq!(entries.as_array().unwrap().len(), 3);
}

#[test]
fn a_log_filter_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.toml");
    fs::write(&file, JOBS).unwrap();
    for command in ["serve", "stdio"] {
        let refused = longhaul(&[
            command,
            file.to_str().unwrap(),
            "--data-dir",
            folder.path().join("data").to_str().unwrap(),
        ])
        .env("LONGHAUL_LOG", "inof")
        .output()
        .unwrap();
        assert_eq!(exit(&refused), 2, "{command}");
        assert!(
            stderr(&refused).contains("LONGHAUL_LOG is not a log filter: `inof` is not a level; did you mean `info`?")
        );
        assert!(!folder.path().join("data").exists());
    }
}

#[test]
fn a_hangup_ends_no_server() {
    let log = logged("warn", |url, server| {
        kill_process(Pid::from_child(server), Signal::HUP).unwrap();
        assert_eq!(exit(&run(&["call", url, "echo", "words=still"])), 0);
    });
    assert!(
        log.contains("SIGHUP ignored: the configuration is not reloaded"),
        "{log}"
    );
}

/// A `longhaul` that is waiting for a task.
struct Waiting {
    child: Child,
    notes: BufReader<ChildStderr>,
    id: String,
}

impl Waiting {
    fn new(mut child: Child) -> Self {
        let notes = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            notes,
            id: String::new(),
        }
    }

    /// Reads notes up to one that holds `text`.
    fn line_with(&mut self, text: &str) -> String {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert_ne!(
                self.notes.read_line(&mut line).unwrap(),
                0,
                "ended without a note of {text:?}"
            );
        }
        line
    }

    fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// Exit status, standard output, and the notes not yet read.
    fn finish(mut self) -> (i32, String, String) {
        let (mut data, mut notes) = (String::new(), String::new());
        self.notes.read_to_string(&mut notes).unwrap();
        self.child.stdout.take().unwrap().read_to_string(&mut data).unwrap();
        (self.child.wait().unwrap().code().unwrap(), data, notes)
    }
}

#[test]
fn results_go_to_standard_output_and_say_by_exit_status_what_they_are() {
    let served = Served::start();
    served.open_gate();
    let url = served.url.as_str();

    let echo = run(&["call", url, "echo", "words=a b", "words=c"]);
    assert_eq!((exit(&echo), stdout(&echo), stderr(&echo)), (0, "a b c\n", ""));
    let through = run(&["call", url, "gate", "code=0"]);
    assert_eq!((exit(&through), stdout(&through)), (0, "through\n"));
    let failed = run(&["call", url, "gate", "code=3"]);
    assert_eq!(exit(&failed), 1);
    assert!(stdout(&failed).contains("code 3"), "{failed:?}");

    let whole = run(&["call", url, "echo", "words:=[\"x\"]", "--json"]);
    assert_eq!(
        (exit(&whole), &json(&whole)["content"][0]["text"]),
        (0, &Value::from("x\n"))
    );
}

/// Clients read all that a task may end with; what they could not read is an error of the tool.
#[test]
fn json_output_that_no_client_could_read_is_a_tool_error() {
    let served = Served::start_with(PRINT);
    let url = served.url.as_str();
    let nested = |levels: usize| format!("text={}{}", "[".repeat(levels), "]".repeat(levels));

    let deepest = run(&["call", url, "print", &nested(97), "--json"]);
    assert_eq!(exit(&deepest), 0, "{deepest:?}");
    let structured = json(&deepest)["structuredContent"].to_string();
    assert_eq!(format!("text={structured}"), nested(97));

    for (text, problem) in [
        (nested(98).as_str(), "nested deeper than 97 levels"),
        (r#"text={"a":"x\udc00y"}"#, "surrogate"),
        (r#"text={"a":1e999}"#, "out of range at line 1 column 10"),
    ] {
        let refused = run(&["call", url, "print", text]);
        assert_eq!(exit(&refused), 1, "{refused:?}");
        assert!(stdout(&refused).contains(problem), "{refused:?}");
    }
}

#[test]
fn mistakes_are_told_apart_by_exit_status() {
    let served = Served::start();
    let url = served.url.as_str();
    let cases: [(&[&str], i32, &str); 9] = [
        (&["call", url, "ech"], 2, "did you mean `echo`?"),
        (&["call", url, "echo"], 2, "missing `words` (what to say)"),
        (&["call", url, "echo", "word=x"], 2, "did you mean `words`?"),
        (&["call", url, "gate", "code=x"], 2, "`code` takes a whole number"),
        (
            &["call", "https://localhost/mcp", "echo"],
            2,
            "https is not supported yet",
        ),
        (&["call", "http://127.0.0.1:1/mcp", "echo"], 3, "cannot be reached"),
        (&["task", "http://127.0.0.1:1/mcp", "x"], 3, "cannot be reached"),
        (&["task", url, "nosuch"], 5, "Task not found"),
        (&["task", url, "nosuch", "--wait", "--cancel"], 2, "cannot be used with"),
    ];
    for (words, status, message) in cases {
        let output = run(words);
        assert_eq!(exit(&output), status, "{words:?}: {output:?}");
        assert!(stderr(&output).contains(message), "{words:?}: {output:?}");
        assert_eq!(stdout(&output), "", "{words:?}");
    }
    let unknown = run(&["task", url, "nosuch", "--json"]);
    assert_eq!(json(&unknown)["error"]["code"], -32602);
}

#[test]
fn ctrl_c_leaves_the_task_running_and_says_how_to_get_back() {
    let served = Served::start();
    let call = served.begin(&["--json"]);
    let id = call.id.clone();
    call.interrupt();
    let (status, data, notes) = call.finish();
    assert_eq!(status, 130);
    assert_eq!(serde_json::from_str::<Value>(&data).unwrap()["taskId"], id.as_str());
    let way_back = notes.lines().last().unwrap().trim();
    assert_eq!(way_back, format!("longhaul task {} {id} --wait", served.url));

    let shown = run(&["task", &served.url, &id, "--json"]);
    assert_eq!((exit(&shown), &json(&shown)["status"]), (0, &Value::from("working")));
    served.open_gate();
    let words: Vec<&str> = way_back.split(' ').skip(1).collect();
    let waited = run(&words);
    assert_eq!((exit(&waited), stdout(&waited)), (0, "through\n"));
    let shown = run(&["task", &served.url, &id]);
    assert!(stdout(&shown).contains("completed"), "{shown:?}");
    let log = run(&["task", &served.url, &id, "--log"]);
    assert_eq!((exit(&log), stdout(&log)), (0, "through\n"));
    let history = run(&["task", &served.url, &id, "--history", "--json"]);
    let entries = &json(&history)["entries"];
    assert_eq!(
        (exit(&history), entries.as_array().map(Vec::len), &entries[0]["exit"]),
        (0, Some(1), &serde_json::json!({"code": 0})),
        "its one attempt: {entries}"
    );
    let unknown = run(&["task", &served.url, "nobody", "--history"]);
    assert_eq!(exit(&unknown), 5, "{unknown:?}");
}

#[test]
fn a_wait_outlives_the_killed_server() {
    let mut served = Served::start();
    let mut call = served.begin(&[]);
    served.kill();
    call.line_with("cannot be reached");
    served.restart();
    call.line_with("answers again");
    served.open_gate();
    let (status, data, _) = call.finish();
    assert_eq!((status, data.as_str()), (0, "through\n"));
}

#[test]
fn a_cancelled_task_ends_the_wait() {
    let served = Served::start();
    let call = served.begin(&[]);
    let cancelled = run(&["task", &served.url, &call.id, "--cancel"]);
    assert_eq!(exit(&cancelled), 0);
    let (status, data, _) = call.finish();
    assert_eq!((status, data.as_str()), (4, ""));
}

#[test]
fn check_says_what_would_be_served_or_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.toml");
    let path = file.to_str().unwrap();
    fs::write(&file, JOBS).unwrap();
    let good = run(&["check", path]);
    assert_eq!(exit(&good), 0);
    assert!(stdout(&good).contains("  gate  ends when somebody"), "{good:?}");
    let good = run(&["check", path, "--json"]);
    assert_eq!(
        (&json(&good)["ok"], &json(&good)["tools"][0]["name"]),
        (&Value::from(true), &Value::from("echo"))
    );

    fs::write(&file, JOBS.replace("task = \"never\"", "tsk = \"never\"")).unwrap();
    for command in ["check", "serve"] {
        let bad = run(&[command, path]);
        assert_eq!((exit(&bad), stdout(&bad)), (2, ""), "{command}");
        assert_eq!(
            stderr(&bad),
            format!("{path}:10: unknown key `tsk` in [[tool]] `echo`; did you mean `task`?\n")
        );
    }
    let bad = run(&["check", path, "--json"]);
    assert_eq!((exit(&bad), &json(&bad)["problems"][0]["line"]), (2, &Value::from(10)));
}

/// S-06: what the file says holds in the engine, which counts tasks, and in the front, which counts the rest.
#[test]
fn the_limits_of_the_file_are_kept() {
    let served = Served::start_with("[server.limits]\nlive_tasks = 1\nconnections = 2\n");
    let waiting = served.begin(&[]);
    let (_connection, refused) = served.post_echo();
    assert!(
        refused.starts_with("HTTP/1.1 429 ") && refused.contains("retry-after: 10"),
        "{refused}"
    );
    // Both connections are taken now, this one's and the one that waits for the task.
    let (_, refused) = served.post_echo();
    assert!(
        refused.starts_with("HTTP/1.1 429 ") && refused.contains("retry-after: 5"),
        "{refused}"
    );
    served.open_gate();
    assert_eq!(waiting.finish().0, 0);
    assert_eq!(exit(&run(&["call", &served.url, "echo", "words=x"])), 0);
}

/// A limit on file sizes stands for a full disk: the server's own files cannot grow any more.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_refuses_calls_and_loses_no_task() {
    let served = Served::start();
    let waiting = served.begin(&[]);
    let words = format!("words={}", "x".repeat(64 * 1024));
    let call = || run(&["call", &served.url, "echo", &words]);
    assert_eq!(exit(&call()), 0);

    let unlimited = served.limit_file_size(Some(fs::metadata(served.database()).unwrap().len() + (1 << 20)));
    thread::scope(|scope| {
        // A call that was written and whose end finds no room waits for it, so each has a thread of its own; the next one is refused.
        let (done, calls) = mpsc::channel();
        let refused = loop {
            let done = done.clone();
            scope.spawn(move || done.send(call()));
            match calls.recv_timeout(Duration::from_secs(2)) {
                Ok(call) if exit(&call) != 0 => break call,
                _ => {}
            }
        };
        assert_eq!(exit(&refused), 5, "{refused:?}");
        assert!(stderr(&refused).contains("no room to write"), "{refused:?}");
        let look = run(&["task", &served.url, &waiting.id]);
        assert!(stdout(&look).contains("working"), "reading goes on: {look:?}");

        served.open_gate();
        served.limit_file_size(unlimited);
    });
    let (code, data, _) = waiting.finish();
    assert_eq!(
        (code, data.as_str()),
        (0, "through\n"),
        "the outcome was kept until there was room"
    );
    assert_eq!(exit(&call()), 0);
}

#[test]
fn a_call_that_is_open_when_the_server_is_asked_to_stop_may_end() {
    let served = Served::start_with(HELD);
    let call = served.hold();
    served.ask_to_stop();
    served.open_gate();
    let call = call.wait_with_output().unwrap();
    assert_eq!((exit(&call), stdout(&call)), (0, "through\n"));
}

/// Nobody could ask for its result any more.
#[test]
fn the_command_of_a_call_that_does_not_end_in_time_is_told_before_the_server_goes() {
    let mut served = Served::start_with(HELD);
    let call = served.hold();
    served.ask_to_stop();
    let call = call.wait_with_output().unwrap();
    assert_eq!(exit(&call), 5, "{call:?}");
    served.child.wait().unwrap();
    // Told while the server was there, it may still be busy with following.
    served.sees("told");
}

//! An example as a process, called by a modern client over standard input and output.

use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// The command of an example.
pub(super) fn program(example: &str) -> Command {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().with_file_name("examples").join(example);
    assert!(
        program.exists(),
        "{} has not been built: cargo build -p longhaul --examples",
        program.display()
    );
    Command::new(program)
}

/// A program that is killed when the test is over.
pub(super) struct Running(pub(super) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first line that a program prints.
pub(super) fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    line.trim().to_owned()
}

/// What a GET of this URL is answered with.
pub(super) async fn get(url: String) -> String {
    // An error says that the process has a crypto provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::get(url).await.unwrap().text().await.unwrap()
}

/// A server on standard input and output.
pub(super) struct Server {
    /// Dropping this kills it, as does the end of the test.
    _running: Running,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    last_id: u64,
}

impl Server {
    pub(super) fn start(mut program: Command, data: &Path) -> Self {
        program.args(["--stdio", "--data-dir"]).arg(data);
        let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        Self {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            _running: Running(child),
            last_id: 0,
        }
    }

    /// `kill -9`.
    pub(super) fn kill(self) {}

    /// The result of a request.
    pub(super) fn request(&mut self, method: &str, mut params: Value) -> Value {
        self.last_id += 1;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities":
                {"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        let request = json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        writeln!(self.stdin, "{request}").unwrap();
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the server has exited");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == self.last_id {
                assert!(message.get("error").is_none(), "{message}");
                return message["result"].clone();
            }
        }
    }

    /// Calls a tool; returns the id of its task.
    pub(super) fn call(&mut self, tool: &str, arguments: Value) -> String {
        let created = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        created["taskId"]
            .as_str()
            .unwrap_or_else(|| panic!("no task: {created}"))
            .to_owned()
    }

    /// Polls a task until the condition holds. The task must not end before that.
    pub(super) fn until(&mut self, task: &str, condition: impl Fn(&Value) -> bool) -> Value {
        loop {
            let state = self.request("tasks/get", json!({"taskId": task}));
            if condition(&state) {
                return state;
            }
            assert!(!is_over(&state), "{state}");
            std::thread::yield_now();
        }
    }

    /// The result of a task.
    pub(super) fn result(&mut self, task: &str) -> Value {
        let state = self.until(task, is_over);
        assert_eq!(state["status"], "completed", "{state}");
        state["result"].clone()
    }

    /// Waits for a task's question and accepts it with this content.
    pub(super) fn accept(&mut self, task: &str, content: &Value) {
        let state = self.until(task, |state| state["status"] == "input_required");
        let questions = state["inputRequests"].as_object().unwrap();
        let answers: serde_json::Map<String, Value> = questions
            .keys()
            .map(|key| (key.clone(), json!({"action": "accept", "content": content})))
            .collect();
        self.request("tasks/update", json!({"taskId": task, "inputResponses": answers}));
    }
}

fn is_over(state: &Value) -> bool {
    !matches!(state["status"].as_str(), Some("working" | "input_required"))
}

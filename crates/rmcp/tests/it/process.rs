//! An example as a process, called by a modern client over standard input and output.

use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

pub(crate) struct Process {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
}

impl Process {
    pub(crate) fn start(example: &str, arguments: &[&str], directory: &Path) -> Self {
        let tests = std::env::current_exe().unwrap();
        let program = tests.parent().unwrap().with_file_name("examples").join(example);
        let mut child = Command::new(&program)
            .args(arguments)
            .arg("--data-dir")
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        Self {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            next_id: 1,
        }
    }

    /// Sends a request and returns the result. Panics on an error.
    pub(crate) fn request(&mut self, method: &str, mut params: Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities":
                {"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        writeln!(
            self.stdin,
            "{}",
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        )
        .unwrap();
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the server has exited");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                assert!(message.get("error").is_none(), "{message}");
                return message["result"].clone();
            }
        }
    }

    /// Calls a tool; returns the id of its task.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> String {
        let created = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        created["taskId"]
            .as_str()
            .unwrap_or_else(|| panic!("no task: {created}"))
            .to_owned()
    }

    /// Polls a task until the condition holds.
    pub(crate) fn until(&mut self, task: &str, condition: impl Fn(&Value) -> bool) -> Value {
        loop {
            let state = self.request("tasks/get", json!({"taskId": task}));
            if condition(&state) {
                return state;
            }
            std::thread::yield_now();
        }
    }

    pub(crate) fn ended(&mut self, task: &str) -> Value {
        self.until(task, |state| {
            !matches!(state["status"].as_str(), Some("working" | "input_required"))
        })
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

//! A server to attack, in a folder of its own: `data/`, `files/` for files of commands, `attack.toml`, `server.log`, `shim`.

use harness::{
    clock,
    mcp::{CallOutcome, Client, ClientEra, RequestError, TaskState},
    rounds::RunError,
    server::{self, Server, ServerError},
    shim::Shim,
};
use serde_json::json;
use std::{fs, net::SocketAddr, path::PathBuf, process::Command, time::Duration};

/// How long a normal client waits for its task.
pub(super) const CLIENT_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a server that refuses to start may take to say so.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(20);

/// The options that all attacks share.
pub(super) struct Programs {
    pub(super) server: PathBuf,
    pub(super) shim: PathBuf,
    pub(super) root: PathBuf,
    pub(super) seed: u64,
    pub(super) random: u32,
}

/// A server and its folder.
pub(super) struct AttackSite {
    root: PathBuf,
    program: PathBuf,
    library: PathBuf,
    pub(super) shim: Shim,
    server: Option<Server>,
    address: SocketAddr,
}

/// The tools of every server, after its `[server]` table.
const TOOLS: &str = r#"
[[tool]]
name = "say"
task = "optional"
description = "Prints a text"
command = ["printf", "%s", "{text}"]
input = { text = { type = "string" } }
max_output = "1MiB"

[[tool]]
name = "number"
task = "optional"
description = "Prints a number"
command = ["printf", "%s", "{n}"]
input = { n = { type = "number", minimum = 0, maximum = 100 } }

[[tool]]
name = "integer"
task = "optional"
description = "Prints an integer"
command = ["printf", "%s", "{n}"]
input = { n = { type = "integer", minimum = 0, maximum = 100 } }

[[tool]]
name = "letters"
task = "optional"
description = "Prints many letters"
command = ["sh", "-c", "head -c \"$1\" /dev/zero | tr '\\0' x", "sh", "{bytes}"]
input = { bytes = { type = "integer", minimum = 0 } }
max_output = "8MiB"

[[tool]]
name = "once"
task = "optional"
description = "Appends a line to a file, waits, prints"
command = ["sh", "-c", "echo run >> \"$1\"; sleep \"$2\"; printf over", "sh", "{file}", "{seconds}"]
input = { file = { type = "string" }, seconds = { type = "number", minimum = 0 } }

[[tool]]
name = "queued"
task = "optional"
description = "Runs one at a time"
command = ["sleep", "{seconds}"]
input = { seconds = { type = "number", minimum = 0 } }
concurrency = 1

[[tool]]
name = "retried"
task = "optional"
description = "Fails once"
command = ["sh", "-c", "test -e \"$1\" || ! touch \"$1\"", "sh", "{file}"]
input = { file = { type = "string" } }
retry = { attempts = 3, backoff = "1s", on = ["error"] }
"#;

impl AttackSite {
    /// Starts a server in a new folder. `settings` are lines of `[server]` and of its tables.
    pub(super) fn start(programs: &Programs, name: &str, settings: &str) -> Result<Self, RunError> {
        let mut site = Self::prepare(programs, name, settings)?;
        site.serve(&[])?;
        Ok(site)
    }

    /// Prepares the folder without starting a server.
    pub(super) fn prepare(programs: &Programs, name: &str, settings: &str) -> Result<Self, RunError> {
        let root = programs.root.join(name);
        fs::create_dir_all(root.join("files"))?;
        let configuration =
            format!("[server]\nname = \"attack\"\nlisten = \"127.0.0.1:0\"\ndata_dir = \"data\"\n{settings}\n{TOOLS}");
        fs::write(root.join("attack.toml"), configuration)?;
        Ok(Self {
            shim: Shim::create(&root.join("shim"))?,
            root,
            program: programs.server.clone(),
            library: programs.shim.clone(),
            server: None,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        })
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = server::serve(&self.program, &self.root.join("attack.toml"));
        command
            .args(flags)
            .env("LD_PRELOAD", &self.library)
            .env("LONGHAUL_SHIM", self.shim.path());
        command
    }

    /// Starts the server again, after [`Self::kill`] or for the first time.
    pub(super) fn serve(&mut self, flags: &[&str]) -> Result<(), ServerError> {
        let mut server = Server::start(&mut self.command(flags), &self.root.join("server.log"))?;
        self.address = server.ready()?;
        self.server = Some(server);
        Ok(())
    }

    /// Starts a server that must refuse to serve. Returns its output; `None` if it serves.
    pub(super) fn refused(&self, flags: &[&str]) -> Result<Option<String>, RunError> {
        let log = self.root.join("refused.log");
        let mut server = Server::start(&mut self.command(flags), &log)?;
        let status = server.wait(REFUSAL_TIMEOUT).ok();
        let output = fs::read_to_string(&log)?;
        Ok(status.filter(|status| !status.success()).map(|_| output))
    }

    /// Starts the server, which may refuse if its log says why. Returns whether it serves.
    pub(super) fn refused_or_serve(&mut self) -> Result<bool, String> {
        match self.serve(&[]) {
            Ok(()) => Ok(true),
            Err(ServerError::Ended { status, .. }) if status.code().is_some_and(|code| code != 101) => {
                if self.log().trim().is_empty() {
                    return Err("it ended and logged nothing".to_owned());
                }
                Ok(false)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    pub(super) fn kill(&mut self) -> Result<(), ServerError> {
        match self.server.take() {
            Some(mut server) => server.kill(),
            None => Ok(()),
        }
    }

    /// Whether the process lives.
    pub(super) fn lives(&mut self) -> bool {
        self.server.as_mut().is_some_and(Server::lives)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// All attempt folders.
    pub(super) fn attempts(&self) -> Vec<PathBuf> {
        let folders = |folder: PathBuf| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(|path| path.is_dir())
        };
        folders(self.data().join("attempts")).flat_map(folders).collect()
    }

    /// The path of a file for commands.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.root.join("files").join(name)
    }

    /// How many lines commands have appended to a file.
    pub(super) fn lines(&self, name: &str) -> usize {
        fs::read_to_string(self.file(name)).map_or(0, |text| text.lines().count())
    }

    pub(super) fn log(&self) -> String {
        let log = fs::read(self.root.join("server.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// The anonymous memory of the server's process, in bytes.
    pub(super) fn resident(&self) -> u64 {
        let memory = self.server.as_ref().map(|server| server.memory("RssAnon"));
        memory.and_then(Result::ok).unwrap_or_default()
    }

    pub(super) fn client(&self, era: ClientEra) -> Client {
        Client::new(era, self.address)
    }

    /// Checks that a client of each era can create a task and get its result.
    pub(super) fn serves_clients(&mut self) -> Result<(), String> {
        if !self.lives() {
            return Err(format!(
                "the server is gone; see {}",
                self.root.join("server.log").display()
            ));
        }
        for era in [ClientEra::Modern, ClientEra::Legacy] {
            let mut client = self.client(era);
            let outcome = || -> Result<CallOutcome, RequestError> {
                let task = client.create("say", json!({"text": "normal"}))?;
                end_of(&mut client, &task)
            }();
            match outcome {
                Ok(CallOutcome::Result { is_error: false, text }) if text == "normal" => {}
                Ok(outcome) => return Err(format!("a normal {} call ended as {outcome:?}", era.name())),
                Err(error) => return Err(format!("a normal {} call was not served: {error}", era.name())),
            }
        }
        Ok(())
    }
}

/// Waits for the end of a task.
pub(super) fn end_of(client: &mut Client, task: &str) -> Result<CallOutcome, RequestError> {
    let ended = clock::wait_for(CLIENT_TIMEOUT, || match client.get(task) {
        Ok(TaskState::Live) => {
            clock::pause(Duration::from_millis(20));
            None
        }
        Ok(TaskState::Asks(_)) => Some(Err(RequestError::Invalid("a command that asks".to_owned()))),
        Ok(TaskState::EndedStatus(_)) => Some(client.result(task)),
        Ok(TaskState::Ended(outcome)) => Some(Ok(outcome)),
        Err(error) => Some(Err(error)),
    });
    ended.unwrap_or_else(|| {
        Err(RequestError::Invalid(format!(
            "not over within {} s",
            CLIENT_TIMEOUT.as_secs()
        )))
    })
}

//! What a server is recorded as.

use super::{Command, Endpoint, NamedBy, Server, config::ConfiguredServers, masked::masked};
use http::HeaderMap;
use longhaul_client::{EraChoice, RecordedCall};
use longhaul_core::masked_words;
use longhaul_gateway::ToolSelection;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    env,
    path::{Path, PathBuf},
};

/// A child process, as it is recorded: in another folder the same command may be another server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RecordedCommand {
    command: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
}

impl RecordedCommand {
    /// `None` if a URL is recorded.
    fn read(recorded: &str) -> Option<Self> {
        // Earlier versions recorded no folder.
        let line = serde_json::from_str(recorded).map(|command| Self { command, cwd: None });
        line.or_else(|_| serde_json::from_str(recorded)).ok()
    }

    fn masked(self) -> Self {
        Self {
            command: masked_words(&self.command),
            ..self
        }
    }

    fn of(command: &Command) -> Self {
        let folder = match &command.cwd {
            Some(folder) => std::path::absolute(folder),
            None => env::current_dir(),
        };
        Self {
            command: command.line().cloned().collect(),
            cwd: folder
                .ok()
                .and_then(|folder| folder.into_os_string().into_string().ok()),
        }
    }
}

impl Command {
    fn line(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.program).chain(&self.args)
    }

    /// The command that is recorded, in its folder. `None` if a URL is recorded.
    pub(super) fn recorded(recorded: &str) -> Option<Self> {
        let recorded = RecordedCommand::read(recorded)?;
        let mut line = recorded.command.into_iter();
        Some(Self {
            program: line.next().unwrap_or_default(),
            args: line.collect(),
            env: Vec::new(),
            cwd: recorded.cwd.map(PathBuf::from),
        })
    }

    /// Whether it is started in the current folder. That of an earlier version may have been another one.
    pub(super) fn is_here(&self) -> bool {
        self.cwd
            .as_ref()
            .is_none_or(|folder| env::current_dir().is_ok_and(|current| current == *folder))
    }
}

/// The server that a recorded call went to: that of its name, which also has an environment and a folder, unless the name is another server's now.
pub(crate) fn recorded(call: &RecordedCall) -> Server {
    recorded_in(None, call)
}

/// The same, also if its name is in this file of another client.
pub(super) fn recorded_in(mcp_config: Option<&Path>, call: &RecordedCall) -> Server {
    let named = call.server_name.as_ref().and_then(|name| {
        let words = (vec!["-s".to_owned(), name.clone()], Vec::new());
        let server = ConfiguredServers::load(mcp_config).ok()?.server(name, words).ok()?;
        Some(server.of_file(mcp_config))
    });
    match named.filter(|named| named.is_recorded_as(&call.server)) {
        Some(named) => Server {
            named_by: NamedBy::Nothing,
            ..named
        }
        .in_folder_of(&call.server),
        None => unnamed(call),
    }
}

/// A recorded server as JSON: its URL, or the words of its command line, without the secrets in them.
pub(crate) fn as_json(recorded: &str) -> Value {
    match RecordedCommand::read(recorded) {
        Some(recorded) => recorded.masked().command.into(),
        None => masked(recorded).into(),
    }
}

/// What is recorded of a server that is configured under a name: its configuration has the secrets that are needed to connect to it again.
fn without_secrets(recorded: &str) -> String {
    match RecordedCommand::read(recorded) {
        Some(recorded) => serde_json::to_string(&recorded.masked()).unwrap_or_default(),
        None => masked(recorded),
    }
}

/// The folder in which a recorded server is started, if it is a child process.
pub(crate) fn recorded_folder(recorded: &str) -> Option<String> {
    RecordedCommand::read(recorded)?.cwd
}

fn unnamed(call: &RecordedCall) -> Server {
    let (endpoint, words) = match Command::recorded(&call.server) {
        Some(command) => {
            let words = match command.config_file() {
                Some(file) => (vec![file.to_owned()], Vec::new()),
                // From another folder the id of a recorded task says where to start it.
                None if !command.is_here() => (Vec::new(), Vec::new()),
                None => {
                    let behind = std::iter::once("--".to_owned()).chain(command.line().cloned());
                    (Vec::new(), behind.collect())
                }
            };
            (Endpoint::Child(command), words)
        }
        None => {
            let words = (vec!["-s".to_owned(), call.server.clone()], Vec::new());
            (Endpoint::Http(call.server.clone()), words)
        }
    };
    Server {
        endpoint,
        headers: HeaderMap::new(),
        tools: ToolSelection::default(),
        uid: None,
        era: EraChoice::Auto,
        given_era: None,
        name: call.server_name.clone(),
        mcp_config: None,
        named_by: NamedBy::Nothing,
        words,
    }
}

impl Server {
    /// As it is recorded: its URL, or its command line and its folder as JSON. Without a name nothing else says how to connect to it again, so the secrets in it
    /// are recorded, too.
    pub(crate) fn recorded(&self) -> String {
        let recorded = match &self.endpoint {
            Endpoint::Http(url) => url.clone(),
            Endpoint::Wrong(_) => String::new(),
            // Strings are always JSON.
            Endpoint::Child(command) => serde_json::to_string(&RecordedCommand::of(command)).unwrap_or_default(),
        };
        match self.name {
            Some(_) => without_secrets(&recorded),
            None => recorded,
        }
    }

    /// For `--json`: its URL, or the words of its command line.
    pub(crate) fn as_json(&self) -> Value {
        as_json(&self.recorded())
    }

    /// Whether this server was recorded as that. One that has a name and no folder of its own is the same in all of them.
    pub(super) fn is_recorded_as(&self, recorded: &str) -> bool {
        let Endpoint::Child(command) = &self.endpoint else {
            // Earlier versions recorded the secrets, too.
            return self.recorded() == recorded || (self.name.is_some() && self.recorded() == masked(recorded));
        };
        let (mut own, Some(mut other)) = (RecordedCommand::of(command), RecordedCommand::read(recorded)) else {
            return false;
        };
        if self.name.is_some() {
            (own, other) = (own.masked(), other.masked());
        }
        let is_anywhere = (self.name.is_some() && command.cwd.is_none()) || other.cwd.is_none();
        own.command == other.command && (is_anywhere || own.cwd == other.cwd)
    }

    /// This server in the folder that is recorded, unless it has one of its own.
    pub(super) fn in_folder_of(mut self, recorded: &str) -> Self {
        if let Endpoint::Child(command) = &mut self.endpoint
            && command.cwd.is_none()
        {
            command.cwd = Command::recorded(recorded).and_then(|recorded| recorded.cwd);
        }
        self
    }
}

//! The command line.

use crate::tools::Tools;
use longhaul_client::{ChildOptions, ChildProcess, Connection, EraChoice, Options};
use std::path::PathBuf;

/// The command line.
#[derive(Clone)]
pub(crate) struct Arguments {
    pub(crate) tools: Tools,
    pub(crate) version: String,
    /// The steps; `None` for all.
    pub(crate) only: Option<Vec<String>>,
    pub(crate) start: Option<Start>,
    /// Where the started call is recorded, if it is.
    pub(crate) journal: Option<PathBuf>,
    server: Server,
    /// All of them, for another process.
    pub(crate) given: Vec<String>,
}

/// Which task another process starts.
#[derive(Clone, Copy)]
pub(crate) enum Start {
    Long,
    Asks,
    /// Two questions at once.
    AsksTwice,
}

impl Start {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Long => "long",
            Self::Asks => "asks",
            Self::AsksTwice => "asks-twice",
        }
    }
}

#[derive(Clone)]
enum Server {
    Url(String),
    Command(Vec<String>),
}

impl Arguments {
    pub(crate) fn read(given: impl Iterator<Item = String>) -> Result<Self, String> {
        let given: Vec<String> = given.collect();
        let mut words = given.clone().into_iter();
        let (mut tools, mut version, mut only, mut start) = (Tools::Fixture, "2026-07-28".to_owned(), None, None);
        let mut journal = None;
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            let server = match word.as_str() {
                "--tools" => {
                    tools = Tools::named(&value()?)?;
                    continue;
                }
                "--version" => {
                    version = value()?;
                    continue;
                }
                "--only" => {
                    only = Some(value()?.split(',').map(str::to_owned).collect());
                    continue;
                }
                "--start" => {
                    start = Some(match value()?.as_str() {
                        "long" => Start::Long,
                        "asks" => Start::Asks,
                        "asks-twice" => Start::AsksTwice,
                        other => return Err(format!("no task is named {other}")),
                    });
                    continue;
                }
                "--journal" => {
                    journal = Some(PathBuf::from(value()?));
                    continue;
                }
                "--url" => Server::Url(value()?),
                "--stdio" => Server::Command(words.collect()),
                _ => return Err(format!("unknown option {word}")),
            };
            return Ok(Self {
                tools,
                version,
                only,
                start,
                journal,
                server,
                given,
            });
        }
        Err("--url or --stdio is missing".to_owned())
    }

    /// A connection to the server, which is not opened yet.
    pub(crate) fn connection(&self, mut options: Options) -> Result<Connection, String> {
        if self.version == "2025-11-25" {
            options.era = EraChoice::Legacy;
        }
        match &self.server {
            Server::Url(url) => Connection::lazy(url, options).map_err(|error| error.to_string()),
            Server::Command(command) => {
                let (program, arguments) = command.split_first().ok_or("--stdio needs a program")?;
                let mut child = ChildOptions::new(program, arguments);
                child.show_stderr = true;
                Ok(Connection::over(ChildProcess::new(child), options))
            }
        }
    }
}

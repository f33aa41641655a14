//! Which server a client command speaks with.

mod choose;
mod config;
mod entry;
mod identity;
mod loopback;
mod masked;
pub(crate) mod notice;
mod plain_http;
mod tokens;
mod words;

pub(crate) use choose::{choose, configured_names};
pub(crate) use identity::{as_json, recorded, recorded_folder};
pub(crate) use loopback::is_on_this_machine;
pub(crate) use masked::masked;
pub(crate) use tokens::{tell_earlier_mode, tell_mode};
pub(crate) use words::{did_you_mean, nothing_more};

use crate::{
    args::EraArg,
    machine::listening_socket::{self, ListeningSocket},
    output::shell_word::shell_word,
};
use clap::ValueEnum;
use config::ConfiguredServers;
use http::{
    HeaderMap, HeaderValue,
    header::{AUTHORIZATION, InvalidHeaderValue},
};
use longhaul_client::{ChildOptions, ChildProcess, Connection, EraChoice, InvalidAddress, Options, RecordedCall};
use longhaul_core::masked_words;
use longhaul_gateway::ToolSelection;
use loopback::{LoopbackServer, OfAnotherUser};
use std::path::{Path, PathBuf};

/// The server of `longhaul serve` with the default address.
const DEFAULT_URL: &str = "http://127.0.0.1:7411/mcp";
const DEFAULT_PORT: u16 = 7411;
/// Names the default server: a URL or a configured name.
const DEFAULT_VARIABLE: &str = "LONGHAUL_SERVER";

/// A server, as it was chosen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Server {
    endpoint: Endpoint,
    /// HTTP headers of its entry, which may be secret.
    headers: HeaderMap,
    /// Which of its tools its entry leaves.
    tools: ToolSelection,
    /// Whose it is on this machine, if its entry says so.
    uid: Option<u32>,
    era: EraChoice,
    /// That of `--era`.
    given_era: Option<EraArg>,
    /// Its configured name.
    name: Option<String>,
    /// That of `--mcp-config`, in which recorded calls find their servers, too.
    mcp_config: Option<PathBuf>,
    named_by: NamedBy,
    /// The words that choose it on a command line: those in front of the tool or task, and those behind all others.
    words: (Vec<String>, Vec<String>),
}

/// What says that a server is meant.
#[derive(Debug, Clone, Copy, PartialEq)]
enum NamedBy {
    CommandLine,
    /// It names the default server. Recorded calls of other servers are meant, too.
    Environment,
    /// Nothing: it is the default server, or that of a recorded call.
    Nothing,
}

#[derive(Debug, Clone, PartialEq)]
enum Endpoint {
    Http(String),
    Child(Command),
    /// The environment names a server that there is not. What needs no default server goes on without it.
    Wrong(ServerError),
}

/// The command of a child process.
#[derive(Debug, Clone, PartialEq)]
struct Command {
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    cwd: Option<PathBuf>,
}

/// The choice of a server is wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum ServerError {
    #[error("there is no server `{name}`; {hint}")]
    Unknown { name: String, hint: String },
    #[error("there is one word too many, `{word}`: {why}")]
    TooMany { word: String, why: String },
    #[error("name a server of {file} with -s: {names}")]
    NotChosen { file: String, names: String },
    #[error("the server `{0}` is disabled in the configuration")]
    Disabled(String),
    #[error("{file}: {reason}")]
    Config { file: String, reason: String },
    #[error("{0}")]
    ConfigFile(String),
    #[error("the server `{name}`: {reason}")]
    Entry { name: String, reason: String },
    #[error("there is no command behind `--`")]
    NoCommand,
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    #[error(
        "another user (uid {user}) listens at {DEFAULT_URL}, the default server; nothing was sent. Start yours with `longhaul serve`, or name that server: -s {DEFAULT_URL}"
    )]
    DefaultOfAnotherUser { user: u32 },
    #[error(transparent)]
    OfAnotherUser(#[from] OfAnotherUser),
}

impl Server {
    /// As the command line says it.
    fn at(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            headers: HeaderMap::new(),
            tools: ToolSelection::default(),
            uid: None,
            era: EraChoice::Auto,
            given_era: None,
            name: None,
            mcp_config: None,
            named_by: NamedBy::CommandLine,
            words: (Vec::new(), Vec::new()),
        }
    }

    /// The default server, which nobody has named.
    #[cfg(test)]
    pub(crate) fn named_by_nobody() -> Self {
        Self {
            named_by: NamedBy::Nothing,
            ..Self::at(Endpoint::Http(DEFAULT_URL.to_owned()))
        }
    }

    /// Whether there is such a server, as far as that is known without asking it.
    pub(crate) fn check(&self) -> Result<(), ServerError> {
        match &self.endpoint {
            Endpoint::Wrong(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Whose name is in this file of another client, if one is given. Only with the file the name is that of this server.
    fn of_file(mut self, mcp_config: Option<&Path>) -> Self {
        if let (Some(file), true) = (mcp_config, self.name.is_some()) {
            let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
            self.words.0.insert(0, format!("--mcp-config={}", file.display()));
        }
        Self {
            mcp_config: mcp_config.map(Path::to_owned),
            ..self
        }
    }

    /// With the era of `--era`, if it is given.
    fn in_era(mut self, given: Option<EraArg>) -> Self {
        if let Some(era) = given {
            self.era = era.into();
            let name = era.to_possible_value().map(|value| value.get_name().to_owned());
            self.words.0.extend(name.map(|name| format!("--era={name}")));
        }
        Self {
            given_era: given,
            ..self
        }
    }

    /// The server to ask about a recorded call: this one if it was named and is meant, else that of the call.
    pub(crate) fn of_call(self, call: &RecordedCall) -> Self {
        match self.is_chosen() || (self.is_named() && self.is_server_of(call)) {
            true => self.in_folder_of(&call.server),
            false => identity::recorded_in(self.mcp_config.as_deref(), call).in_era(self.given_era),
        }
    }

    /// Its configured name.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// For people: its name, else its URL or its command line, without the secrets in them.
    pub(crate) fn shown(&self) -> String {
        match (&self.name, &self.endpoint) {
            (Some(name), _) => name.clone(),
            (None, Endpoint::Http(url)) => masked(url),
            (None, Endpoint::Wrong(_)) => format!("the server of {DEFAULT_VARIABLE}"),
            (None, Endpoint::Child(command)) => {
                if let Some(file) = command.config_file() {
                    return file.to_owned();
                }
                let line = std::iter::once(&command.program).chain(&command.args);
                masked_words(line).join(" ")
            }
        }
    }

    /// Whether its entry leaves a tool of this name.
    pub(crate) fn offers(&self, tool: &str) -> bool {
        self.tools.offers(tool)
    }

    /// Whether the command line names it; else it is the default one.
    pub(crate) fn is_chosen(&self) -> bool {
        self.named_by == NamedBy::CommandLine
    }

    /// Whether the command line or the environment names it.
    pub(crate) fn is_named(&self) -> bool {
        self.named_by != NamedBy::Nothing
    }

    /// Whether a recorded call is meant: any, unless the command line names a server.
    pub(crate) fn covers(&self, call: &RecordedCall) -> bool {
        !self.is_chosen() || self.is_server_of(call)
    }

    /// Whether a recorded call went to it. Two names may be two callers of one server, whose tasks are kept apart there.
    pub(crate) fn is_server_of(&self, call: &RecordedCall) -> bool {
        let is_other_name = self.name.is_some() && call.server_name.is_some() && self.name != call.server_name;
        self.is_recorded_as(&call.server) && !is_other_name
    }

    /// The command that logs in to it.
    pub(crate) fn login_line(&self) -> String {
        let server = shell_word(self.name.as_deref().or(self.url()).unwrap_or_default());
        format!("longhaul login {server}")
    }

    /// Its URL, if it is reached over HTTP.
    pub(crate) fn url(&self) -> Option<&str> {
        match &self.endpoint {
            Endpoint::Http(url) => Some(url),
            Endpoint::Child(_) | Endpoint::Wrong(_) => None,
        }
    }

    /// Whether others on the network can read what is sent to it.
    pub(crate) fn is_readable(&self) -> bool {
        self.url().is_some_and(plain_http::is_readable)
    }

    /// This server, as one who has a key that is not kept yet.
    pub(crate) fn with_key(mut self, key: &str) -> Result<Self, InvalidHeaderValue> {
        let mut value = HeaderValue::try_from(format!("Bearer {key}"))?;
        value.set_sensitive(true);
        self.headers.insert(AUTHORIZATION, value);
        Ok(self)
    }

    /// Whether its configuration has an `Authorization` header.
    pub(crate) fn has_authorization(&self) -> bool {
        self.headers.contains_key(AUTHORIZATION)
    }

    /// Whether it is shown who calls: by a header of its configuration, a kept key or a login.
    pub(crate) async fn is_logged_in(&self) -> bool {
        match self.url() {
            _ if self.has_authorization() => true,
            Some(url) => tokens::are_kept(url).await,
            None => false,
        }
    }

    /// Whether it is a child process of this command.
    pub(crate) fn is_child(&self) -> bool {
        matches!(self.endpoint, Endpoint::Child(_))
    }

    /// Whether its tasks end with this command. A child does, and Longhaul's own keep their tasks.
    pub(crate) fn ends_its_tasks(&self) -> bool {
        let Endpoint::Child(command) = &self.endpoint else {
            return false;
        };
        let is_longhaul = Path::new(&command.program)
            .file_stem()
            .is_some_and(|name| name == "longhaul");
        !(is_longhaul && command.args.iter().any(|word| word == "stdio" || word == "wrap"))
    }

    /// Whether it is the server of the default address, and neither the user nor a configuration says so.
    fn is_default(&self) -> bool {
        !self.is_named() && self.name.is_none() && self.endpoint == Endpoint::Http(DEFAULT_URL.to_owned())
    }

    /// A connection to it, with these changes of the options. Nothing is sent yet.
    ///
    /// # Errors
    /// If the address is invalid, or another user listens there: it would be sent what is meant for the user's own.
    pub(crate) fn connection(&self, change: impl FnOnce(&mut Options)) -> Result<Connection, ServerError> {
        if let (true, Some(file)) = (self.is_default(), &self.mcp_config) {
            let configured = ConfiguredServers::load(Some(file))?;
            let names: Vec<&str> = configured.entries.keys().map(String::as_str).collect();
            if !names.is_empty() {
                return Err(ServerError::NotChosen {
                    file: file.display().to_string(),
                    names: names.join(", "),
                });
            }
        }
        if self.is_default() {
            own_or_none(&listening_socket::on_loopback(DEFAULT_PORT), own_user())?;
        }
        let mut options = Options::named("longhaul", env!("CARGO_PKG_VERSION"));
        options.era = self.era;
        options.headers = self.headers.clone().into();
        change(&mut options);
        match &self.endpoint {
            Endpoint::Http(url) => {
                let loopback = LoopbackServer::of(url, self.uid);
                if let Some(server) = loopback.filter(|_| !self.headers.is_empty()) {
                    server.check()?;
                }
                if self.has_authorization() {
                    if self.is_readable() {
                        plain_http::warn(url);
                    }
                } else if options.tokens.is_none() {
                    options.tokens = tokens::of(url, loopback)?;
                }
                Ok(Connection::lazy(url, options)?)
            }
            Endpoint::Wrong(error) => Err(error.clone()),
            Endpoint::Child(command) => {
                let mut child = ChildOptions::new(&command.program, &command.args);
                child.env.clone_from(&command.env);
                child.cwd.clone_from(&command.cwd);
                Ok(Connection::over(ChildProcess::new(child), options))
            }
        }
    }

    /// A command of this program about a task of this server, quoted for a shell.
    pub(crate) fn task_line(&self, command: &str, id: &str, words: &[&str]) -> String {
        // Such a word would be taken for an option, for a value of an answer, or for a server.
        let is_no_word = id.starts_with('-') || id.contains('=') || id.contains("://");
        let id = match is_no_word {
            true => format!("--id={id}"),
            false => id.to_owned(),
        };
        let words: Vec<&str> = [id.as_str()].into_iter().chain(words.iter().copied()).collect();
        self.command_line(command, &words)
    }

    /// A command of this program that speaks with the same server, quoted for a shell, without the secrets in its words. For one about a task use [`task_line`](Self::task_line).
    pub(crate) fn command_line(&self, command: &str, words: &[&str]) -> String {
        let (before, behind) = &self.words;
        let line = ["longhaul", command].into_iter();
        let line = line
            .chain(before.iter().map(String::as_str))
            .chain(words.iter().copied());
        let line = masked_words(line.chain(behind.iter().map(String::as_str)));
        line.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
    }
}

/// Whether the sockets are this user's. Nothing is known of them on other systems than Linux.
fn own_or_none(sockets: &[ListeningSocket], own: Option<u32>) -> Result<(), ServerError> {
    let other = sockets.iter().find(|socket| own.is_some_and(|own| own != socket.user));
    other.map_or(Ok(()), |other| {
        Err(ServerError::DefaultOfAnotherUser { user: other.user })
    })
}

fn own_user() -> Option<u32> {
    #[cfg(unix)]
    return Some(rustix::process::geteuid().as_raw());
    #[cfg(not(unix))]
    None
}

#[cfg(test)]
mod tests {
    use super::{choose::choose_among, *};
    use crate::args::ServerArgs;

    fn configured() -> ConfiguredServers {
        ConfiguredServers::parse_toml(
            r#"
            [servers.build]
            url = "http://build.example/mcp"
            era = "legacy"
            [servers.local]
            command = "npx"
            args = ["-y", "it's"]
            env = { LEVEL = "debug" }
            [servers.off]
            url = "http://off.example/mcp"
            disabled = true
            "#,
            "servers.toml",
        )
        .unwrap()
    }

    fn chosen(args: ServerArgs, words: &[&str], default: Option<&str>) -> Result<(Server, Vec<String>), ServerError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let (server, rest) = choose_among(&configured(), &args, &words, default.map(str::to_owned))?;
        Ok((server, rest.to_vec()))
    }

    fn http(url: &str) -> Endpoint {
        Endpoint::Http(url.to_owned())
    }

    #[test]
    fn the_first_word_is_a_server_if_it_is_a_url_or_a_configured_name() {
        let none = ServerArgs::default;
        let (server, rest) = chosen(none(), &["http://x/mcp", "tool", "a=http://y"], None).unwrap();
        assert_eq!((server.endpoint, rest.len()), (http("http://x/mcp"), 2));
        let (server, rest) = chosen(none(), &["build", "tool"], None).unwrap();
        assert_eq!(
            (server.endpoint, server.era, rest),
            (
                http("http://build.example/mcp"),
                EraChoice::Legacy,
                vec!["tool".to_owned()]
            )
        );
        let (server, rest) = chosen(none(), &["tool", "build"], None).unwrap();
        assert_eq!((server.endpoint, rest.len()), (http(DEFAULT_URL), 2));
        let (server, rest) = chosen(none(), &["tool"], Some("local")).unwrap();
        assert!(matches!(server.endpoint, Endpoint::Child(_)));
        assert_eq!(rest, ["tool"]);
    }

    #[test]
    fn an_option_or_a_command_leaves_all_words() {
        let option = ServerArgs {
            server: Some("build".to_owned()),
            command: vec!["other".to_owned()],
            ..ServerArgs::default()
        };
        let (server, rest) = chosen(option, &["local", "x"], None).unwrap();
        assert_eq!((server.endpoint, rest.len()), (http("http://build.example/mcp"), 2));
        let command = ServerArgs {
            command: vec!["my server".to_owned(), "--flag".to_owned()],
            ..ServerArgs::default()
        };
        let (server, rest) = chosen(command, &["build", "x"], None).unwrap();
        assert_eq!(rest, ["build", "x"]);
        let expected = "longhaul task t-1 --wait -- 'my server' --flag";
        assert_eq!(server.task_line("task", "t-1", &["--wait"]), expected);
    }

    #[test]
    fn a_wrong_choice_is_explained() {
        let error = |name: &str| {
            let option = ServerArgs {
                server: Some(name.to_owned()),
                ..ServerArgs::default()
            };
            chosen(option, &[], None).unwrap_err().to_string()
        };
        assert_eq!(error("biuld"), "there is no server `biuld`; did you mean `build`?");
        assert_eq!(error("off"), "the server `off` is disabled in the configuration");
    }

    #[test]
    fn a_command_for_the_same_server_is_quoted_for_a_shell() {
        let (server, _) = chosen(ServerArgs::default(), &["http://h/mcp?a=1&b=2"], None).unwrap();
        let expected = r"longhaul task 'http://h/mcp?a=1&b=2' 'it'\''s' --wait";
        assert_eq!(server.task_line("task", "it's", &["--wait"]), expected);
        let (server, _) = chosen(ServerArgs::default(), &[], None).unwrap();
        assert_eq!(server.task_line("task", "a-B_1", &[]), "longhaul task a-B_1");
        for id in ["-a", "--wait", "YQ==", "urn://a"] {
            let expected = format!("longhaul task --id={id} --wait");
            assert_eq!(server.task_line("task", id, &["--wait"]), expected);
        }
    }

    #[test]
    fn the_default_server_is_this_users() {
        let socket = |user| ListeningSocket {
            inode: "1".to_owned(),
            user,
        };
        assert_eq!(own_or_none(&[], Some(1000)), Ok(()));
        assert_eq!(own_or_none(&[socket(1000)], Some(1000)), Ok(()));
        let other = Err(ServerError::DefaultOfAnotherUser { user: 0 });
        assert_eq!(own_or_none(&[socket(1000), socket(0)], Some(1000)), other);
        assert_eq!(own_or_none(&[socket(0)], None), Ok(()));
        let is_default = |words: &[&str], variable| {
            let (server, _) = chosen(ServerArgs::default(), words, variable).unwrap();
            server.is_default()
        };
        assert!(is_default(&["tool"], None));
        for (words, variable) in [(&[DEFAULT_URL][..], None), (&["build"], None), (&[], Some(DEFAULT_URL))] {
            assert!(!is_default(words, variable), "{words:?} {variable:?}");
        }
    }
}

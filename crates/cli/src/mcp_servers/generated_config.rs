//! Configurations that are made of something else: of an `mcpServers` file of another client, or of a command line to be wrapped.

use crate::{
    args::{Era, Header, Source},
    config::{self, Config, ConfigError, Environment, Problem},
    mcp_servers::{self, FileError, McpServer},
};
use longhaul_core::Millis;
use serde_json::{Map, Value};
use std::{collections::BTreeSet, path::Path};

/// Why there is nothing to serve.
const NOTHING_LEFT: &str = "it has no server that is not switched off";

/// The name of an upstream, and its section.
type Section = (String, Map<String, Value>);

/// The configuration of a file, or the one that is made of another client's file.
///
/// # Errors
/// What is wrong with the file.
pub(crate) fn load(source: &Source) -> Result<Config, ConfigError> {
    load_from(source, false)
}

/// The same for a server that runs. There may be nothing left to serve: all servers in another client's file were removed or switched off, or may be so in a way that is
/// not understood.
///
/// # Errors
/// What is wrong with the file.
pub(crate) fn load_again(source: &Source) -> Result<Config, ConfigError> {
    load_from(source, true)
}

fn load_from(source: &Source, may_be_empty: bool) -> Result<Config, ConfigError> {
    let environment = Environment::of_this_process();
    let Some(file) = source.mcp_config() else {
        return config::load(source.path(), &environment);
    };
    let text = longhaul_private_dir::read_named_text(file)
        .map_err(|error| ConfigError::of_file(file, format!("cannot be read: {error}")))?;
    of_mcp_servers(file, &text, &environment, may_be_empty)
}

/// The configuration of a server in front of all servers in a file of another client, in their order. A server with a mistake is left out, with a warning: the
/// other client may know what this one does not, and the other servers have nothing to do with it.
///
/// # Errors
/// No server is left, unless it `may_be_empty`.
fn of_mcp_servers(
    file: &Path,
    text: &str,
    environment: &Environment,
    may_be_empty: bool,
) -> Result<Config, ConfigError> {
    let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = mcp_servers::usable_name(&name.unwrap_or_default());
    let (mut sections, mut left_out, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    let servers = match mcp_servers::read(text, environment.variable) {
        Ok(servers) => servers,
        Err(FileError::NoServers(why)) if may_be_empty => {
            warnings.push(Problem {
                line: None,
                message: format!("none of its servers is served: {why}"),
            });
            Vec::new()
        }
        Err(error) => return Err(ConfigError::of_file(file, error.to_string())),
    };
    let given: BTreeSet<&str> = servers.iter().map(|server| server.given.as_str()).collect();
    // Also if only one of several can be used: hosts know tools by their names.
    let prefix = given.len() > 1;
    for server in servers {
        let McpServer {
            given,
            name: upstream,
            line,
            ignored,
            section,
        } = server;
        // What its section says is checked for itself, since the lines of a generated file mean nothing to its user.
        let checked = section.map_err(|why| vec![why]).and_then(|section| {
            let section = (upstream, section);
            let alone = document(&[("name", &name)], std::slice::from_ref(&section));
            let problems = |problems: Vec<Problem>| problems.into_iter().map(|problem| problem.message).collect();
            let config = config::load_generated(file, alone, environment).map_err(|error| problems(error.problems))?;
            Ok((section, problems(config.warnings)))
        });
        let problem = |message| Problem {
            line: Some(line),
            message,
        };
        match checked {
            Ok((section, probably_wrong)) => {
                let probably_wrong: Vec<String> = probably_wrong;
                let ignored = ignored.iter();
                let ignored = ignored.map(|member| format!("its `{member}` is not known here, and is ignored"));
                warnings.extend(
                    probably_wrong
                        .into_iter()
                        .chain(ignored)
                        .map(|why| problem(format!("the server `{given}`: {why}"))),
                );
                sections.push(section);
            }
            Err(mistakes) => left_out.extend(mistakes.into_iter().map(|why| (problem(why), given.clone()))),
        }
    }
    let told = |consequence: &str| {
        let told = left_out.iter().map(|(problem, given)| Problem {
            line: problem.line,
            message: format!("the server `{given}`{consequence}: {}", problem.message),
        });
        told.collect::<Vec<_>>()
    };
    if sections.is_empty() && !may_be_empty {
        return Err(match left_out.is_empty() {
            true => ConfigError::of_file(file, NOTHING_LEFT.to_owned()),
            false => ConfigError {
                file: file.display().to_string(),
                problems: told(""),
                warnings,
            },
        });
    }
    warnings.extend(told(" is left out"));
    warnings.sort_by_key(|warning| warning.line);
    let config = config::load_generated(file, document(&[("name", &name)], &sections), environment)?;
    Ok(Config {
        prefix,
        warnings,
        digest: config::digest(text.as_bytes()),
        ..config
    })
}

/// What `longhaul wrap` is in front of.
#[derive(Debug)]
pub(crate) struct WrappedServer<'a> {
    pub(crate) name: &'a str,
    /// A command line, or a URL.
    pub(crate) command: &'a [String],
    /// Where the command runs.
    pub(crate) folder: &'a Path,
    /// Where the server listens: it takes no port.
    pub(crate) socket: &'a Path,
    pub(crate) headers: &'a [Header],
    pub(crate) era: Option<Era>,
    pub(crate) is_shared: bool,
    pub(crate) handoff: Option<Millis>,
}

/// Its configuration, as TOML.
pub(crate) fn of_wrapped(wrapped: &WrappedServer<'_>) -> String {
    let mut upstream = match wrapped.command {
        [url] if is_url(url) => Map::from_iter([("url".to_owned(), Value::from(url.as_str()))]),
        command => Map::from_iter([
            ("command".to_owned(), Value::from(command.to_vec())),
            ("cwd".to_owned(), Value::from(wrapped.folder.display().to_string())),
        ]),
    };
    if !wrapped.headers.is_empty() {
        let headers = wrapped.headers.iter();
        let headers = headers.map(|header| (header.name.clone(), Value::from(header.value.as_str())));
        upstream.insert("headers".to_owned(), Value::Object(headers.collect()));
    }
    let options = [
        Some(("presented", Value::from(true))),
        wrapped.era.map(|era| ("era", Value::from(era.word()))),
        wrapped.is_shared.then(|| ("shared", Value::from(true))),
        wrapped
            .handoff
            .map(|handoff| ("handoff", Value::from(format!("{handoff}ms")))),
    ];
    upstream.extend(
        options
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.to_owned(), value)),
    );
    let listen = format!("unix:{}", wrapped.socket.display());
    let server = [
        ("name", wrapped.name),
        ("listen", &listen),
        // There is one directory for each wrapped server, so each would keep as much room.
        ("disk_reserve", "none"),
    ];
    document(&server, &[("wrapped".to_owned(), upstream)])
}

/// Whether a word that may be a command is the URL of a server.
pub(crate) fn is_url(word: &str) -> bool {
    word.starts_with("http://") || word.starts_with("https://")
}

/// Sections in their order: a table would sort them.
fn document(server: &[(&str, &str)], upstreams: &[Section]) -> String {
    let section = |path: &str, members: &Map<String, Value>| {
        let members = members
            .iter()
            .map(|(key, value)| format!("{} = {}\n", quoted(key), toml_of(value)));
        format!("[{path}]\n{}\n", members.collect::<String>())
    };
    let server = server
        .iter()
        .map(|(key, value)| ((*key).to_owned(), Value::from(*value)));
    let upstreams = upstreams
        .iter()
        .map(|(name, upstream)| section(&format!("upstream.{name}"), upstream));
    let upstreams: String = match upstreams.len() {
        // Without a section there would be nothing to serve.
        0 => "[upstream]\n".to_owned(),
        _ => upstreams.collect(),
    };
    section("server", &server.collect()) + &upstreams
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// Strings, and arrays and tables of them.
fn toml_of(value: &Value) -> String {
    match value {
        Value::Array(elements) => {
            let elements: Vec<String> = elements.iter().map(toml_of).collect();
            format!("[{}]", elements.join(", "))
        }
        Value::Object(members) => {
            let members: Vec<String> = (members.iter())
                .map(|(key, value)| format!("{} = {}", quoted(key), toml_of(value)))
                .collect();
            format!("{{ {} }}", members.join(", "))
        }
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_gateway::Target;

    const SERVERS: &str = r#"{
        // as another client has it
        "mcpServers": {
            "web search": {"url": "https://h/mcp", "headers": {"Authorization": "Bearer ${A_TOKEN:-x}"}, "alwaysAllow": []},
            "git": {"command": "sh", "args": ["mcp-server-git", "C:\\a \"b\""], "env": {"A": "1"}, "cwd": "/"},
            "off": {"command": "x", "disabled": true},
            "unset": {
                "url": "https://h/mcp",
                "headers": {"Authorization": "Bearer ${NO_SUCH_VARIABLE}"},
            },
            "odd": {"url": "ftp://h/mcp"},
        },
    }"#;

    fn of_servers(text: &str) -> Result<Config, ConfigError> {
        of_mcp_servers(Path::new("mine.json"), text, &Environment::of_this_process(), false)
    }

    fn lines(problems: &[Problem]) -> Vec<String> {
        problems.iter().map(|problem| problem.at("mine.json")).collect()
    }

    #[test]
    fn servers_of_another_client_become_upstreams_in_their_order() {
        let config = of_servers(SERVERS).unwrap();
        let names: Vec<_> = config.upstreams.iter().map(|upstream| &upstream.options.name).collect();
        assert_eq!(names, ["web_search", "git"]);
        assert_eq!(config.server.name, "mine");
        assert!(config.prefix);
        let one_left = of_servers(r#"{"mcpServers": {"a": {"command": "sh"}, "b": {"url": "${NO_SUCH_VARIABLE}"}}}"#);
        let one_left = one_left.unwrap();
        assert_eq!((one_left.upstreams.len(), one_left.prefix), (1, true));
        let alone = of_servers(r#"{"mcpServers": {"a": {"command": "sh"}, "b": {"command": "x", "disabled": true}}}"#);
        assert!(!alone.unwrap().prefix);
        let Target::Command(child) = &config.upstreams[1].options.target else {
            panic!("no command")
        };
        assert_eq!(child.args, ["mcp-server-git", "C:\\a \"b\""]);
        assert_eq!(child.env, [("A".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn a_server_with_a_mistake_is_left_out_with_a_warning_at_its_line() {
        let config = of_servers(SERVERS).unwrap();
        assert_eq!(
            lines(&config.warnings),
            [
                "mine.json:9: the server `unset` is left out: its `headers.Authorization`: the variable NO_SUCH_VARIABLE is not set",
                "mine.json:11: the server `odd` is left out: `url` must begin with http:// or https://",
            ]
        );
        let refused = of_servers("{\"mcpServers\": {\n\"a\": {},\n\"b\": {\"url\": \"ftp://h\"}}}").unwrap_err();
        assert_eq!(
            lines(&refused.problems),
            [
                "mine.json:2: the server `a`: it needs a `command` or a `url`",
                "mine.json:3: the server `b`: `url` must begin with http:// or https://",
            ]
        );
    }

    fn wrapped<'a>(command: &'a [String], headers: &'a [Header]) -> WrappedServer<'a> {
        WrappedServer {
            name: "w",
            command,
            folder: Path::new("/a b"),
            socket: Path::new("/s/mcp.sock"),
            headers,
            era: None,
            is_shared: false,
            handoff: None,
        }
    }

    #[test]
    fn a_command_line_keeps_its_words() {
        let command = ["npx".to_owned(), "-y \"x\"".to_owned()];
        let text = of_wrapped(&WrappedServer {
            handoff: Some(45_000),
            era: Some(Era::Legacy),
            is_shared: true,
            ..wrapped(&command, &[])
        });
        let parsed: toml::Table = text.parse().unwrap();
        let upstream = &parsed["upstream"]["wrapped"];
        assert_eq!(upstream["command"][1].as_str(), Some("-y \"x\""));
        assert_eq!(upstream["cwd"].as_str(), Some("/a b"));
        assert_eq!(upstream["handoff"].as_str(), Some("45000ms"));
        let expected = (Some("legacy"), Some(true));
        assert_eq!((upstream["era"].as_str(), upstream["shared"].as_bool()), expected);
        assert_eq!(parsed["server"]["listen"].as_str(), Some("unix:/s/mcp.sock"));
        assert_eq!(parsed["server"]["disk_reserve"].as_str(), Some("none"));
        let url = ["https://mcp.example.com/mcp".to_owned()];
        let header = Header {
            name: "authorization".to_owned(),
            value: "Bearer ${TOKEN}".to_owned(),
        };
        let text = of_wrapped(&wrapped(&url, &[header]));
        let parsed: toml::Table = text.parse().unwrap();
        let upstream = parsed["upstream"]["wrapped"].as_table().unwrap();
        assert_eq!((upstream["url"].as_str(), upstream.len()), (Some(url[0].as_str()), 3));
        assert_eq!(upstream["headers"]["authorization"].as_str(), Some("Bearer ${TOKEN}"));
    }
}

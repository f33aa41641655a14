//! Configurations that are made of something else: of an `mcpServers` file of another client, or of a command line to be wrapped.

use crate::{
    args::Source,
    config::{self, Config, ConfigError, Environment},
    variables::expand,
};
use longhaul_core::Millis;
use serde_json::{Map, Value};
use std::{collections::BTreeSet, env, fs, path::Path};

/// Something that no configuration can be made of; the text says what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unusable(String);

/// The configuration of a file, or the one that is made of another client's file.
///
/// # Errors
/// What is wrong with the file.
pub(crate) fn load(source: &Source) -> Result<Config, ConfigError> {
    let environment = Environment::of_this_process();
    let Some(file) = source.mcp_config() else {
        return config::load(source.path(), &environment);
    };
    let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = usable_name(&name.unwrap_or_default());
    let text =
        fs::read_to_string(file).map_err(|error| ConfigError::of_file(file, format!("cannot be read: {error}")))?;
    let generated = of_mcp_servers(&text, &name);
    let generated = generated.map_err(|error| ConfigError::of_file(file, error.to_string()))?;
    config::load_generated(file, generated, &environment)
}

/// The configuration, as TOML, of a server in front of all servers in an `mcpServers` file (JSON, also with comments), in their order. `name` is that of the
/// server. Disabled entries are left out.
///
/// # Errors
/// [`Unusable`], with the name of the entry.
pub(crate) fn of_mcp_servers(text: &str, name: &str) -> Result<String, Unusable> {
    let file: Value = jsonc_parser::parse_to_serde_value(text, &jsonc_parser::ParseOptions::default())
        .map_err(|error| Unusable(error.to_string()))?;
    let servers = ["mcpServers", "servers"].iter().find_map(|key| file[key].as_object());
    let servers = servers.ok_or_else(|| Unusable("it has no `mcpServers`".to_owned()))?;
    let (mut upstreams, mut names) = (Vec::new(), BTreeSet::new());
    for (given, entry) in servers {
        if entry["disabled"] == true {
            continue;
        }
        let wrong = |why: String| Unusable(format!("the server `{given}`: {why}"));
        let upstream = read_entry(entry).map_err(wrong)?;
        let name = usable_name(given);
        if !names.insert(name.clone()) {
            return Err(wrong(format!(
                "another one is called `{name}`, too; rename one of them"
            )));
        }
        upstreams.push((name, upstream));
    }
    if upstreams.is_empty() {
        return Err(Unusable("it has no server that is not disabled".to_owned()));
    }
    Ok(document(name, None, upstreams))
}

/// The configuration, as TOML, of a server in front of the MCP server that this command line starts in `folder`. It takes no port: it listens on `socket`.
pub(crate) fn of_command(
    name: &str,
    command: &[String],
    folder: &Path,
    socket: &Path,
    handoff: Option<Millis>,
) -> String {
    let mut upstream = Map::from_iter([
        ("command".to_owned(), Value::from(command.to_vec())),
        ("cwd".to_owned(), Value::from(folder.display().to_string())),
    ]);
    upstream.extend(handoff.map(|handoff| ("handoff".to_owned(), Value::from(format!("{handoff}ms")))));
    let listen = format!("unix:{}", socket.display());
    document(name, Some(listen), vec![("wrapped".to_owned(), upstream)])
}

/// Sections in their order: a table would sort them.
fn document(name: &str, listen: Option<String>, upstreams: Vec<(String, Map<String, Value>)>) -> String {
    let section = |path: &str, members: &Map<String, Value>| {
        let members = members
            .iter()
            .map(|(key, value)| format!("{} = {}\n", quoted(key), toml_of(value)));
        format!("[{path}]\n{}\n", members.collect::<String>())
    };
    let mut server = Map::from_iter([("name".to_owned(), Value::from(name))]);
    server.extend(listen.map(|listen| ("listen".to_owned(), Value::from(listen))));
    let upstreams = upstreams
        .iter()
        .map(|(name, upstream)| section(&format!("upstream.{name}"), upstream));
    section("server", &server) + &upstreams.collect::<String>()
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

/// The section of an upstream.
fn read_entry(entry: &Value) -> Result<Map<String, Value>, String> {
    let expanded = |text: &str| expand(text, |name| env::var(name).ok());
    let mut upstream = Map::new();
    match (&entry["command"], &entry["url"]) {
        (Value::String(program), Value::Null) => {
            let mut words = vec![Value::from(expanded(program)?)];
            for argument in texts(&entry["args"], "args")? {
                words.push(expanded(&argument)?.into());
            }
            upstream.insert("command".to_owned(), words.into());
            if let Some(cwd) = entry["cwd"].as_str() {
                upstream.insert("cwd".to_owned(), expanded(cwd)?.into());
            }
            copy_table(entry, "env", &mut upstream)?;
        }
        (Value::Null, Value::String(url)) => {
            upstream.insert("url".to_owned(), expanded(url)?.into());
            copy_table(entry, "headers", &mut upstream)?;
        }
        (Value::Null, Value::Null) => return Err("it needs a `command` or a `url`".to_owned()),
        (_, Value::Null) | (Value::Null, _) => return Err("its `command` or `url` must be a string".to_owned()),
        _ => return Err("it has a `url` and a `command`; give one of them".to_owned()),
    }
    Ok(upstream)
}

fn texts(value: &Value, member: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("its `{member}` must be an array of strings");
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(elements) => elements
            .iter()
            .map(|element| element.as_str().map(str::to_owned).ok_or_else(wrong))
            .collect(),
        _ => Err(wrong()),
    }
}

/// Copies a table of strings, whose variables are expanded when the configuration is read.
fn copy_table(entry: &Value, member: &str, upstream: &mut Map<String, Value>) -> Result<(), String> {
    match &entry[member] {
        Value::Null => {}
        Value::Object(table) if table.values().all(Value::is_string) => {
            upstream.insert(member.to_owned(), table.clone().into());
        }
        _ => return Err(format!("its `{member}` must be an object of strings")),
    }
    Ok(())
}

/// A name for a section and for tools: other clients allow any text.
pub(crate) fn usable_name(given: &str) -> String {
    let usable = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = given.chars().map(usable).take(64).collect();
    if name.is_empty() { "server".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_another_client_become_upstreams_in_their_order() {
        let text = r#"{
            // as another client has it
            "mcpServers": {
                "web search": {"url": "https://h/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "alwaysAllow": []},
                "git": {"command": "uvx", "args": ["mcp-server-git", "C:\\a \"b\""], "env": {"A": "1"}, "cwd": "/srv"},
                "off": {"command": "x", "disabled": true},
            },
        }"#;
        let expected = concat!(
            "[server]\n\"name\" = \"mine\"\n\n",
            "[upstream.web_search]\n\"url\" = \"https://h/mcp\"\n\"headers\" = { \"Authorization\" = \"Bearer ${TOKEN}\" }\n\n",
            "[upstream.git]\n\"command\" = [\"uvx\", \"mcp-server-git\", 'C:\\a \"b\"']\n\"cwd\" = \"/srv\"\n\"env\" = { \"A\" = \"1\" }\n\n",
        );
        assert_eq!(of_mcp_servers(text, "mine").unwrap(), expected);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("{}", "it has no `mcpServers`"),
            (r#"{"mcpServers": {}}"#, "it has no server that is not disabled"),
            (
                r#"{"mcpServers": {"a": {}}}"#,
                "the server `a`: it needs a `command` or a `url`",
            ),
            (
                r#"{"mcpServers": {"a": {"command": "x", "args": [1]}}}"#,
                "the server `a`: its `args` must be an array of strings",
            ),
            (
                r#"{"mcpServers": {"a b": {"command": "x"}, "a_b": {"command": "y"}}}"#,
                "the server `a_b`: another one is called `a_b`, too; rename one of them",
            ),
        ] {
            assert_eq!(of_mcp_servers(text, "n").unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_command_line_keeps_its_words() {
        let text = of_command(
            "w",
            &["npx".to_owned(), "-y \"x\"".to_owned()],
            Path::new("/a b"),
            Path::new("/s/mcp.sock"),
            Some(45_000),
        );
        let parsed: toml::Table = text.parse().unwrap();
        let upstream = &parsed["upstream"]["wrapped"];
        assert_eq!(upstream["command"][1].as_str(), Some("-y \"x\""));
        assert_eq!(upstream["cwd"].as_str(), Some("/a b"));
        assert_eq!(upstream["handoff"].as_str(), Some("45000ms"));
        assert_eq!(parsed["server"]["listen"].as_str(), Some("unix:/s/mcp.sock"));
    }
}

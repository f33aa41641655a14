//! The configured servers: `servers.toml` of the user, and an `mcpServers` file in JSON.

use super::ServerError;
use crate::{
    args::EraArg,
    mcp_servers::{EntryRestrictions, FileRestrictions, jsonc},
    output::json_text::without_mark,
};
use longhaul_core::InvalidToolPattern;
use longhaul_gateway::ToolSelection;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    env, io,
    path::{Path, PathBuf},
};

/// All servers that have a name.
#[derive(Debug, Default)]
pub(super) struct ConfiguredServers {
    pub(super) entries: BTreeMap<String, Configuration>,
    /// Where servers are configured, for messages.
    pub(super) file: String,
}

/// What is configured under a name: a server, or what is wrong with its entry. A wrong entry matters only to those who mean that server.
pub(super) type Configuration = Result<Entry, WrongEntry>;

/// An entry that cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WrongEntry {
    pub(super) file: String,
    pub(super) reason: String,
}

/// A configured server.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct Entry {
    #[serde(alias = "serverUrl", alias = "httpUrl")]
    pub(super) url: Option<String>,
    pub(super) command: Option<String>,
    #[serde(default)]
    pub(super) args: Vec<String>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// VS Code's. Without its variables the server would be another one, so it is refused.
    #[serde(rename = "envFile")]
    pub(super) env_file: Option<String>,
    pub(super) cwd: Option<String>,
    #[serde(default)]
    pub(super) disabled: bool,
    #[serde(default)]
    pub(super) era: EraArg,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    pub(super) uid: Option<u32>,
    /// Which of its tools are offered.
    #[serde(skip)]
    pub(super) tools: ToolSelection,
}

/// `servers.toml`. A member that is not known is an error there, since it is our own format.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TomlFile {
    #[serde(default)]
    servers: BTreeMap<String, toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StrictEntry {
    url: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    #[serde(default)]
    disabled: bool,
    #[serde(default)]
    era: EraArg,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    uid: Option<u32>,
}

/// A file of an MCP client. Other clients have members of their own, which are ignored.
#[derive(Deserialize)]
struct JsonFile {
    #[serde(rename = "mcpServers", alias = "servers")]
    servers: BTreeMap<String, serde_json::Value>,
}

impl ConfiguredServers {
    /// Reads the user's `servers.toml`, if there is one, and the file named by `--mcp-config`, whose servers come first.
    pub(super) fn load(mcp_config: Option<&Path>) -> Result<Self, ServerError> {
        let mut configured = match own_file() {
            Some(file) => match longhaul_private_dir::read_named_text(&file) {
                Ok(text) => Self::parse_toml(&text, &file.display().to_string())?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => Self {
                    entries: BTreeMap::new(),
                    file: file.display().to_string(),
                },
                Err(error) => return Err(wrong(&file.display(), &error)),
            },
            None => Self::default(),
        };
        if let Some(file) = mcp_config {
            let text = longhaul_private_dir::read_named_text(file).map_err(|error| wrong(&file.display(), &error))?;
            let more = Self::parse_json(&text, &file.display().to_string())?;
            configured.entries.extend(more.entries);
            configured.file = more.file;
        }
        Ok(configured)
    }

    pub(super) fn parse_toml(text: &str, file: &str) -> Result<Self, ServerError> {
        let TomlFile { servers } = toml::from_str(text).map_err(|error| wrong(&file, &error.to_string().trim_end()))?;
        let read = |entry: toml::Value| match entry.try_into::<StrictEntry>() {
            Ok(entry) => Ok(entry.into()),
            Err(error) => Err(wrong_entry(file, &error)),
        };
        let entries = servers.into_iter().map(|(name, entry)| (name, read(entry)));
        Ok(Self {
            entries: entries.collect(),
            file: file.to_owned(),
        })
    }

    /// JSON, also with comments and trailing commas, as VS Code writes it.
    fn parse_json(text: &str, file: &str) -> Result<Self, ServerError> {
        let text = without_mark(text);
        let value =
            jsonc_parser::parse_to_serde_value(text, &jsonc::options()).map_err(|error| wrong(&file, &error))?;
        let beside = FileRestrictions::read(&value).map_err(|error| wrong(&file, &error))?;
        let JsonFile { servers } = serde_json::from_value(value).map_err(|error| wrong(&file, &error))?;
        let read = |name: &str, entry: serde_json::Value| {
            let restrictions = beside.of_server(name, &entry);
            let disabled = restrictions.is_none();
            let restrictions = restrictions.transpose().map_err(|error| wrong_entry(file, &error))?;
            let tools = selection(restrictions.unwrap_or_default()).map_err(|error| wrong_entry(file, &error))?;
            let entry = serde_json::from_value(entry).map_err(|error| wrong_entry(file, &error))?;
            Ok(Entry {
                disabled,
                tools,
                ..entry
            })
        };
        let entries = servers.into_iter().map(|(name, entry)| {
            let entry = read(&name, entry);
            (name, entry)
        });
        Ok(Self {
            entries: entries.collect(),
            file: file.to_owned(),
        })
    }
}

impl From<StrictEntry> for Entry {
    fn from(entry: StrictEntry) -> Self {
        let StrictEntry {
            url,
            command,
            args,
            env,
            cwd,
            disabled,
            era,
            headers,
            uid,
        } = entry;
        Self {
            url,
            command,
            args,
            env,
            env_file: None,
            cwd,
            disabled,
            era,
            headers,
            uid,
            tools: ToolSelection::default(),
        }
    }
}

/// The tools that the file of another client leaves.
fn selection(restrictions: EntryRestrictions) -> Result<ToolSelection, InvalidToolPattern> {
    let patterns = |names: Vec<String>| names.iter().map(|name| name.parse()).collect::<Result<_, _>>();
    Ok(ToolSelection {
        allow: patterns(restrictions.allow.unwrap_or_default())?,
        deny: patterns(restrictions.deny)?,
        ..ToolSelection::default()
    })
}

/// `$XDG_CONFIG_HOME/longhaul/servers.toml`, else `~/.config/longhaul/servers.toml`.
fn own_file() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(config.join("longhaul/servers.toml"))
}

fn wrong_entry(file: &str, reason: &impl ToString) -> WrongEntry {
    WrongEntry {
        file: file.to_owned(),
        reason: reason.to_string().trim_end().to_owned(),
    }
}

fn wrong(file: &impl ToString, reason: &impl ToString) -> ServerError {
    ServerError::Config {
        file: file.to_string(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_clients_are_read() {
        let desktop = r#"{"mcpServers": {"files": {"command": "npx", "args": ["-y", "x"], "env": {"A": "1"}, "alwaysAllow": []}}}"#;
        let code = r#"{
            // how VS Code writes it
            "inputs": [],
            "servers": {"web": {"type": "http", "url": "http://h/mcp", "disabled": true,}, "surf": {"serverUrl": "http://h/mcp"}},
        }"#;
        let desktop = ConfiguredServers::parse_json(desktop, "f").unwrap();
        assert_eq!(desktop.entries["files"].as_ref().unwrap().args, ["-y", "x"]);
        let code = ConfiguredServers::parse_json(code, "f").unwrap();
        let web = code.entries["web"].as_ref().unwrap();
        assert!(web.disabled);
        assert_eq!(web.url.as_deref(), Some("http://h/mcp"));
        assert_eq!(code.entries["surf"].as_ref().unwrap().url, web.url);
    }

    /// As `serve --mcp-config` does it.
    #[test]
    fn what_a_client_has_switched_off_stays_off() {
        let theirs = r#"{"mcpServers": {
            "a": {"command": "x", "disabledTools": ["write"]}, "b": {"command": "x", "isActive": false}, "c": {"command": "x"},
            "d": {"command": "x", "readOnly": true}
        }, "mcp": {"excluded": ["c"]}}"#;
        let theirs = ConfiguredServers::parse_json(theirs, "f").unwrap();
        let server = |name: &str| {
            theirs
                .server(name, (Vec::new(), Vec::new()))
                .map_err(|error| error.to_string())
        };
        let a = server("a").unwrap();
        assert!(a.offers("read") && !a.offers("write"));
        for off in ["b", "c"] {
            assert!(server(off).unwrap_err().contains("disabled"), "{off}");
        }
        assert!(server("d").unwrap_err().contains("readOnly"));
        let whole = ConfiguredServers::parse_json(r#"{"mcpServers": {"a": {"command": "x"}}, "mcp": false}"#, "f");
        assert!(whole.unwrap_err().to_string().contains("`mcp` of the file"));
    }

    /// Its variables would be missing without a word.
    #[test]
    fn an_entry_with_a_file_of_variables_is_refused() {
        let code = "\u{feff}{\"servers\": {\"w\": {\"command\": \"x\", \"envFile\": \".env\"}}}";
        let code = ConfiguredServers::parse_json(code, "f").unwrap();
        let error = code.server("w", (Vec::new(), Vec::new())).unwrap_err().to_string();
        assert!(error.contains("its `envFile` is not read"), "{error}");
    }

    #[test]
    fn a_mistake_is_told_with_its_file() {
        let error = ConfiguredServers::parse_toml("[servers.a\nurl = 'x'", "s.toml")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("s.toml: ") && error.contains("line 1"), "{error}");
        let error = ConfiguredServers::parse_json("{\"mcpServers\": [}", "m.json")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("m.json: "), "{error}");
    }

    #[test]
    fn a_wrong_entry_spoils_no_other() {
        let own = "[servers.a]\nurll = 'x'\n[servers.b]\nurl = 'http://b/mcp'";
        let own = ConfiguredServers::parse_toml(own, "s.toml").unwrap();
        let wrong = own.entries["a"].clone().unwrap_err();
        assert!(wrong.file == "s.toml" && wrong.reason.contains("urll"), "{wrong:?}");
        assert!(own.entries["b"].is_ok());
        let theirs = r#"{"mcpServers": {"a": {"command": ["npx"]}, "b": {"url": "http://b/mcp"}}}"#;
        let theirs = ConfiguredServers::parse_json(theirs, "m.json").unwrap();
        assert!(theirs.entries["a"].is_err() && theirs.entries["b"].is_ok());
    }
}

//! The servers in a file of another MCP client (`mcpServers`), as sections of a configuration.

mod file_restrictions;
pub(crate) mod generated_config;
pub(crate) mod jsonc;
mod restriction_words;
mod restrictions;
mod tool_names;

pub(crate) use file_restrictions::FileRestrictions;
pub(crate) use restrictions::EntryRestrictions;

use crate::{config::variables::expand, output::json_text::without_mark};
use jsonc_parser::{ast, common::Ranged as _};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The members under which clients have a server's URL: most have `url`, Windsurf has `serverUrl`, Gemini CLI `httpUrl`, and Cherry Studio `baseUrl`.
const URLS: [&str; 4] = ["url", "serverUrl", "httpUrl", "baseUrl"];

/// Why an entry of VS Code with `envFile` is refused.
pub(crate) const NO_ENV_FILE: &str =
    "its `envFile` is not read; name the variables in `env` instead, as `\"KEY\": \"${KEY}\"`, and set them before";

/// A server of the file that is not switched off.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct McpServer {
    /// Its name in the file.
    pub(crate) given: String,
    /// Its name for sections and tools.
    pub(crate) name: String,
    /// The line of what is wrong with it, or of its name.
    pub(crate) line: usize,
    /// The members of its entry that are not known, and are ignored.
    pub(crate) ignored: Vec<String>,
    /// Its section, or why there is none.
    pub(crate) section: Result<Map<String, Value>, String>,
}

/// Why a file has no servers.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FileError {
    /// It cannot be read, so it is not known what its user wants.
    #[error("{0}")]
    Unreadable(String),
    /// It has none, or says of all of them what is not understood and may switch them off.
    #[error("{0}")]
    NoServers(String),
}

/// Reads the servers in their order: JSON, also with comments. Those that are switched off are left out, and these may be all.
///
/// # Errors
/// What is wrong with the file as a whole.
pub(crate) fn read(text: &str, variable: fn(&str) -> Option<String>) -> Result<Vec<McpServer>, FileError> {
    let text = without_mark(text);
    let options = jsonc::options();
    let is_toml = !text.trim_start().starts_with(['{', '/']) && toml::from_str::<toml::Table>(text).is_ok();
    let unreadable = |error: &dyn std::fmt::Display| FileError::Unreadable(error.to_string());
    let values: Value = jsonc_parser::parse_to_serde_value(text, &options).map_err(|error| match is_toml {
        true => unreadable(&"it is no JSON: a configuration in TOML is named without --mcp-config"),
        false => unreadable(&error),
    })?;
    let parsed = jsonc_parser::parse_to_ast(text, &jsonc_parser::CollectOptions::default(), &options);
    let parsed = parsed.map_err(|error| unreadable(&error))?;
    let none = "it has no `mcpServers`";
    let root = parsed.value.as_ref().and_then(ast::Value::as_object);
    let root = root.ok_or_else(|| match parsed.value {
        Some(_) => FileError::NoServers(none.to_owned()),
        // It is empty, as a file is that is being written.
        None => unreadable(&none),
    })?;
    let servers = ["mcpServers", "servers"].iter().find_map(|key| last_object(root, key));
    let servers = servers.ok_or_else(|| FileError::NoServers(none.to_owned()))?;
    let line = |offset: usize| 1 + text[..offset].matches('\n').count();
    let beside = FileRestrictions::read(&values).map_err(FileError::NoServers)?;
    let (mut read, mut lines) = (Vec::new(), BTreeMap::new());
    for (nth, property) in servers.properties.iter().enumerate() {
        let given = property.name.as_str();
        // Of several with one name clients take the last one.
        let mut later = servers.properties[nth + 1..].iter();
        if let Some(last) = later.rfind(|later| later.name.as_str() == given) {
            let last = line(last.start());
            read.push(McpServer {
                given: given.to_owned(),
                name: usable_name(given),
                line: line(property.start()),
                ignored: Vec::new(),
                section: Err(format!(
                    "the one in line {last} has the same name, and counts; rename one of them"
                )),
            });
            continue;
        }
        let written = &text[property.value.start()..property.value.end()];
        let entry = &jsonc_parser::parse_to_serde_value(written, &options).map_err(|error| unreadable(&error))?;
        let Some(restrictions) = beside.of_server(given, entry) else {
            continue;
        };
        let name = usable_name(given);
        let begins = line(property.start());
        let ignored = restrictions
            .as_ref()
            .map(|read| read.ignored.clone())
            .unwrap_or_default();
        let (section, line) = match lines.insert(name.clone(), begins) {
            Some(earlier) => {
                let why = format!("the one in line {earlier} is called `{name}`, too; rename one of them");
                (Err(why), begins)
            }
            None => match restrictions.and_then(|read| read_entry(entry, &read, variable)) {
                Ok(section) => (Ok(section), begins),
                Err(why) => (Err(why), unexpandable(&property.value, variable).map_or(begins, line)),
            },
        };
        read.push(McpServer {
            given: given.to_owned(),
            name,
            line,
            ignored,
            section,
        });
    }
    Ok(read)
}

/// The member of this name, if it is an object. Of several the last one counts.
fn last_object<'a, 'b>(of: &'b ast::Object<'a>, name: &str) -> Option<&'b ast::Object<'a>> {
    let mut members = of.properties.iter().rev();
    members.find(|member| member.name.as_str() == name)?.value.as_object()
}

/// Where the first text begins whose variables cannot be replaced.
fn unexpandable(value: &ast::Value<'_>, variable: fn(&str) -> Option<String>) -> Option<usize> {
    match value {
        ast::Value::StringLit(text) => expand(&text.value, variable).is_err().then(|| text.start()),
        ast::Value::Array(array) => array
            .elements
            .iter()
            .find_map(|element| unexpandable(element, variable)),
        ast::Value::Object(object) => {
            let mut members = object.properties.iter();
            members.find_map(|member| unexpandable(&member.value, variable))
        }
        _ => None,
    }
}

/// The section of an upstream.
fn read_entry(
    entry: &Value,
    restrictions: &EntryRestrictions,
    variable: fn(&str) -> Option<String>,
) -> Result<Map<String, Value>, String> {
    let expanded = |member: &str, text: &str| expand(text, variable).map_err(|why| format!("its `{member}`: {why}"));
    let mut urls = URLS
        .iter()
        .filter(|member| !entry[**member].is_null() && entry[**member] != "");
    let url = urls.next();
    if let (Some(one), Some(other)) = (url, urls.next()) {
        return Err(format!("it has a `{one}` and a `{other}`; give one of them"));
    }
    let mut upstream = Map::new();
    if let Some(tools) = restrictions.as_key() {
        upstream.insert("tools".to_owned(), tools);
    }
    match (&entry["command"], url) {
        (Value::String(program), None) => {
            let mut words = vec![Value::from(expanded("command", program)?)];
            for argument in texts(&entry["args"], "args")? {
                words.push(expanded("args", &argument)?.into());
            }
            upstream.insert("command".to_owned(), words.into());
            if let Some(cwd) = entry["cwd"].as_str() {
                upstream.insert("cwd".to_owned(), expanded("cwd", cwd)?.into());
            }
            if !entry["envFile"].is_null() {
                return Err(NO_ENV_FILE.to_owned());
            }
            copy_table(entry, "env", variable, &mut upstream)?;
        }
        (Value::Null, Some(member)) => {
            if entry["type"] == "sse" || entry["transport"] == "sse" {
                // That transport has been replaced before there was another era.
                upstream.insert("era".to_owned(), "legacy".into());
            }
            let url = entry[member]
                .as_str()
                .ok_or_else(|| format!("its `{member}` must be a string"))?;
            upstream.insert("url".to_owned(), expanded(member, url)?.into());
            copy_table(entry, "headers", variable, &mut upstream)?;
        }
        (Value::Null, None) => return Err("it needs a `command` or a `url`".to_owned()),
        (_, None) => return Err("its `command` must be a string".to_owned()),
        (_, Some(member)) => return Err(format!("it has a `{member}` and a `command`; give one of them")),
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

/// Copies a table of strings. Its variables are replaced when the section is read, so that no message shows a value. Hosts pass numbers and booleans on as texts,
/// and leave out what is null.
fn copy_table(
    entry: &Value,
    member: &str,
    variable: fn(&str) -> Option<String>,
    upstream: &mut Map<String, Value>,
) -> Result<(), String> {
    let wrong = || format!("its `{member}` must be an object of strings");
    let table = match &entry[member] {
        Value::Null => return Ok(()),
        Value::Object(table) => table,
        _ => return Err(wrong()),
    };
    let mut copied = Map::new();
    for (key, value) in table {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => bracketed(text, variable),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => return Err(wrong()),
        };
        expand(&text, variable).map_err(|why| format!("its `{member}.{key}`: {why}"))?;
        copied.insert(key.clone(), text.into());
    }
    upstream.insert(member.to_owned(), copied.into());
    Ok(())
}

/// A text with `$VAR`, as Gemini CLI has it, in brackets, if the variable is set. Other hosts mean the text itself.
fn bracketed(text: &str, variable: fn(&str) -> Option<String>) -> String {
    let mut parts = text.split('$');
    let mut bracketed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
        let (name, rest) = part.split_at(end.unwrap_or(part.len()));
        let is_name = name.len() > 1 && !name.starts_with(|c: char| c.is_ascii_digit());
        match is_name && variable(name).is_some() {
            true => bracketed.extend(["${", name, "}", rest]),
            false => bracketed.extend(["$", part]),
        }
    }
    bracketed
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

    fn variable(name: &str) -> Option<String> {
        (name == "TOKEN").then(|| "secret".to_owned())
    }

    fn servers(text: &str) -> Vec<McpServer> {
        read(text, variable).unwrap()
    }

    fn wrong(server: &McpServer) -> (usize, &str, &str) {
        (server.line, &server.given, server.section.as_ref().unwrap_err())
    }

    /// A host would refuse the file, too.
    #[test]
    fn comments_and_trailing_commas_are_all_that_goes_beyond_json() {
        assert_eq!(
            servers("{\"mcpServers\": {\"a\": {\"command\": \"x\",}, // mine\n},}").len(),
            1
        );
        let toml = read("# mine\n[server]\nname = \"x\"\n", variable).unwrap_err();
        assert!(toml.to_string().contains("without --mcp-config"), "{toml}");
        for loose in [
            r#"{"mcpServers": {"a": {"command": "x" "args": []}}}"#,
            r#"{"mcpServers": {"a": {"command": 'x'}}}"#,
            r#"{mcpServers: {"a": {"command": "x"}}}"#,
        ] {
            assert!(read(loose, variable).is_err(), "{loose}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_server_is_named_with_its_line() {
        let text = r#"{"mcpServers": {
            "a": {},
            "b": {"command": "x", "args": [1]},
            "c d": {"command": "x"},
            "c_d": {"command": "y"},
            "e": {"url": "https://h/mcp", "command": "x"},
            "f": {
                "command": "x",
                "env": {
                    "A": "${TOKEN}",
                    "B": "${NONE}"
                }
            },
            "g": {"command": "x", "args": ["a", "${input:key}"]},
            "h": {"url": 1},
            "i": {"command": "x", "envFile": ".env"}
        }}"#;
        let servers = servers(text);
        let wrong: Vec<_> = servers
            .iter()
            .filter(|server| server.section.is_err())
            .map(wrong)
            .collect();
        assert_eq!(
            wrong,
            [
                (2, "a", "it needs a `command` or a `url`"),
                (3, "b", "its `args` must be an array of strings"),
                (5, "c_d", "the one in line 4 is called `c_d`, too; rename one of them"),
                (6, "e", "it has a `url` and a `command`; give one of them"),
                (11, "f", "its `env.B`: the variable NONE is not set"),
                (
                    14,
                    "g",
                    "its `args`: `${input:key}` is not supported; name a variable: `${VAR}`"
                ),
                (15, "h", "its `url` must be a string"),
                (16, "i", NO_ENV_FILE),
            ]
        );
        assert_eq!(servers[2].name, "c_d");
    }

    /// Each is what stands in its own line.
    #[test]
    fn of_two_servers_with_one_name_the_first_is_left_out() {
        let servers = servers(
            r#"{"mcpServers": {
            "a": {"command": "x"},
            "a": {"command": "y", "env": {
                "B": "b"
            }}
        }}"#,
        );
        let section = servers[1].section.as_ref().unwrap();
        assert_eq!(section["command"], serde_json::json!(["y"]));
        let expected = (
            2,
            "a",
            "the one in line 3 has the same name, and counts; rename one of them",
        );
        assert_eq!(wrong(&servers[0]), expected);
    }

    #[test]
    fn values_of_variables_are_read_as_hosts_read_them() {
        let text = r#"{"mcpServers": {
            "a": {"command": "x", "env": {"N": 8080, "B": true, "NULL": null, "T": "$TOKEN", "E": "Bearer $TOKEN!", "L": "pa$$word$1 $NONE $", "S": "${TOKEN}"}},
            "b": {"type": "sse", "url": "https://h/sse"}
        }}"#;
        let servers = servers(text);
        let section = servers[0].section.as_ref().unwrap();
        let expected = serde_json::json!({
            "N": "8080", "B": "true", "T": "${TOKEN}", "E": "Bearer ${TOKEN}!", "L": "pa$$word$1 $NONE $", "S": "${TOKEN}"
        });
        assert_eq!(section["env"], expected);
        assert_eq!(servers[1].section.as_ref().unwrap()["era"], "legacy");
    }

    /// Each client has its own word for it.
    #[test]
    fn the_url_of_a_server_has_several_names() {
        let text = r#"{"mcpServers": {
            "a": {"url": "https://h/mcp"},
            "b": {"serverUrl": "https://h/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
            "c": {"httpUrl": "https://h/mcp"},
            "d": {"serverUrl": "https://h/mcp", "url": "https://h/sse"}
        }}"#;
        let servers = servers(text);
        for server in &servers[..3] {
            assert_eq!(server.section.as_ref().unwrap()["url"], "https://h/mcp", "{server:?}");
        }
        assert_eq!(
            servers[1].section.as_ref().unwrap()["headers"]["Authorization"],
            "Bearer ${TOKEN}"
        );
        let expected = "it has a `url` and a `serverUrl`; give one of them";
        assert_eq!(wrong(&servers[3]).2, expected);
    }

    #[test]
    fn a_file_without_servers_is_refused() {
        assert_eq!(read("{}", variable).unwrap_err().to_string(), "it has no `mcpServers`");
        for none in [r#"{"mcpServers": {}}"#, r#"{"mcpServers": {"a": {"disabled": true}}}"#] {
            assert_eq!(read(none, variable).unwrap(), [], "{none}");
        }
        // Clients take the last one of a name.
        let twice = r#"{"mcpServers": {"b": {"command": "x"}}, "mcpServers": {"a": {"command": "x"}, "a": {"command": "y", "disabled": true}}}"#;
        let read = read(twice, variable).unwrap();
        assert!(read.len() == 1 && read[0].section.is_err(), "{read:?}");
    }
    /// In the entry, and beside all of them.
    #[test]
    fn what_a_client_has_switched_off_stays_off() {
        let off = r#"{"mcpServers": {"a": {"command": "x", "isActive": false}, "b": {"command": "x"}}, "disabledServers": ["c"]}"#;
        assert_eq!(servers(off).len(), 1);
        let denied = servers(
            r#"{"mcpServers": {"one": {"command": "x", "disabledTools": ["read"]}, "two": {"command": "x"}}, "permissions": {"deny": ["mcp__one__write"]}}"#,
        );
        let tools = |server: &McpServer| server.section.as_ref().unwrap().get("tools").cloned();
        assert_eq!(tools(&denied[0]), Some(serde_json::json!({"deny": ["write", "read"]})));
        assert_eq!(tools(&denied[1]), None);
        let unknown = servers(r#"{"mcpServers": {"a": {"command": "x", "toolFilter": ["y"]}}}"#);
        assert!(wrong(&unknown[0]).2.contains("toolFilter"), "{unknown:?}");
    }
}

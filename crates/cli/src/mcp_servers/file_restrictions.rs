//! What a user has switched off beside the servers of a file: in settings that hold for all of them.

use super::{
    restriction_words::{ListKind, list_kind, normalized, restricts},
    usable_name,
};
use serde_json::Value;

/// What names of lists of servers say beside what the lists do.
const SERVER_NOUNS: [&str; 4] = ["mcpjson", "mcp", "servers", "server"];
/// The same of lists of tools.
const TOOL_NOUNS: [&str; 3] = ["mcp", "tools", "tool"];
/// Members that restrict nothing, by their paths. They say which tools of the host there are or run without a question, and that servers start without one.
const HARMLESS: [&str; 4] = ["tools.allowed", "tools.core", "coreTools", "enableAllProjectMcpServers"];
/// The servers themselves.
const SERVERS: [&str; 2] = ["mcpServers", "servers"];

/// What holds for the servers of a file.
#[derive(Debug, Default)]
pub(super) struct FileRestrictions {
    /// Each list of servers of which only these are used.
    allowed: Vec<Vec<String>>,
    /// Servers that are not used.
    excluded: Vec<String>,
    /// Tools that are not offered, as the client names them.
    denied_tools: Vec<String>,
}

impl FileRestrictions {
    /// Reads them.
    ///
    /// # Errors
    /// A member that cannot be read, or that restricts in a way that is not known.
    pub(super) fn read(file: &Value) -> Result<Self, String> {
        let mut read = Self::default();
        for (member, value) in file.as_object().into_iter().flatten() {
            if SERVERS.contains(&member.as_str()) || HARMLESS.contains(&member.as_str()) {
                continue;
            }
            match value.as_object().filter(|_| list_of(member).is_none()) {
                Some(members) if is_permission(member) => read.permissions(member, members)?,
                Some(members) => {
                    for (inner, value) in members {
                        let path = format!("{member}.{inner}");
                        if !HARMLESS.contains(&path.as_str()) {
                            read.member(&path, value)?;
                        }
                    }
                }
                None => read.member(member, value)?,
            }
        }
        Ok(read)
    }

    fn member(&mut self, path: &str, value: &Value) -> Result<(), String> {
        // `true` and `false` are no lists.
        match list_of(path).filter(|_| !value.is_boolean()) {
            _ if value.is_null() => {}
            Some((Named::Servers, kind)) => {
                let wrong = || format!("`{path}` of the file must be an array of names of servers");
                let servers = names(value).ok_or_else(wrong)?;
                match kind {
                    ListKind::Allowed => self.allowed.push(servers),
                    ListKind::Denied => self.excluded.extend(servers),
                }
            }
            Some((Named::Tools, ListKind::Denied)) => {
                let wrong = || format!("`{path}` of the file must be an array of names of tools");
                self.denied_tools.extend(names(value).ok_or_else(wrong)?);
            }
            // Some clients mean tools that run without asking.
            Some((Named::Tools, ListKind::Allowed)) if value.as_array().is_some_and(Vec::is_empty) => {}
            Some((Named::Tools, ListKind::Allowed)) => return Err(unknown(path)),
            None if is_of_servers(path) && restricts(path, value) => return Err(unknown(path)),
            None => {}
        }
        Ok(())
    }

    /// Reads what is permitted: `mcp__SERVER` and `mcp__SERVER__TOOL` in `deny` are not offered. What is allowed runs without asking.
    fn permissions(&mut self, member: &str, members: &serde_json::Map<String, Value>) -> Result<(), String> {
        for (inner, value) in members {
            let path = format!("{member}.{inner}");
            match normalized(inner).as_str() {
                "allow" | "ask" | "disablebypasspermissionsmode" => {}
                "deny" => {
                    let denied =
                        names(value).ok_or_else(|| format!("`{path}` of the file must be an array of rules"))?;
                    // `Bash(rm *)` is about a tool of the client itself.
                    let is_of_mcp = |rule: &str| normalized(rule).starts_with("mcp");
                    let of_servers = denied.into_iter().filter(|rule| !rule.contains('(') || is_of_mcp(rule));
                    for rule in of_servers {
                        let server = rule.strip_prefix("mcp__").unwrap_or_default();
                        let server = server.split("__").next().unwrap_or_default();
                        let is_known = !is_of_mcp(&rule) || rule.starts_with("mcp__");
                        if !is_known || (server.contains('*') && server != "*") {
                            return Err(format!("{}: {rule:?}", unknown(&path)));
                        }
                        self.denied_tools.push(rule);
                    }
                }
                _ if restricts(inner, value) => return Err(unknown(&path)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether a server is not used.
    pub(super) fn excludes(&self, server: &str) -> bool {
        let is_in = |list: &[String]| list.iter().any(|name| name == server);
        is_in(&self.excluded) || self.allowed.iter().any(|allowed| !is_in(allowed))
    }

    /// The tools of a server that are not offered, as patterns.
    pub(super) fn denied_tools(&self, server: &str) -> Vec<&str> {
        let server = usable_name(server);
        let mut denied: Vec<&str> = Vec::new();
        for tool in self.denied_tools.iter().filter_map(|tool| denied_tool(tool, &server)) {
            if !denied.contains(&tool) {
                denied.push(tool);
            }
        }
        denied
    }
}

/// The tool of a server that a client's name of a tool means, if it means one of this server.
fn denied_tool<'a>(named: &'a str, server: &str) -> Option<&'a str> {
    let named = named.split('(').next().unwrap_or(named);
    if let Some(rest) = named.strip_prefix("mcp__") {
        return match rest.strip_prefix(server).or_else(|| rest.strip_prefix('*'))? {
            "" => Some("*"),
            tool => tool.strip_prefix("__"),
        };
    }
    let of_server = |prefix: &str, separator: &str| {
        let rest = named.strip_prefix(prefix)?.strip_prefix(server)?;
        rest.strip_prefix(separator)
    };
    Some(of_server("mcp_", "_").or_else(|| of_server("", "__")).unwrap_or(named))
}

/// What a list names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Servers,
    Tools,
}

/// What the list at this path names, and what it does with it.
fn list_of(path: &str) -> Option<(Named, ListKind)> {
    let name = normalized(path);
    let has = |noun| name.contains(noun);
    match (has("tool"), has("server") || has("mcp")) {
        (true, _) => Some((Named::Tools, list_kind(path, &TOOL_NOUNS)?)),
        (false, true) => Some((Named::Servers, list_kind(path, &SERVER_NOUNS)?)),
        (false, false) => None,
    }
}

/// Whether a name is one of servers or their tools: settings of a client have many others.
fn is_of_servers(path: &str) -> bool {
    let name = normalized(path);
    ["mcp", "server", "tool"].iter().any(|noun| name.contains(noun))
}

fn is_permission(member: &str) -> bool {
    ["permission", "permissions"].contains(&normalized(member).as_str())
}

/// The names in a list, or of objects with a name.
fn names(list: &Value) -> Option<Vec<String>> {
    let elements = list.as_array()?.iter();
    elements
        .map(|element| {
            let name = element.as_str().or(element["serverName"].as_str());
            name.map(str::to_owned)
        })
        .collect()
}

fn unknown(path: &str) -> String {
    format!(
        "`{path}` of the file may switch something off, and is not understood here: leave it out, or write the servers as `[upstream.NAME]` with `tools`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn servers_are_switched_off_beside_them() {
        for file in [
            json!({"mcp": {"excluded": ["a"]}}),
            json!({"mcp": {"allowed": ["b"]}}),
            json!({"mcp": {"allowed": []}}),
            json!({"excludeMCPServers": ["a"]}),
            json!({"disabledMcpjsonServers": ["a"]}),
            json!({"deniedMcpServers": [{"serverName": "a"}]}),
            json!({"disabledServers": ["a"]}),
            json!({"disabled_mcp_servers": ["a"]}),
        ] {
            assert!(FileRestrictions::read(&file).unwrap().excludes("a"), "{file}");
        }
        let used = json!({"mcp": {"allowed": ["a"], "excluded": ["b"]}, "disabledServers": ["b"]});
        assert!(!FileRestrictions::read(&used).unwrap().excludes("a"));
    }

    #[test]
    fn tools_are_switched_off_beside_their_servers() {
        let denied: [(Value, &[&str]); 9] = [
            (
                json!({"permissions": {"deny": ["mcp__a__write", "mcp__b__read", "Bash(rm *)"]}}),
                &["write"],
            ),
            (
                json!({"permissions": {"deny": ["mcp__a"], "allow": ["mcp__a__x"]}}),
                &["*"],
            ),
            (json!({"permissions": {"deny": ["mcp__*"]}}), &["*"]),
            (
                json!({"tools": {"exclude": ["write", "mcp_a_read"], "core": ["x"], "allowed": ["y"]}}),
                &["write", "read"],
            ),
            (
                json!({"excludeTools": ["write", "run(x)", "a__one", "b__two"]}),
                &["write", "run", "one", "b__two"],
            ),
            (json!({"disabledTools": []}), &[]),
            (json!({"permissions": {"defaultMode": "plan"}, "allowedTools": []}), &[]),
            // Settings of the client itself.
            (
                json!({"general": {"disableAutoUpdate": true}, "hiddenFiles": ["x"], "ui": {"hideBanner": true}}),
                &[],
            ),
            (
                json!({"mcp": {"enabled": true}, "enableAllProjectMcpServers": false}),
                &[],
            ),
        ];
        for (file, expected) in denied {
            let read = FileRestrictions::read(&file).unwrap();
            assert_eq!(read.denied_tools("a"), expected, "{file}");
            assert!(!read.excludes("a"), "{file}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (file, member) in [
            (json!({"mcp": {"excluded": "a"}}), "mcp.excluded"),
            (json!({"tools": {"exclude": {"a": true}}}), "tools.exclude"),
            (json!({"permissions": {"deny": {"tools": ["x"]}}}), "permissions.deny"),
            (json!({"permissions": {"deny": ["mcp__a*__x"]}}), "mcp__a*__x"),
            (json!({"permissions": {"deny": ["Mcp(a:write)"]}}), "Mcp(a:write)"),
            (json!({"permissions": {"blocked": ["x"]}}), "permissions.blocked"),
            (json!({"allowedTools": ["x"]}), "allowedTools"),
            (json!({"toolFilter": ["x"]}), "toolFilter"),
            (json!({"mcp": {"enabled": false}}), "mcp.enabled"),
            (
                json!({"chat.mcp.access": "x", "serverPermissions": {"a": "none"}}),
                "serverPermissions",
            ),
        ] {
            let error = FileRestrictions::read(&file).unwrap_err();
            assert!(error.contains(member), "{file}: {error}");
        }
    }
}

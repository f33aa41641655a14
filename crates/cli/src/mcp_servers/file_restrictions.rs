//! What a user has switched off beside the servers of a file, for all of them. Hosts keep many other settings in such a file. So only those members are read whose names speak of
//! MCP servers and their tools, and those in `mcp`, `tools` and `permissions`.

use super::{
    restriction_words::{
        ListKind, flag, gives, is_access, is_harmless, is_nothing, is_off, list_kind, read_switch, restricts_something,
        takes, words,
    },
    restrictions::EntryRestrictions,
    tool_names::{names_server, of_server, spellings},
};
use serde_json::Value;

/// What a name has beside what it does, if it is one of servers.
const SERVER_NOUNS: [&str; 4] = ["mcpjson", "mcp", "servers", "server"];
/// The same of tools.
const TOOL_NOUNS: [&str; 3] = ["mcp", "tools", "tool"];
/// Words of names that say where in a host's settings something is.
const PLACES: [&str; 6] = ["admin", "chat", "settings", "config", "list", "names"];
/// Members that restrict nothing, by their paths. They say which tools of the host there are or run without a question, that servers start without one, and that a host
/// reads other files, or has other servers, too.
const HARMLESS: [&str; 6] = [
    "tools.allowed",
    "tools.core",
    "coreTools",
    "enableAllProjectMcpServers",
    "includeMcpJson",
    "mcp.servers",
];
/// The servers themselves.
const SERVERS: [&str; 2] = ["mcpServers", "servers"];

/// What holds for the servers of a file.
#[derive(Debug, Default)]
pub(crate) struct FileRestrictions {
    /// Each list of servers of which only these are used.
    allowed: Vec<Vec<String>>,
    /// Servers that are not used.
    excluded: Vec<String>,
    /// Tools that are not offered, as the client names them.
    denied_tools: Vec<String>,
    /// The same where the client's own tools are named, too: a tool of a server has the server in front.
    denied_with_server: Vec<String>,
    /// Only these tools are offered: `@server`, `@server/tool` or `*`.
    offered: Option<Vec<String>>,
}

impl FileRestrictions {
    /// Reads them.
    ///
    /// # Errors
    /// A member that cannot be read, or that restricts in a way that is not known.
    pub(crate) fn read(file: &Value) -> Result<Self, String> {
        let mut read = Self::default();
        for (member, value) in file.as_object().into_iter().flatten() {
            if !SERVERS.contains(&member.as_str()) {
                read.member(member, value)?;
            }
        }
        Ok(read)
    }

    fn member(&mut self, path: &str, value: &Value) -> Result<(), String> {
        let words = words(path);
        if value.is_null() || HARMLESS.contains(&path) || is_harmless(&words) {
            return Ok(());
        }
        if matches!(&*words, [word] if word == "permission" || word == "permissions") {
            return self.permissions(path, value);
        }
        // `true` and `false` are no lists.
        if let Some((named, kind)) = list_of(&words).filter(|_| !value.is_boolean()) {
            // Of tools that run without a question.
            let is_unasked = words.iter().any(|word| word.starts_with("allow"));
            return match named {
                ListSubject::Tools if kind == ListKind::Allowed && is_unasked => Ok(()),
                named => self.list(path, named, kind, value),
            };
        }
        if words.iter().all(|word| is_place(word)) {
            let is_none = flag(value) == Some(false) || value == "none";
            return match value {
                Value::Array(_) if path == "tools" => {
                    self.offered = Some(names(value).ok_or_else(|| unknown(path))?);
                    Ok(())
                }
                Value::Object(members) => members
                    .iter()
                    .try_for_each(|(inner, value)| self.member(&format!("{path}.{inner}"), value)),
                _ if is_none && words.iter().any(|word| is_noun(word)) => Err(unknown(path)),
                _ => Ok(()),
            };
        }
        if let Some(tool) = path.strip_prefix("tools.") {
            self.switch_tool(tool, value);
        }
        match restricts(path, &words, value) {
            true => Err(unknown(path)),
            false => Ok(()),
        }
    }

    fn list(&mut self, path: &str, named: ListSubject, kind: ListKind, value: &Value) -> Result<(), String> {
        let what = match named {
            ListSubject::Servers => "servers",
            ListSubject::Tools => "tools",
        };
        // Managers of servers keep there what is not in `mcpServers`.
        if let (ListSubject::Servers, ListKind::Denied, Value::Object(parked)) = (named, kind, value) {
            let off = parked.iter().filter(|(_, value)| flag(value) == Some(true));
            self.excluded.extend(off.map(|(name, _)| name.clone()));
            return Ok(());
        }
        let wrong = || {
            let named = "an array of names, or of objects with `serverName`";
            format!("`{path}` of the file, which is about {what}, must be {named}: nothing else is understood here")
        };
        let names = names(value).ok_or_else(wrong)?;
        match (named, kind) {
            (ListSubject::Servers, ListKind::Allowed) => self.allowed.push(names),
            (ListSubject::Servers, ListKind::Denied) => self.excluded.extend(names),
            (ListSubject::Tools, ListKind::Denied) => self.denied_tools.extend(names),
            // Of servers, or of the client alone.
            (ListSubject::Tools, ListKind::Allowed) if !names.is_empty() => return Err(unknown(path)),
            (ListSubject::Tools, ListKind::Allowed) => {}
        }
        Ok(())
    }

    /// Reads a switch of a tool, such as `"git_write": false` or `"git": {"write": false}`. Only the name of a server in it tells it from settings of a host's own tools.
    fn switch_tool(&mut self, named: &str, value: &Value) {
        match value {
            Value::Object(members) if is_off(value) || members.is_empty() => {
                self.denied_with_server.extend(is_off(value).then(|| named.to_owned()));
            }
            Value::Object(members) => members
                .iter()
                .for_each(|(inner, value)| self.switch_tool(&format!("{named}.{inner}"), value)),
            Value::String(text) if text.split(' ').all(takes) => self.denied_with_server.push(named.to_owned()),
            _ if flag(value) == Some(false) => self.denied_with_server.push(named.to_owned()),
            _ => {}
        }
    }

    /// Reads what is permitted: `mcp__SERVER` and `mcp__SERVER__TOOL` in `deny` are not offered. What is allowed runs without asking.
    fn permissions(&mut self, member: &str, value: &Value) -> Result<(), String> {
        let Some(members) = value.as_object() else {
            return match value.as_str().is_some_and(takes) || flag(value) == Some(false) {
                true => Err(unknown(member)),
                false => Ok(()),
            };
        };
        for (inner, value) in members {
            let path = format!("{member}.{inner}");
            let words = words(inner);
            let mut what = words.iter().filter(|word| !TOOL_NOUNS.contains(&word.as_str()));
            match inner.as_str() {
                "allow" | "ask" => {}
                "deny" => {
                    let wrong = || format!("`{path}` of the file must be an array of rules");
                    for rule in names(value).ok_or_else(wrong)? {
                        self.deny(rule)
                            .map_err(|rule| format!("{}: {rule:?}", unknown(&path)))?;
                    }
                }
                "*" if value.as_str().is_some_and(takes) => self.denied_tools.push("*".to_owned()),
                "*" if value.is_string() => {}
                // Of the client, or of something that is not MCP.
                _ if what.all(|word| restricts_something(word)) && !is_nothing(value) => {
                    return Err(unknown(&path));
                }
                _ => self.switch_tool(inner, value),
            }
        }
        Ok(())
    }

    /// Reads a rule of what is denied: `Bash(rm *)` is about a tool of the client itself.
    fn deny(&mut self, rule: String) -> Result<(), String> {
        let is_of_mcp = words(&rule).first().is_some_and(|word| word.starts_with("mcp"));
        let server = rule.strip_prefix("mcp__").unwrap_or_default();
        let server = server.split("__").next().unwrap_or_default();
        if is_of_mcp && (!rule.starts_with("mcp__") || (server.contains('*') && server != "*")) {
            return Err(rule);
        }
        match is_of_mcp || rule == "*" {
            true => self.denied_tools.push(rule),
            false => self.denied_with_server.push(rule),
        }
        Ok(())
    }

    /// What a server's entry and the file say of its tools; `None` if the server is not used.
    pub(crate) fn of_server(&self, server: &str, entry: &Value) -> Option<Result<EntryRestrictions, String>> {
        let is_used = !is_off(entry) && !self.excludes(server);
        let beside = EntryRestrictions {
            allow: self.offered_tools(server),
            deny: self.denied_tools(server),
            ..EntryRestrictions::default()
        };
        is_used.then(|| beside.read(entry, server))
    }

    /// Whether a server is not used. Gemini CLI compares names so.
    fn excludes(&self, server: &str) -> bool {
        let is_in = |list: &[String]| list.iter().any(|name| name.trim().eq_ignore_ascii_case(server));
        is_in(&self.excluded) || self.allowed.iter().any(|allowed| !is_in(allowed))
    }

    /// The tools of a server that are not offered, as patterns.
    fn denied_tools(&self, server: &str) -> Vec<String> {
        let denied = self.denied_tools.iter().flat_map(|tool| spellings(tool, server));
        let with_server = self.denied_with_server.iter();
        let mut distinct: Vec<String> = Vec::new();
        for tool in denied.chain(with_server.filter_map(|tool| of_server(tool, server))) {
            if !distinct.iter().any(|known| known == tool) {
                distinct.push(tool.to_owned());
            }
        }
        distinct
    }

    /// The tools of a server of which only these are offered.
    fn offered_tools(&self, server: &str) -> Option<Vec<String>> {
        let offered = self.offered.as_ref()?;
        let tools: Vec<&str> = (offered.iter())
            .filter_map(|tool| match names_server(tool) {
                true => of_server(tool, server),
                false => (tool == "*").then_some("*"),
            })
            .collect();
        (!tools.contains(&"*")).then(|| tools.into_iter().map(str::to_owned).collect())
    }
}

fn is_noun(word: &str) -> bool {
    SERVER_NOUNS.contains(&word) || TOOL_NOUNS.contains(&word)
}

fn is_place(word: &str) -> bool {
    is_noun(word) || PLACES.contains(&word)
}

/// Whether a member takes something away from servers, or from their tools. Whatever else a setting of tools has in its name is about the host's own.
fn restricts(path: &str, words: &[String], value: &Value) -> bool {
    let is_inner = path.contains('.');
    let has = |is: fn(&str) -> bool| words.iter().any(|word| is(word));
    let is_of_mcp = has(|word| word.starts_with("mcp")) || (!is_inner && has(|word| SERVER_NOUNS.contains(&word)));
    let is_of_tools = has(is_noun) && (!is_inner || path.starts_with("tools."));
    let what: Vec<String> = words.iter().filter(|word| !is_place(word)).cloned().collect();
    let is_whole = (what.iter()).all(|word| gives(word) || (restricts_something(word) && !word.starts_with("sandbox")));
    let takes = match what.iter().any(|word| restricts_something(word)) {
        true => (is_of_mcp || is_whole) && !is_nothing(value),
        false => is_whole && flag(value) != Some(true),
    };
    let has_no_access = what.iter().all(|word| is_access(word)) && value != "all" && flag(value) != Some(true);
    // `"disabled": true` beside the servers.
    let is_off = read_switch(&what, value) == Some(false) && (is_of_mcp || !is_inner);
    is_off || (is_of_mcp && (takes || has_no_access)) || (is_of_tools && takes)
}

/// What a list names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListSubject {
    Servers,
    Tools,
}

/// What the list with these words in its path names, and what it does with it.
fn list_of(words: &[String]) -> Option<(ListSubject, ListKind)> {
    let has = |nouns: &[&str]| words.iter().any(|word| nouns.contains(&word.as_str()));
    match (has(&["tool", "tools"]), has(&SERVER_NOUNS)) {
        (true, _) => Some((ListSubject::Tools, list_kind(words, &TOOL_NOUNS)?)),
        (false, true) => Some((ListSubject::Servers, list_kind(words, &SERVER_NOUNS)?)),
        (false, false) => None,
    }
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
            json!({"mcp": {"excluded": [" A "]}}),
            json!({"disabledMcpServers": {"a": true}}),
        ] {
            assert!(FileRestrictions::read(&file).unwrap().excludes("a"), "{file}");
        }
        let used = json!({"mcp": {"allowed": ["a"], "excluded": ["b"]}, "disabledServers": ["b"]});
        assert!(!FileRestrictions::read(&used).unwrap().excludes("a"));
    }

    #[test]
    fn tools_are_switched_off_beside_their_servers() {
        let denied = r#"
            {"permissions": {"deny": ["mcp__a__write", "mcp__b__read", "Bash(rm *)"]}} => ["write"]
            {"permissions": {"deny": ["mcp__a"], "allow": ["mcp__a__x"]}} => ["*"]
            {"permissions": {"deny": ["mcp__*"]}} => ["*"]
            {"tools": {"exclude": ["write", "mcp_a_read"], "core": ["x"], "allowed": ["y"]}} => ["write", "mcp_a_read", "read"]
            {"excludeTools": ["write", "run(x)", "a__one", "b__two"]} => ["write", "run", "a__one", "one", "b__two"]
            {"disabledTools": []} => []
            # Of opencode, which names its own tools there, too.
            {"tools": {"write": false, "a_read": false, "useRipgrep": false}} => ["read"]
            {"tools": {"a": {"write": false}, "b": {"read": false}}} => ["write"]
            {"permission": {"*": "allow", "a_write": "deny"}} => ["write"]
            {"permission": {"edit": "deny", "a_write": "deny", "bash": {"rm *": "deny"}}} => ["write"]
            # Claude's own tools.
            {"permissions": {"deny": ["WebFetch", "mcp__a__write"], "disableAutoMode": "disable", "additionalDirectories": ["x"]}} => ["write"]
            {"permissions": {"defaultMode": "plan"}, "allowedTools": []} => []
            # Settings of the client itself.
            {"general": {"disableAutoUpdate": true}, "hiddenFiles": ["x"], "ui": {"hideBanner": true}} => []
            {"mcp": {"enabled": true}, "enableAllProjectMcpServers": false} => []
        "#;
        for line in denied.trim().lines().filter(|line| !line.trim().starts_with('#')) {
            let (file, expected) = line.trim().split_once(" => ").unwrap();
            let file: Value = serde_json::from_str(file).expect(line);
            let expected: Vec<&str> = serde_json::from_str(expected).expect(line);
            let read = FileRestrictions::read(&file).unwrap();
            assert_eq!(read.denied_tools("a"), expected, "{file}");
            assert!(!read.excludes("a"), "{file}");
        }
    }

    /// An agent of Amazon Q.
    #[test]
    fn only_tools_that_are_listed_are_offered() {
        let file = json!({"tools": ["@a/read", "@b", "fs_read", "@builtin"], "allowedTools": ["fs_read"], "includeMcpJson": false});
        let read = FileRestrictions::read(&file).unwrap();
        let allowed = |server| {
            let read = read.of_server(server, &json!({})).unwrap().unwrap();
            read.as_key()
        };
        assert_eq!(allowed("a"), Some(json!({"allow": ["read"]})));
        assert_eq!(allowed("b"), None);
        assert_eq!(allowed("c"), Some(json!({"deny": ["*"]})));
        let all = FileRestrictions::read(&json!({"tools": ["*"]})).unwrap();
        assert_eq!(all.offered_tools("c"), None);
    }

    #[test]
    fn other_settings_of_hosts_restrict_nothing() {
        for file in [
            json!({"tools": {"disableLLMCorrection": true, "sandbox": "docker", "enableToolOutputTruncation": false, "shell": {"inactivityTimeout": 300, "showColor": false}}}),
            json!({"security": {"toolSandboxing": true}, "experimental": {"toolOutputMasking": {"enabled": false}}}),
            json!({"toolUsage": {"mcp__db__select_rows": {"usageCount": 1}}, "cachedGates": {"enable_mcp_lazy": false}}),
            json!({"projects": {"/home/me/mcp-activity": {"allowedTools": []}, "/home/me/restricted-tools": {"disabledMcpServers": ["a"]}}}),
            json!({"mcpServers_disabled": {}, "_disabledMcpServers": {"b": {"command": "x"}}}),
            json!({"ui": {"hideTooltips": true}, "ui.hideTooltips": true, "typescript.tsserver.enableTracing": false, "toolbar.visible": false}),
            json!({"allowManagedMcpServersOnly": false, "allowedTools": ["x"], "isUsingBuiltInNodeForMCP": false}),
            json!({"mcpSettings": {"enableSmartToolRouting": false}, "chat.mcp.discovery.enabled": false, "chat.mcp.access": "all"}),
        ] {
            let read = FileRestrictions::read(&file).unwrap();
            let server = read.of_server("a", &json!({})).unwrap().unwrap();
            assert_eq!(server, EntryRestrictions::default(), "{file}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let files = r#"
            {"mcp": {"excluded": "a"}} => mcp.excluded
            {"tools": {"exclude": {"a": true}}} => tools.exclude
            {"permissions": {"deny": {"tools": ["x"]}}} => permissions.deny
            {"permissions": {"deny": ["mcp__a*__x"]}} => mcp__a*__x
            {"permissions": {"deny": ["Mcp(a:write)"]}} => Mcp(a:write)
            {"permissions": {"blocked": ["x"]}} => permissions.blocked
            {"permissions": {"disallowedTools": ["x"]}} => permissions.disallowedTools
            {"enabledTools": ["x"]} => enabledTools
            {"allowManagedMcpServersOnly": true} => allowManagedMcpServersOnly
            {"admin": {"mcp": {"enabled": false}}} => admin.mcp.enabled
            {"mcp": false} => mcp
            {"mcpEnabled": false} => mcpEnabled
            {"disabled": true} => disabled
            {"permission": "deny"} => permission
            {"chat.mcp.access": "none"} => chat.mcp.access
            {"blockUnverifiedMcpServers": true} => blockUnverifiedMcpServers
            {"toolFilter": ["x"]} => toolFilter
            {"mcp": {"enabled": false}} => mcp.enabled
            {"serverPermissions": {"a": "none"}} => serverPermissions
        "#;
        for line in files.trim().lines() {
            let (file, member) = line.trim().split_once(" => ").unwrap();
            let file: Value = serde_json::from_str(file).expect(line);
            let error = FileRestrictions::read(&file).unwrap_err();
            assert!(error.contains(member), "{file}: {error}");
        }
    }
}

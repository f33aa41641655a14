//! What a user has switched off in an entry of the file of another client: the server, and tools of it. Each client has its own words for it. What restricts in a way that is
//! not known refuses the server, since it would be served with more than its user allows.

use super::{
    restriction_words::{
        ListKind, flag, is_harmless, is_off, is_offered, list_kind, read_switch, restricts, restricts_something, takes,
        words,
    },
    tool_names::spellings,
};
use serde_json::{Map, Value};

/// What names of lists of tools say beside what the lists do.
const TOOL_NOUNS: [&str; 2] = ["tools", "tool"];
/// Whose objects have the names of what servers offer beside tools.
const NAMED: [&str; 3] = ["prompts", "resources", "templates"];
/// Members that restrict nothing: how a server is reached, and what clients note of it.
const KNOWN: [&str; 45] = [
    "command",
    "args",
    "env",
    "envFile",
    "cwd",
    "url",
    "serverUrl",
    "httpUrl",
    "baseUrl",
    "headers",
    "client_header_forwarding",
    "type",
    "transport",
    "transportType",
    "name",
    "displayName",
    "title",
    "description",
    "version",
    "id",
    "icon",
    "logoUrl",
    "tags",
    "provider",
    "providerUrl",
    "registryUrl",
    "installSource",
    "shouldConfig",
    "longRunning",
    "watchPaths",
    "alwaysAllow",
    "auth",
    "oauth",
    "dev",
    "gallery",
    "inputSchema",
    "summary",
    "category",
    "license",
    "repository",
    "stderr",
    "proxy",
    "cache",
    "restart",
    "retry",
];

/// What an entry says of its tools.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryRestrictions {
    /// Only these, as patterns.
    pub(crate) allow: Option<Vec<String>>,
    /// Not these.
    pub(crate) deny: Vec<String>,
    /// Members that are not known, and are ignored.
    pub(crate) ignored: Vec<String>,
}

impl EntryRestrictions {
    /// Adds to what the file says beside its servers what the entry of this server says.
    ///
    /// # Errors
    /// A member that restricts the server in a way that is not known.
    pub(super) fn read(mut self, entry: &Value, server: &str) -> Result<Self, String> {
        for (member, value) in entry.as_object().into_iter().flatten() {
            let words = words(member);
            if KNOWN.contains(&member.as_str()) || is_harmless(&words) || read_switch(&words, value).is_some() {
                continue;
            }
            if !self.member(member, member, value, server)? && !value.is_null() {
                self.ignored.push(member.clone());
            }
        }
        // None is allowed, where an empty list of ours allows all.
        if self.allow.as_ref().is_some_and(Vec::is_empty) {
            self = Self {
                allow: None,
                deny: vec!["*".to_owned()],
                ..self
            };
        }
        Ok(self)
    }

    /// Reads a member, and those in it. `false` if it says nothing that is known.
    fn member(&mut self, path: &str, member: &str, value: &Value, server: &str) -> Result<bool, String> {
        let words = words(member);
        let unknown = || {
            Err(format!(
                "its `{path}` may switch something off, and is not understood here: leave it out, or write the server as `[upstream.NAME]` with `tools`"
            ))
        };
        if value.is_null() || is_harmless(&words) {
            return Ok(true);
        }
        match read_switch(&words, value) {
            Some(true) => return Ok(true),
            // Of something in the entry, and not of the server.
            Some(false) => return unknown(),
            None => {}
        }
        let is_of_tools = words.iter().any(|word| TOOL_NOUNS.contains(&word.as_str()));
        let is_named = words.iter().all(|word| is_offered(word))
            && words.last().is_some_and(|word| NAMED.contains(&word.as_str()));
        let kind = match member {
            "tools" => Some(ListKind::Allowed),
            // Of tools, and not of something else.
            _ if is_of_tools => list_kind(&words, &TOOL_NOUNS),
            _ => None,
        };
        match (value, kind) {
            (Value::Array(names), Some(kind)) => {
                let named = patterns(names, kind, server);
                let added = named.and_then(|named| self.add(kind, named));
                return added.map_or_else(unknown, |()| Ok(true));
            }
            (Value::Object(members), _) if is_of_tools => {
                let added = match filter(members, server) {
                    Some((kind, named)) => self.add(kind, named),
                    None => switched_off(members).map(|off| {
                        let off = off.into_iter().flat_map(|tool| spellings(tool, server));
                        self.deny.extend(off.map(str::to_owned));
                    }),
                };
                return added.map_or_else(unknown, |()| Ok(true));
            }
            (Value::Array(names), None) if is_of_tools && !names.is_empty() => return unknown(),
            (Value::Object(members), _) if is_named => {
                for (name, value) in members {
                    let path = format!("{path}.{name}");
                    match flag(value) {
                        Some(false) => return self.member(&path, "enabled", value, server),
                        _ => drop(self.nested(&path, value, server)?),
                    }
                }
                return Ok(true);
            }
            (Value::Array(names), _) if is_named && !names.is_empty() => return unknown(),
            _ if member == "tools" || restricts(&words, value) => return unknown(),
            _ if words.iter().any(|word| restricts_something(word)) => return Ok(true),
            _ => {}
        }
        self.nested(path, value, server)
    }

    /// Reads the members of a value. `false` if they say nothing that is known.
    fn nested(&mut self, path: &str, value: &Value, server: &str) -> Result<bool, String> {
        let mut is_known = false;
        for (member, value) in value.as_object().into_iter().flatten() {
            if !KNOWN.contains(&member.as_str()) {
                is_known |= self.member(&format!("{path}.{member}"), member, value, server)?;
            }
        }
        for element in value.as_array().into_iter().flatten() {
            is_known |= self.nested(path, element, server)?;
        }
        Ok(is_known)
    }

    /// `None` if there is another list of what is allowed: what is in both would be meant, and that cannot be said here.
    fn add(&mut self, kind: ListKind, named: Vec<String>) -> Option<()> {
        match kind {
            ListKind::Allowed if self.allow.is_some() => return None,
            ListKind::Allowed => self.allow = Some(named),
            ListKind::Denied => self.deny.extend(named),
        }
        Some(())
    }

    /// The key `tools` of an upstream.
    pub(super) fn as_key(&self) -> Option<Value> {
        let mut tools = Map::new();
        tools.extend(
            self.allow
                .iter()
                .map(|allow| ("allow".to_owned(), allow.clone().into())),
        );
        if !self.deny.is_empty() {
            tools.insert("deny".to_owned(), self.deny.clone().into());
        }
        (!tools.is_empty()).then(|| tools.into())
    }
}

/// The names in a list of tools. What is denied is so under each of its names.
fn patterns(names: &[Value], kind: ListKind, server: &str) -> Option<Vec<String>> {
    let mut patterns = Vec::new();
    for name in names {
        let name = name.as_str()?;
        let own = name.split('(').next().unwrap_or(name);
        match kind {
            ListKind::Allowed => patterns.push(own.to_owned()),
            ListKind::Denied => patterns.extend(spellings(own, server).into_iter().map(str::to_owned)),
        }
    }
    Some(patterns)
}

/// `{"mode": "block", "list": […]}`, as TBXark's mcp-proxy has it.
fn filter(members: &Map<String, Value>, server: &str) -> Option<(ListKind, Vec<String>)> {
    let kind = list_kind(&words(members.get("mode")?.as_str()?), &[])?;
    let named = patterns(members.get("list")?.as_array()?, kind, server)?;
    (members.len() == 2).then_some((kind, named))
}

/// The tools that an object of tools switches off; `None` if it says what is not understood.
fn switched_off(tools: &Map<String, Value>) -> Option<Vec<&str>> {
    let mut off = Vec::new();
    for (name, tool) in tools {
        // Of the server, and no tool.
        let said = words(name);
        let is_setting =
            flag(tool) == Some(true) && !name.contains(['_', '-']) && said.iter().any(|word| restricts_something(word));
        if read_switch(&said, tool) == Some(false) || is_setting || (name == "default" && flag(tool) == Some(false)) {
            return None;
        }
        let is_off = match tool {
            Value::Object(_) if is_off(tool) => true,
            Value::Object(_) => match EntryRestrictions::default().nested(name, tool, "") {
                Ok(_) => false,
                Err(_) => return None,
            },
            Value::String(text) if words(text).iter().all(|word| takes(word)) => true,
            flat => !flag(flat)?,
        };
        if is_off {
            off.push(name.as_str());
        }
    }
    Some(off)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_switched_off_is_left_out_or_refuses_the_server() {
        // An entry, and what is left of its tools or, after a `!`, what is refused.
        let cases = r#"
            {"alwaysAllow": ["a"], "timeout": 5, "trust": true, "disabled": false, "enabled": true} => null
            {"disabledTools": ["a", "b"]} => {"deny": ["a", "b"]}
            {"excludeTools": ["a"], "includeTools": ["a", "b(x)"]} => {"allow": ["a", "b"], "deny": ["a"]}
            {"enabled_tools": ["a"], "disabled_tools": []} => {"allow": ["a"]}
            {"includeTools": []} => {"deny": ["*"]}
            {"tools": ["*"]} => {"allow": ["*"]}
            {"tools": {"a": {"enabled": false}, "b": {"disabled": "true"}, "c": true, "d": false}} => {"deny": ["a", "b", "d"]}
            {"disabledTools": "a"} => !disabledTools
            {"disabledTools": [1]} => !disabledTools
            {"disabledResources": ["x"]} => !disabledResources
            {"disabled_prompts": {"x": true}} => !disabled_prompts
            {"disabled_prompts": [], "resources": []} => null
            {"readOnly": true} => !readOnly
            {"readOnly": false, "blockedHosts": [], "enableLogs": true} => null
            {"allowWrites": false} => !allowWrites
            # Of TBXark's mcp-proxy.
            {"options": {"toolFilter": {"mode": "block", "list": ["a"]}}} => {"deny": ["a"]}
            {"options": {"toolFilter": {"mode": "allow", "list": ["a"]}, "logEnabled": false}} => {"allow": ["a"]}
            {"options": {"toolFilter": {"mode": "some", "list": ["a"]}}} => !options.toolFilter
            {"config": {"disabledTools": ["a"]}} => {"deny": ["a"]}
            {"toolOverrides": {"a": {"enabled": false}}} => {"deny": ["a"]}
            {"toolPermissions": {"a": "deny", "b": "on"}} => {"deny": ["a"]}
            {"toolOverrides": [{"name": "a", "enabled": false}]} => !toolOverrides
            {"settings": {"disabled": true}} => !settings.disabled
            {"settings": [{"readOnly": true}]} => !settings.readOnly
            # MCPHub.
            {"tools": {"hub-a": {"enabled": false}}} => {"deny": ["hub-a", "a"]}
            {"disabledTools": ["mcp__hub__a"]} => {"deny": ["a"]}
            {"prompts": {"p": {"enabled": false}}} => !prompts.p
            {"resources": {"x://a": false}} => !resources.x://a
            {"prompts": {"exclude": {"enabled": true}}} => null
            {"suppressedTools": ["a"], "omitTools": ["b"], "skipTools": ["c"], "mutedTools": ["d"], "removeTools": ["e"], "toolsOff": ["f"]} => {"deny": ["a", "b", "c", "d", "e", "f"]}
            {"tools": {"disabled": true}} => !tools
            {"tools": {"readOnly": true}} => !tools
            {"toolOptions": {"excludeDestructive": true}} => !toolOptions
            {"tool_configuration": {"enabled": false}} => !tool_configuration
            {"tools": {"default": false, "read": true}} => !tools
            {"tools": {"block_user": true, "enabled": true}} => null
            {"_comment": "read only", "note": "disabled", "client_header_forwarding": {"enabled": false}} => null
            {"toolChoice": ["a"]} => !toolChoice
            {"tools": "a"} => !tools
            {"mode": "readonly"} => !mode
            {"writeAccess": false} => !writeAccess
            {"prompts": false} => !prompts
            {"resources": ["x://a"]} => !resources
            {"disabledAt": "2026-01-01"} => !disabledAt
            {"access": "none"} => !access
            {"anyName": "read-only"} => !anyName
            {"skip": true} => !skip
            {"inactivityTimeout": 60, "enableLogging": false, "allowInsecure": false, "readOnlyHint": true, "includeEnv": ["A"], "lastActiveAt": "2026-01-01", "status": "connected", "state": "running", "selectedModel": "x", "visibleName": "x", "mode": "fast", "env": {"DISABLED_TOOLS": "a"}, "oauth": {"enabled": false}, "logging": {"enabled": false}} => null
            {"toolsDenyRegex": "^x"} => !toolsDenyRegex
            {"enabled": "sometimes"} => !enabled
            {"tools": {"a": {"deniedArguments": ["x"]}}} => !tools
            {"tools": {"a": {"arguments": {"x": {"hide": true}}}}} => !tools
            {"include_tags": ["x"]} => !include_tags
            {"includeTools": ["a"], "allowedTools": ["b"]} => !Tools
            {"hiddenTools": ["a"], "tools-blocklist": ["b"]} => {"deny": ["a", "b"]}
            {"tool_allow_list": ["a"]} => {"allow": ["a"]}
            {"toolFilter": ["a"]} => !toolFilter
            {"tool_filter": {"allow": []}} => !tool_filter
            {"permissions": {"deny": ["a"]}} => !permissions
            {"isActive": "sometimes"} => !isActive
            {"status": "error"} => !status
            {"sandbox": {"network": {"deny": ["x"]}}} => !sandbox
            {"isActive": true, "disabledAutoApproveTools": ["a"], "isTrusted": false, "toolFilter": {}, "requireApproval": "always", "interactive": false, "toolTimeout": 5} => null
        "#;
        for line in cases.trim().lines().filter(|line| !line.trim().starts_with('#')) {
            let (entry, expected) = line.trim().split_once(" => ").unwrap();
            let parsed = |json: &str| serde_json::from_str::<Value>(json).expect(line);
            let read = EntryRestrictions::default().read(&parsed(entry), "hub");
            match (read, expected.strip_prefix('!')) {
                (Ok(read), None) => assert_eq!(read.as_key().unwrap_or_default(), parsed(expected), "{entry}"),
                (Err(error), Some(member)) => assert!(error.contains(member), "{entry}: {error}"),
                (found, _) => panic!("{line}: {found:?}"),
            }
        }
    }

    #[test]
    fn what_is_not_known_is_named() {
        let entry = json!({"command": "x", "timeout": 5, "includeEnv": ["A"], "config": {"a": 1}, "options": {"toolFilter": {}, "a": 1}, "sandboxEnabled": false, "disabled": false, "other": null});
        let read = EntryRestrictions::default().read(&entry, "hub").unwrap();
        assert_eq!(read.ignored, ["includeEnv", "config"]);
    }

    #[test]
    fn servers_are_switched_off_in_their_entry() {
        for off in [
            json!({"disabled": true}),
            json!({"disabled": "true"}),
            json!({"enabled": false}),
            json!({"enabled": "False"}),
            json!({"disabled": 1}),
            // Cherry Studio.
            json!({"isActive": false}),
            json!({"isActive": true, "disabled": true}),
            json!({"active": false}),
            json!({"status": "disabled"}),
            json!({"is_enabled": "no"}),
            json!({"paused": true}),
            json!({"off": true}),
            json!({"running": false}),
            json!({"on": false}),
        ] {
            assert!(is_off(&off), "{off}");
        }
        assert!(!is_off(
            &json!({"disabled": "false", "enabled": true, "isActive": true, "status": "active"})
        ));
    }
}

//! What a user has switched off in the file of another client: servers, and tools of servers. Each client has its own words for it. What restricts in a way that is
//! not known refuses the server, since it would be served with more than its user allows.

use serde_json::{Map, Value};

/// Members of an entry that list the only tools to be offered.
const ALLOWED: [&str; 7] = [
    "includeTools",
    "enabledTools",
    "enabled_tools",
    "allowedTools",
    "allowed_tools",
    "toolAllowlist",
    "tools",
];
/// Members of an entry that list tools not to be offered.
const DENIED: [&str; 6] = [
    "disabledTools",
    "disabled_tools",
    "excludeTools",
    "excludedTools",
    "exclude_tools",
    "toolDenylist",
];
/// Members that have such a word in their name and restrict nothing: they say what is done without asking.
const HARMLESS: [&str; 8] = [
    "alwaysAllow",
    "always_allow",
    "autoAllow",
    "autoApprove",
    "alwaysAllowTools",
    "autoApproveTools",
    "trustedTools",
    "includeInstructions",
];
/// In the name of a member that takes away what it names.
const TAKES: [&str; 10] = [
    "disable",
    "exclud",
    "deny",
    "denied",
    "block",
    "forbid",
    "restrict",
    "readonly",
    "read_only",
    "blacklist",
];
/// In the name of a member that takes away what it does not name.
const GIVES: [&str; 4] = ["enable", "includ", "allow", "whitelist"];
/// Members of the whole file, or of one of its objects, that name servers: only these are used.
const ALLOWED_SERVERS: [&[&str]; 4] = [
    &["mcp", "allowed"],
    &["allowMCPServers"],
    &["allowedMcpServers"],
    &["enabledMcpjsonServers"],
];
/// The same for servers that are not used.
const DENIED_SERVERS: [&[&str]; 6] = [
    &["mcp", "excluded"],
    &["excludeMCPServers"],
    &["deniedMcpServers"],
    &["disabledMcpServers"],
    &["disabledMcpjsonServers"],
    &["mcp", "disabled"],
];

/// A switch, which some clients write as a text.
fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
        Value::Number(number) => number.as_u64().map(|number| number != 0),
        _ => None,
    }
}

/// Whether the entry is switched off as a whole.
pub(super) fn is_off(entry: &Value) -> bool {
    flag(&entry["disabled"]) == Some(true) || flag(&entry["enabled"]) == Some(false)
}

/// The names in a list, or of objects with a name.
fn names(list: &Value) -> Option<Vec<&str>> {
    let elements = list.as_array()?.iter();
    elements
        .map(|element| element.as_str().or(element["serverName"].as_str()))
        .collect()
}

/// Why a server is not used, by what the file says beside its servers.
///
/// # Errors
/// The member that cannot be read.
pub(super) fn is_excluded(file: &Value, server: &str) -> Result<bool, String> {
    let listed = |path: &[&str]| -> Result<Option<bool>, String> {
        let list = path.iter().fold(file, |value, member| &value[*member]);
        match list {
            Value::Null => Ok(None),
            list => match names(list) {
                Some(names) => Ok(Some(names.contains(&server))),
                None => Err(format!(
                    "`{}` of the file must be an array of names of servers",
                    path.join(".")
                )),
            },
        }
    };
    for path in DENIED_SERVERS {
        if listed(path)? == Some(true) {
            return Ok(true);
        }
    }
    for path in ALLOWED_SERVERS {
        if listed(path)? == Some(false) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Which tools of an entry are offered, as the key `tools` of an upstream.
///
/// # Errors
/// A member that restricts the server in a way that is not known.
pub(super) fn selection(entry: &Value) -> Result<Option<Value>, String> {
    let Some(members) = entry.as_object() else {
        return Ok(None);
    };
    let (mut allow, mut deny): (Option<Vec<Value>>, Vec<Value>) = (None, Vec::new());
    for (member, value) in members {
        if value.is_null() || HARMLESS.contains(&member.as_str()) {
            continue;
        }
        let is_switch = ["disabled", "enabled"].contains(&member.as_str());
        if is_switch && flag(value).is_some() {
            continue;
        }
        let unknown = || {
            format!(
                "its `{member}` may switch something off, and is not understood here: leave it out, or write the server as `[upstream.NAME]` with `tools`"
            )
        };
        if ALLOWED.contains(&member.as_str()) && value.is_array() {
            let named = patterns(value).ok_or_else(unknown)?;
            // What is in each of several lists would be meant: that cannot be said here.
            if allow.replace(named).is_some() {
                return Err(unknown());
            }
        } else if DENIED.contains(&member.as_str()) && value.is_array() {
            deny.extend(patterns(value).ok_or_else(unknown)?);
        } else if member == "tools" {
            deny.extend(switched_off(value).ok_or_else(unknown)?);
        } else if is_switch || restricts(member, value) {
            return Err(unknown());
        }
    }
    let mut tools = Map::new();
    match allow {
        // None is allowed, where an empty list of ours allows all.
        Some(allow) if allow.is_empty() => deny = vec!["*".into()],
        Some(allow) => drop(tools.insert("allow".to_owned(), allow.into())),
        None => {}
    }
    if !deny.is_empty() {
        tools.insert("deny".to_owned(), deny.into());
    }
    Ok((!tools.is_empty()).then(|| tools.into()))
}

/// The names in a list of tools. Gemini CLI allows arguments behind a name.
fn patterns(list: &Value) -> Option<Vec<Value>> {
    let names = list.as_array()?.iter().map(|name| {
        let name = name.as_str()?;
        Some(Value::from(name.split('(').next().unwrap_or(name)))
    });
    names.collect()
}

/// The tools that an object of tools switches off; `None` if it says what is not understood.
fn switched_off(tools: &Value) -> Option<Vec<Value>> {
    let mut off = Vec::new();
    for (name, tool) in tools.as_object()? {
        let is_off = match tool {
            Value::Object(members) => {
                if members.iter().any(|(member, value)| {
                    !["disabled", "enabled"].contains(&member.as_str()) && restricts(member, value)
                }) {
                    return None;
                }
                is_off(tool)
            }
            flat => !flag(flat)?,
        };
        if is_off {
            off.push(name.as_str().into());
        }
    }
    Some(off)
}

/// Whether a member seems to take something away.
fn restricts(member: &str, value: &Value) -> bool {
    let name = member.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let is_nothing = match value {
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        value => flag(value) == Some(false),
    };
    if HARMLESS.contains(&member) {
        return false;
    }
    match (has(&TAKES), has(&GIVES)) {
        (true, _) => !is_nothing,
        (false, true) => flag(value) != Some(true),
        (false, false) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_switched_off_is_left_out_or_refuses_the_server() {
        let all = json!(null);
        let cases = [
            (
                json!({"alwaysAllow": ["a"], "timeout": 5, "trust": true, "disabled": false, "enabled": true}),
                Ok(all.clone()),
            ),
            (json!({"disabledTools": ["a", "b"]}), Ok(json!({"deny": ["a", "b"]}))),
            (
                json!({"excludeTools": ["a"], "includeTools": ["a", "b(x)"]}),
                Ok(json!({"allow": ["a", "b"], "deny": ["a"]})),
            ),
            (
                json!({"enabled_tools": ["a"], "disabled_tools": []}),
                Ok(json!({"allow": ["a"]})),
            ),
            (json!({"includeTools": []}), Ok(json!({"deny": ["*"]}))),
            (json!({"tools": ["*"]}), Ok(json!({"allow": ["*"]}))),
            (
                json!({"tools": {"a": {"enabled": false}, "b": {"disabled": "true"}, "c": true, "d": false}}),
                Ok(json!({"deny": ["a", "b", "d"]})),
            ),
            (json!({"disabledTools": "a"}), Err("disabledTools")),
            (json!({"disabledTools": [1]}), Err("disabledTools")),
            (json!({"disabledResources": ["x"]}), Err("disabledResources")),
            (json!({"readOnly": true}), Err("readOnly")),
            (
                json!({"readOnly": false, "blockedHosts": [], "enableLogs": true}),
                Ok(all.clone()),
            ),
            (json!({"allowWrites": false}), Err("allowWrites")),
            (json!({"toolsDenyRegex": "^x"}), Err("toolsDenyRegex")),
            (json!({"enabled": "sometimes"}), Err("enabled")),
            (json!({"tools": {"a": {"deniedArguments": ["x"]}}}), Err("tools")),
            (json!({"includeTools": ["a"], "allowedTools": ["b"]}), Err("Tools")),
        ];
        for (entry, expected) in cases {
            match (selection(&entry), expected) {
                (Ok(tools), Ok(expected)) => assert_eq!(tools.unwrap_or_default(), expected, "{entry}"),
                (Err(error), Err(member)) => assert!(error.contains(member), "{entry}: {error}"),
                (found, expected) => panic!("{entry}: {found:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn servers_are_switched_off_in_their_entry_and_beside_them() {
        for off in [
            json!({"disabled": true}),
            json!({"disabled": "true"}),
            json!({"enabled": false}),
            json!({"enabled": "False"}),
            json!({"disabled": 1}),
        ] {
            assert!(is_off(&off), "{off}");
        }
        assert!(!is_off(&json!({"disabled": "false", "enabled": true})));
        let excluded = |file: &Value| is_excluded(file, "a");
        for file in [
            json!({"mcp": {"excluded": ["a"]}}),
            json!({"mcp": {"allowed": ["b"]}}),
            json!({"mcp": {"allowed": []}}),
            json!({"excludeMCPServers": ["a"]}),
            json!({"disabledMcpjsonServers": ["a"]}),
            json!({"deniedMcpServers": [{"serverName": "a"}]}),
        ] {
            assert_eq!(excluded(&file), Ok(true), "{file}");
        }
        assert_eq!(
            excluded(&json!({"mcp": {"allowed": ["a"], "excluded": ["b"]}})),
            Ok(false)
        );
        assert!(
            excluded(&json!({"mcp": {"excluded": "a"}}))
                .unwrap_err()
                .contains("mcp.excluded")
        );
    }
}

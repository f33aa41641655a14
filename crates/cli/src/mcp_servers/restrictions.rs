//! What a user has switched off in an entry of the file of another client: the server, and tools of it. Each client has its own words for it. What restricts in a way that is
//! not known refuses the server, since it would be served with more than its user allows.

use super::restriction_words::{ListKind, flag, is_off, is_read_switch, list_kind, restricts};
use serde_json::{Map, Value};

/// What names of lists of tools say beside what the lists do.
const TOOL_NOUNS: [&str; 2] = ["tools", "tool"];

/// Which tools of an entry are offered, as the key `tools` of an upstream. `denied` are left out by what the file says beside its servers.
///
/// # Errors
/// A member that restricts the server in a way that is not known.
pub(super) fn selection(entry: &Value, denied: &[&str]) -> Result<Option<Value>, String> {
    let Some(members) = entry.as_object() else {
        return Ok(None);
    };
    let mut allow: Option<Vec<Value>> = None;
    let mut deny: Vec<Value> = denied.iter().map(|tool| Value::from(*tool)).collect();
    for (member, value) in members {
        if value.is_null() || is_read_switch(member, value) {
            continue;
        }
        let unknown = || {
            format!(
                "its `{member}` may switch something off, and is not understood here: leave it out, or write the server as `[upstream.NAME]` with `tools`"
            )
        };
        let kind = match member.as_str() {
            "tools" => Some(ListKind::Allowed),
            // Of tools, and not of something else.
            name if name.to_ascii_lowercase().contains("tool") => list_kind(name, &TOOL_NOUNS),
            _ => None,
        };
        match (kind.filter(|_| value.is_array()), member.as_str()) {
            (Some(ListKind::Allowed), _) => {
                let named = patterns(value).ok_or_else(unknown)?;
                // What is in each of several lists would be meant: that cannot be said here.
                if allow.replace(named).is_some() {
                    return Err(unknown());
                }
            }
            (Some(ListKind::Denied), _) => deny.extend(patterns(value).ok_or_else(unknown)?),
            (None, "tools") => deny.extend(switched_off(value).ok_or_else(unknown)?),
            (None, _) if restricts(member, value) => return Err(unknown()),
            (None, _) => {}
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
                if members
                    .iter()
                    .any(|(member, value)| !is_read_switch(member, value) && restricts(member, value))
                {
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
            (
                json!({"hiddenTools": ["a"], "tools-blocklist": ["b"]}),
                Ok(json!({"deny": ["a", "b"]})),
            ),
            (json!({"tool_allow_list": ["a"]}), Ok(json!({"allow": ["a"]}))),
            (json!({"toolFilter": ["a"]}), Err("toolFilter")),
            (json!({"tool_filter": {"allow": []}}), Err("tool_filter")),
            (json!({"permissions": {"deny": ["a"]}}), Err("permissions")),
            (json!({"isActive": "sometimes"}), Err("isActive")),
            (json!({"status": "error"}), Err("status")),
            (json!({"sandbox": {"network": {"deny": ["x"]}}}), Err("sandbox")),
            (
                json!({"isActive": true, "disabledAutoApproveTools": ["a"], "isTrusted": false, "toolFilter": {}, "requireApproval": "always", "interactive": false, "toolTimeout": 5}),
                Ok(all.clone()),
            ),
        ];
        for (entry, expected) in cases {
            match (selection(&entry, &[]), expected) {
                (Ok(tools), Ok(expected)) => assert_eq!(tools.unwrap_or_default(), expected, "{entry}"),
                (Err(error), Err(member)) => assert!(error.contains(member), "{entry}: {error}"),
                (found, expected) => panic!("{entry}: {found:?}, expected {expected:?}"),
            }
        }
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
        ] {
            assert!(is_off(&off), "{off}");
        }
        assert!(!is_off(
            &json!({"disabled": "false", "enabled": true, "isActive": true, "status": "active"})
        ));
    }
}

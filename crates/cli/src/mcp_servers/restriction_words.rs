//! By which words a member of a file takes something away, whatever its client calls it. Names are read by their words: case and separators make no difference.

use serde_json::Value;

/// How a word begins that takes away what is named.
const TAKES: [&str; 18] = [
    "disabl",
    "disallow",
    "deactiv",
    "inactiv",
    "exclu",
    "deny",
    "denie",
    "block",
    "forbid",
    "blacklist",
    "hide",
    "hidden",
    "suppress",
    "omit",
    "skip",
    "remov",
    "paus",
    "ignor",
];
/// The same, of whole words.
const TAKES_AS_WORD: [&str; 4] = ["off", "mute", "muted", "stopped"];
/// How a word begins that takes something away, and does not say what.
const RESTRICTS: [&str; 5] = ["restrict", "readonly", "only", "filter", "sandbox"];
/// How a word begins that takes away what is not named.
const GIVES: [&str; 10] = [
    "enabl",
    "includ",
    "allow",
    "whitelist",
    "activ",
    "select",
    "expos",
    "visib",
    "availab",
    "permi",
];
/// Those of them with which a list permits what it names, and nothing else.
const PERMITS: [&str; 3] = ["allow", "whitelist", "permi"];
/// How a word begins that is about something else: what is done without asking, when, and what is told.
const HARMLESS: [&str; 12] = [
    "approv",
    "trust",
    "timeout",
    "hint",
    "interactive",
    "instruction",
    "mapping",
    "logging",
    "telemetry",
    "comment",
    "note",
    "notes",
];
/// What is given without asking takes nothing away.
const UNASKED: [&str; 2] = ["always", "auto"];
/// What servers offer, and how they may be used.
const OFFERED: [&str; 21] = [
    "tool",
    "tools",
    "prompt",
    "prompts",
    "resource",
    "resources",
    "templates",
    "server",
    "servers",
    "mcp",
    "capability",
    "capabilities",
    "function",
    "functions",
    "method",
    "methods",
    "toolset",
    "toolsets",
    "tags",
    "write",
    "writes",
];
/// Members that say what may be done with a server.
const ACCESS: [&str; 5] = ["access", "mode", "policy", "role", "scope"];
/// Words of such a text that leave something out.
const NO_ACCESS: [&str; 3] = ["none", "no", "read"];
/// Switches that are on with `true`, and that say how something is.
const ON: [&str; 10] = [
    "enabled",
    "enable",
    "active",
    "activated",
    "on",
    "running",
    "started",
    "status",
    "state",
    "online",
];
/// Switches that are off with `true`.
const OFF: [&str; 8] = [
    "disabled",
    "disable",
    "inactive",
    "deactivated",
    "off",
    "paused",
    "stopped",
    "suspended",
];

/// The words of a name: `excludeMCPServers`, `exclude_mcp_servers` and `exclude-mcpservers` have the same ones.
pub(super) fn words(name: &str) -> Vec<String> {
    let chars: Vec<char> = name.chars().collect();
    let (mut words, mut begins) = (Vec::<String>::new(), true);
    for (at, char) in chars.iter().enumerate() {
        if !char.is_alphanumeric() {
            begins = true;
            continue;
        }
        let is_lower = |at: usize| chars.get(at).is_some_and(|char| char.is_lowercase());
        begins |= char.is_uppercase() && (at.checked_sub(1).is_some_and(is_lower) || is_lower(at + 1));
        match words.last_mut() {
            Some(word) if !begins => word.extend(char.to_lowercase()),
            _ => words.push(char.to_lowercase().collect()),
        }
        begins = false;
    }
    let split = words.into_iter().flat_map(|word| {
        let noun = ["tools", "servers"].into_iter().find(|noun| word.ends_with(noun));
        let cut = noun.map_or(0, |noun| word.len() - noun.len());
        [word[..cut].to_owned(), word[cut..].to_owned()]
    });
    let mut words: Vec<String> = split.filter(|word| !word.is_empty()).collect();
    if let Some(at) = words.windows(2).position(|pair| pair[0] == "read" && pair[1] == "only") {
        words.splice(at..at + 2, ["readonly".to_owned()]);
    }
    words
}

fn begins(word: &str, stems: &[&str]) -> bool {
    stems.iter().any(|stem| word.starts_with(stem))
}

pub(super) fn takes(word: &str) -> bool {
    begins(word, &TAKES) || TAKES_AS_WORD.contains(&word)
}

pub(super) fn restricts_something(word: &str) -> bool {
    takes(word) || begins(word, &RESTRICTS)
}

pub(super) fn gives(word: &str) -> bool {
    begins(word, &GIVES)
}

pub(super) fn is_offered(word: &str) -> bool {
    OFFERED.contains(&word)
}

pub(super) fn is_access(word: &str) -> bool {
    ACCESS.contains(&word)
}

/// A switch, which some clients write as a text.
pub(super) fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "enabled" | "active" | "connected" | "running" | "ready" | "started" | "online" => {
                Some(true)
            }
            "false" | "no" | "off" | "disabled" | "inactive" => Some(false),
            _ => None,
        },
        Value::Number(number) => number.as_u64().map(|number| number != 0),
        _ => None,
    }
}

/// Whether a member with these words switches the whole of what it belongs to, and where `true` leaves it.
fn switch(words: &[String]) -> Option<bool> {
    let mut words = words.iter().map(String::as_str).filter(|word| *word != "is");
    match (words.next()?, words.next()) {
        (word, None) if ON.contains(&word) => Some(true),
        (word, None) if OFF.contains(&word) => Some(false),
        _ => None,
    }
}

/// Whether a member is a switch, and on. `None` if it is none that is understood.
pub(super) fn read_switch(words: &[String], value: &Value) -> Option<bool> {
    Some(switch(words)? == flag(value)?)
}

/// Whether a server, or a tool, is switched off as a whole.
pub(super) fn is_off(entry: &Value) -> bool {
    let mut members = entry.as_object().into_iter().flatten();
    members.any(|(member, value)| read_switch(&words(member), value) == Some(false))
}

/// What a list does with what it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListKind {
    /// Nothing else is offered.
    Allowed,
    /// It is not offered.
    Denied,
}

/// What a list with these words in its name does, if all the others are these nouns.
pub(super) fn list_kind(words: &[String], nouns: &[&str]) -> Option<ListKind> {
    let rest = words.iter().map(String::as_str);
    let rest: Vec<&str> = rest
        .filter(|word| !nouns.contains(word) && !["list", "names"].contains(word))
        .collect();
    match rest.is_empty() {
        true => None,
        false if rest.iter().all(|word| takes(word)) => Some(ListKind::Denied),
        false if rest.iter().all(|word| gives(word) || *word == "only") => Some(ListKind::Allowed),
        false => None,
    }
}

/// Whether a member with these words says only what is done without asking, and the like.
pub(super) fn is_harmless(words: &[String]) -> bool {
    let takes = words.iter().any(|word| takes(word));
    let is_time = words.len() > 1 && words.last().is_some_and(|word| word == "at");
    let is_unasked = words.iter().any(|word| UNASKED.contains(&word.as_str()));
    (!takes && (is_time || is_unasked)) || words.iter().any(|word| begins(word, &HARMLESS))
}

/// Whether a member seems to take something away: by its name, or by a text that is its value.
pub(super) fn restricts(words: &[String], value: &Value) -> bool {
    if value.is_null() || is_harmless(words) {
        return false;
    }
    let has = |is: fn(&str) -> bool| words.iter().any(|word| is(word));
    if has(restricts_something) {
        return !is_nothing(value);
    }
    let is_list = value.is_array() || value.is_object();
    let is_whole = words.iter().all(|word| gives(word) || is_offered(word));
    let permits = is_list && has(|word| begins(word, &PERMITS));
    if switch(words).is_some() || (has(gives) && (is_whole || permits || has(is_offered))) {
        return flag(value) != Some(true);
    }
    if words.iter().all(|word| is_offered(word) || is_access(word)) && flag(value) == Some(false) {
        return true;
    }
    let said = self::words(value.as_str().unwrap_or_default());
    let is_left_out = |word: &String| restricts_something(word) || has(is_access) && NO_ACCESS.contains(&word.as_str());
    // Not what a sentence says.
    said.len() <= 3 && said.iter().any(is_left_out)
}

/// Whether a member that takes away what it names names nothing.
pub(super) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => ["", "none"].contains(&text.as_str()) || flag(value) == Some(false),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.iter().all(|(name, value)| {
            let is_allowed = list_kind(&words(name), &["tools", "tool"]) == Some(ListKind::Allowed);
            !is_allowed && is_nothing(value)
        }),
        value => flag(value) == Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_same_words_however_they_are_written() {
        for name in ["excludeMCPServers", "exclude_mcp_servers", "exclude-mcpservers"] {
            assert_eq!(words(name), ["exclude", "mcp", "servers"]);
        }
        assert_eq!(words("disabledtools"), ["disabled", "tools"]);
        assert_eq!(words("isReadOnly.x"), ["is", "readonly", "x"]);
        assert_eq!(words("tsserver hideTooltips"), ["tsserver", "hide", "tooltips"]);
    }
}

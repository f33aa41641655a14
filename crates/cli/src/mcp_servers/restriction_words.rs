//! By which words a member of a file takes something away, whatever its client calls it: case and separators make no difference.

use serde_json::Value;

/// In the name of a member that takes away what it names.
const TAKES: [&str; 16] = [
    "disable",
    "disallow",
    "deactiv",
    "inactiv",
    "exclu",
    "deny",
    "denied",
    "block",
    "forbid",
    "restrict",
    "readonly",
    "blacklist",
    "hide",
    "hidden",
    "filter",
    "sandbox",
];
/// In the name of a member that takes away what it does not name.
const GIVES: [&str; 12] = [
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
    "status",
    "only",
];
/// In the name of a member that says what is done without asking, and restricts nothing; with some whole names that have such a word by chance.
const HARMLESS: [&str; 7] = [
    "approv",
    "alwaysallow",
    "autoallow",
    "trust",
    "includeinstructions",
    "filtermapping",
    "interactive",
];
/// Names of lists that name all there is.
const ALLOWED: [&str; 20] = [
    "allow",
    "allowed",
    "allowlist",
    "whitelist",
    "include",
    "included",
    "enable",
    "enabled",
    "active",
    "select",
    "selected",
    "expose",
    "exposed",
    "available",
    "visible",
    "permit",
    "permitted",
    "only",
    "allowonly",
    "includeonly",
];
/// Names of lists that name what is left out.
const DENIED: [&str; 18] = [
    "deny",
    "denied",
    "denylist",
    "disallow",
    "disallowed",
    "blacklist",
    "blocklist",
    "block",
    "blocked",
    "exclude",
    "excluded",
    "disable",
    "disabled",
    "hide",
    "hidden",
    "forbidden",
    "ignore",
    "ignored",
];
/// Switches that are on with `true`.
const ON: [&str; 8] = [
    "enabled",
    "enable",
    "isenabled",
    "active",
    "isactive",
    "activated",
    "status",
    "state",
];
/// Switches that are off with `true`.
const OFF: [&str; 5] = ["disabled", "disable", "isdisabled", "inactive", "deactivated"];

/// A name without case and separators: `disabled_tools` is `disabledtools`.
pub(super) fn normalized(name: &str) -> String {
    let letters = name.chars().filter(|char| char.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// A switch, which some clients write as a text.
pub(super) fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => match normalized(text).as_str() {
            "true" | "yes" | "on" | "enabled" | "active" => Some(true),
            "false" | "no" | "off" | "disabled" | "inactive" => Some(false),
            _ => None,
        },
        Value::Number(number) => number.as_u64().map(|number| number != 0),
        _ => None,
    }
}

/// Whether a member of this name switches the whole of what it belongs to, and where `true` leaves it.
fn switch(name: &str) -> Option<bool> {
    match name {
        name if ON.contains(&name) => Some(true),
        name if OFF.contains(&name) => Some(false),
        _ => None,
    }
}

/// Whether a member is a switch that says what is understood.
pub(super) fn is_read_switch(member: &str, value: &Value) -> bool {
    switch(&normalized(member)).is_some() && flag(value).is_some()
}

/// Whether a server, or a tool, is switched off as a whole.
pub(super) fn is_off(entry: &Value) -> bool {
    let mut members = entry.as_object().into_iter().flatten();
    members.any(|(member, value)| {
        let on = switch(&normalized(member));
        on.zip(flag(value)).is_some_and(|(on, flag)| on != flag)
    })
}

/// What a list does with what it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListKind {
    /// Nothing else is offered.
    Allowed,
    /// It is not offered.
    Denied,
}

/// What a list of this name does, if all else in the name are these nouns.
pub(super) fn list_kind(name: &str, nouns: &[&str]) -> Option<ListKind> {
    let rest = nouns.iter().fold(normalized(name), |rest, noun| rest.replace(noun, ""));
    match rest.as_str() {
        rest if ALLOWED.contains(&rest) => Some(ListKind::Allowed),
        rest if DENIED.contains(&rest) => Some(ListKind::Denied),
        _ => None,
    }
}

/// Whether a member seems to take something away.
pub(super) fn restricts(member: &str, value: &Value) -> bool {
    let name = normalized(member);
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if value.is_null() || has(&HARMLESS) {
        return false;
    }
    match (has(&TAKES), has(&GIVES) || switch(&name).is_some()) {
        (true, _) => !is_nothing(value),
        (false, true) => flag(value) != Some(true),
        (false, false) => false,
    }
}

/// Whether a member that takes away what it names names nothing.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => ["", "none"].contains(&normalized(text).as_str()) || flag(value) == Some(false),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.iter().all(|(name, value)| {
            let is_allowed = list_kind(name, &["tools", "tool"]) == Some(ListKind::Allowed);
            !is_allowed && is_nothing(value)
        }),
        value => flag(value) == Some(false),
    }
}

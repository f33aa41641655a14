//! What another server wrote, as it is passed on: without what belongs to its connection and its era. Every other byte stays.

use crate::{
    json::{self, Edit, object, splice::splice},
    protocol::meta_keys,
};
use longhaul_core::Json;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Members of `_meta` with these prefixes belong to the connection on which they came.
const BOUND: [&str; 2] = ["io.modelcontextprotocol/", "dev.longhaul/"];

/// A result of another server, or an object in one: without `resultType`, and without the members of `_meta` that MCP and Longhaul define.
///
/// ```
/// use longhaul_core::Json;
/// use longhaul_wire::relayed;
/// let result = Json::parse(r#"{"resultType":"complete","content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{},"com.acme/k":1.0}}"#).unwrap();
/// assert_eq!(relayed::result(&result).as_str(), r#"{"content":[],"_meta":{"com.acme/k":1.0}}"#);
/// ```
pub fn result(result: &Json) -> Json {
    edited(result, &[Edit::Remove("resultType")])
}

/// An entry of a list of another server, with `member` set to this JSON text. The members of `_meta` that MCP and Longhaul define are left out.
///
/// ```
/// use longhaul_core::Json;
/// use longhaul_wire::relayed;
/// let prompt = Json::parse(r#"{"name":"p", "later":[1E2]}"#).unwrap();
/// assert_eq!(relayed::entry(&prompt, "name", r#""web_p""#).as_str(), r#"{"name":"web_p", "later":[1E2]}"#);
/// ```
pub fn entry(entry: &Json, member: &str, value: &str) -> Json {
    edited(entry, &[Edit::Set(member, value)])
}

/// The params of a notification of another server, without the progress token and the members of `_meta` that MCP and Longhaul define.
///
/// ```
/// use longhaul_core::Json;
/// use longhaul_wire::relayed;
/// let params = Json::parse(r#"{"progressToken":7,"progress":1.0,"com.acme/eta":[3E0]}"#).unwrap();
/// assert_eq!(relayed::params(&params).as_str(), r#"{"progress":1.0,"com.acme/eta":[3E0]}"#);
/// ```
pub fn params(params: &Json) -> Json {
    edited(params, &[Edit::Remove("progressToken")])
}

/// The params of a question of another server, as its client is asked: also without `task`, which says how the server wants to be answered, and without the token of
/// its progress.
pub fn question(params: &Json) -> Json {
    let is_token = |meta: &RawValue| object::find(meta.get(), &["progressToken"]).is_some();
    let params = match object::find(params.as_str(), &["_meta"]) {
        Some(meta) if is_token(meta) => edited_by(params, &[Edit::Within("_meta", &[Edit::Remove("progressToken")])]),
        _ => params.clone(),
    };
    let asked = edited(&params, &[Edit::Remove("task")]);
    match object::find(asked.as_str(), &["_meta"]) {
        Some(meta) if is_empty(meta) => edited_by(&asked, &[Edit::Remove("_meta")]),
        _ => asked,
    }
}

fn is_empty(object: &RawValue) -> bool {
    let mut is_empty = true;
    object::for_each_member(object.get(), |_, _| is_empty = false).is_ok() && is_empty
}

/// A result that names the task that it belongs to in its `_meta`. `task` is the JSON of that member. What is no object stays as it is.
pub fn related(result: &Json, task: &str) -> Json {
    edited_by(
        result,
        &[Edit::Within("_meta", &[Edit::Set(meta_keys::RELATED_TASK, task)])],
    )
}

/// What a page of a list of another server has besides its `entries` and what a page has for its connection; `None` if there is nothing.
///
/// ```
/// use longhaul_core::Json;
/// use longhaul_wire::relayed;
/// let page = Json::parse(r#"{"tools":[],"nextCursor":"2","com.acme/k":1.0}"#).unwrap();
/// assert_eq!(relayed::list_members(&page, "tools").unwrap().as_str(), r#"{"com.acme/k":1.0}"#);
/// ```
pub fn list_members(page: &Json, entries: &str) -> Option<Json> {
    let of_page = ["resultType", "nextCursor", "ttlMs", "cacheScope", entries].map(Edit::Remove);
    let members = edited(page, &of_page);
    let mut is_empty = true;
    object::for_each_member(members.as_str(), |_, _| is_empty = false).ok()?;
    (!is_empty).then_some(members)
}

/// The object `result` with those `members` of another one that it does not have, also in `_meta`. Beyond 60 they are left out, since an edit is a bit.
///
/// ```
/// use longhaul_core::Json;
/// use longhaul_wire::relayed;
/// let members = Json::parse(r#"{"tools":1,"com.acme/k":1.0,"_meta":{"a":1E2}}"#).unwrap();
/// let result = relayed::with_members(r#"{"tools":[],"_meta":{"b":2}}"#, &members);
/// assert_eq!(result, r#"{"tools":[],"_meta":{"b":2,"a":1E2},"com.acme/k":1.0}"#);
/// ```
pub fn with_members(result: &str, members: &Json) -> String {
    let (all, meta) = (
        owned_members(members.as_str()),
        object::find(members.as_str(), &["_meta"]),
    );
    let of_meta = meta.map(|meta| owned_members(meta.get())).unwrap_or_default();
    let within: Vec<Edit<'_>> = of_meta.iter().map(|(key, value)| Edit::Default(key, value)).collect();
    let edits: Vec<Edit<'_>> = all
        .iter()
        .map(|(key, value)| match key.as_str() {
            "_meta" if !within.is_empty() => Edit::Within("_meta", &within),
            key => Edit::Default(key, value),
        })
        .collect();
    let mut out = String::with_capacity(result.len() + members.as_str().len());
    match splice(&mut out, result, &edits) {
        Ok(()) => out,
        Err(_) => result.to_owned(),
    }
}

/// Up to 60 members of an object with their values; none if it is no object.
fn owned_members(text: &str) -> Vec<(String, &str)> {
    let mut members = Vec::new();
    let _ = object::for_each_member(text, |key, value| {
        if members.len() < 60 {
            members.push((key.to_owned(), value.get()));
        }
    });
    members
}

fn edited(json: &Json, edits: &[Edit<'_>]) -> Json {
    let (bound, is_all) = bound_keys(json.as_str());
    let within: Vec<Edit<'_>> = bound.iter().map(|key| Edit::Remove(key)).collect();
    let mut all = edits.to_vec();
    match (bound.is_empty(), is_all) {
        (true, _) => {}
        (false, true) => all.push(Edit::Remove("_meta")),
        (false, false) => all.push(Edit::Within("_meta", &within)),
    }
    edited_by(json, &all)
}

fn edited_by(json: &Json, edits: &[Edit<'_>]) -> Json {
    let mut out = String::with_capacity(json.as_str().len());
    match splice(&mut out, json.as_str(), edits) {
        Ok(()) => Json::trusted(out),
        // It is no object, and passed on as it is.
        Err(_) => json.clone(),
    }
}

/// The members of `_meta` that belong to a connection, at most 60, since an edit is a bit; and whether it has no others.
fn bound_keys(text: &str) -> (Vec<String>, bool) {
    let (mut bound, mut is_all) = (Vec::new(), true);
    let Some(meta) = object::find(text, &["_meta"]) else {
        return (bound, false);
    };
    let _ = object::for_each_member(meta.get(), |key, _| {
        if bound.len() < 60 && BOUND.iter().any(|prefix| key.starts_with(prefix)) {
            bound.push(key.to_owned());
        } else {
            is_all = false;
        }
    });
    (bound, is_all)
}

/// What a `capabilities` object declares that only its peer acts on: `extensions` and `experimental`, without tasks and what is Longhaul's own, which each server
/// has for itself. `None` if there is nothing.
///
/// ```
/// use longhaul_wire::relayed;
/// let declared = r#"{"tools":{},"experimental":{"com.acme/k":{"n":1.10},"dev.longhaul/x":{}}}"#;
/// assert_eq!(relayed::capabilities(declared).unwrap().as_str(), r#"{"experimental":{"com.acme/k":{"n":1.10}}}"#);
/// ```
pub fn capabilities(declared: &str) -> Option<Json> {
    let mut relayed = String::from("{");
    for member in ["extensions", "experimental"] {
        let Some(names) = object::find(declared, &[member]) else {
            continue;
        };
        let mut foreign = BTreeMap::new();
        let _ = object::for_each_member(names.get(), |name, settings| {
            let is_own = name == "io.modelcontextprotocol/tasks" || name.starts_with("dev.longhaul/");
            if json::is_object(settings) && !is_own {
                foreign.insert(name.to_owned(), settings);
            }
        });
        for (nth, (name, settings)) in foreign.iter().enumerate() {
            match nth {
                0 if relayed.len() > 1 => relayed.push_str("},"),
                0 => {}
                _ => relayed.push(','),
            }
            if nth == 0 {
                json::push_string(&mut relayed, member);
                relayed.push_str(":{");
            }
            json::push_string(&mut relayed, name);
            relayed.push(':');
            relayed.push_str(settings.get());
        }
    }
    (relayed.len() > 1).then(|| Json::trusted(relayed + "}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed_on(text: &str) -> String {
        result(&Json::parse(text).expect("JSON")).as_str().to_owned()
    }

    #[test]
    fn what_belongs_to_no_connection_keeps_its_bytes() {
        for text in [
            r#"{"content":[ {"type":"text", "text":"\u0041"} ],"n":1E400}"#,
            r#"{"_meta":{"com.acme/k":{"a" : [1.0]}},"structuredContent":[0.10]}"#,
            "[1]",
        ] {
            assert_eq!(passed_on(text), text);
        }
    }

    #[test]
    fn a_question_keeps_its_bytes_without_what_is_for_the_gateway() {
        let asked = |text: &str| question(&Json::parse(text).expect("JSON")).as_str().to_owned();
        let params = r#"{"task":{"ttl":1},"n":[1E400, 1.10],"_meta":{"progressToken":7,"k":12345678901234567890123,"dev.longhaul/x":1}}"#;
        assert_eq!(
            asked(params),
            r#"{"n":[1E400, 1.10],"_meta":{"k":12345678901234567890123}}"#
        );
        assert_eq!(asked(r#"{"n":1,"_meta":{"progressToken":7}}"#), r#"{"n":1}"#);
        assert_eq!(asked("null"), "null");
    }

    #[test]
    fn what_belongs_to_a_connection_is_left_out() {
        let given = r#"{"content":[],"_meta":{"dev.longhaul/exit":{"code":0}, "k":1,"io.modelcontextprotocol/related-task":{"taskId":"t"}},"resultType":"complete"}"#;
        assert_eq!(passed_on(given), r#"{"content":[],"_meta":{"k":1}}"#);
        let nothing_else = r#"{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{}}}"#;
        assert_eq!(passed_on(nothing_else), r#"{"content":[]}"#);
    }
}

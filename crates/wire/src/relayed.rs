//! What another server wrote, as it is passed on: without what belongs to its connection and its era. Every other byte stays.

use crate::{
    object,
    splice::{Edit, splice},
};
use longhaul_core::Json;
use serde_json::{Map, Value};

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
    let mut out = String::with_capacity(json.as_str().len());
    match splice(&mut out, json.as_str(), &all) {
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
/// has for itself.
pub fn capabilities(declared: &Value) -> Map<String, Value> {
    let mut relayed = Map::new();
    for member in ["extensions", "experimental"] {
        let names = declared[member].as_object().into_iter().flatten();
        let foreign = names.filter(|(name, settings)| {
            settings.is_object() && *name != "io.modelcontextprotocol/tasks" && !name.starts_with("dev.longhaul/")
        });
        let foreign: Map<String, Value> = foreign
            .map(|(name, settings)| (name.clone(), settings.clone()))
            .collect();
        if !foreign.is_empty() {
            relayed.insert(member.to_owned(), foreign.into());
        }
    }
    relayed
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
    fn what_belongs_to_a_connection_is_left_out() {
        let given = r#"{"content":[],"_meta":{"dev.longhaul/exit":{"code":0}, "k":1,"io.modelcontextprotocol/related-task":{"taskId":"t"}},"resultType":"complete"}"#;
        assert_eq!(passed_on(given), r#"{"content":[],"_meta":{"k":1}}"#);
        let nothing_else = r#"{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{}}}"#;
        assert_eq!(passed_on(nothing_else), r#"{"content":[]}"#);
    }
}

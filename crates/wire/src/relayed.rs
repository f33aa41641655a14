//! What another server wrote, as it is passed on: without what belongs to its connection and its era. Every other byte stays.

use crate::{
    object,
    splice::{Edit, splice},
};
use longhaul_core::Json;

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

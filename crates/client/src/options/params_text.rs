//! The params of a message as text.

use longhaul_core::{Json, JsonMembers};
use longhaul_wire::json::push_string;
use serde_json::{Map, Value};

/// The params of a message as text.
pub(crate) fn params_text(mut params: Map<String, Value>, written: &JsonMembers, meta: &JsonMembers) -> String {
    let own = match params.remove("_meta") {
        Some(Value::Object(own)) => own,
        _ => Map::new(),
    };
    let mut out = String::from("{");
    for (name, value) in &params {
        if !written.contains_key(name) {
            push_member(&mut out, name, &value.to_string());
        }
    }
    for (name, value) in written {
        push_member(&mut out, name, value.as_str());
    }
    let is_others = |(name, _): &(&String, &Json)| !own.contains_key(*name);
    let others: Vec<(&String, &Json)> = meta.iter().filter(is_others).collect();
    let mut both = String::from("{");
    for (name, value) in others {
        push_member(&mut both, name, value.as_str());
    }
    for (name, value) in &own {
        push_member(&mut both, name, &value.to_string());
    }
    if both.len() > 1 {
        both.push('}');
        push_member(&mut out, "_meta", &both);
    }
    out.push('}');
    out
}

fn push_member(out: &mut String, name: &str, value: &str) {
    if out.len() > 1 {
        out.push(',');
    }
    push_string(out, name);
    out.push(':');
    out.push_str(value);
}

/// The members of an object as they are written; none if it is no object. Of several with one name the last counts.
pub(crate) fn members_of(object: &Json) -> JsonMembers {
    serde_json::from_str(object.as_str()).unwrap_or_default()
}

/// An object of these members.
pub(crate) fn object_of(members: &JsonMembers) -> Json {
    Json::trusted(params_text(Map::new(), members, &JsonMembers::new()))
}

//! For comparison: reading a message with serde_json, into types or into a tree.

use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

/// `tasks/get` of 2026-07-28, as a typed library would declare it.
#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "it is only deserialized")]
pub(crate) struct Request {
    jsonrpc: String,
    id: Id,
    method: String,
    params: Params,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is only deserialized")]
enum Id {
    Number(i64),
    Text(String),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it is only deserialized")]
struct Params {
    task_id: String,
    #[serde(rename = "_meta")]
    meta: HashMap<String, Value>,
}

pub(crate) fn typed(body: &[u8]) -> Request {
    serde_json::from_slice(body).unwrap()
}

pub(crate) fn tree(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

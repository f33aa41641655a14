//! A request before it is written for an era.

pub(crate) mod call_progress;
pub(crate) mod origin;

use crate::connect::request::call_progress::CallProgress;
use http::HeaderMap;
use longhaul_core::JsonMembers;
use serde_json::{Map, Value};
use std::time::Duration;

/// A request without what its era adds.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) params: Map<String, Value>,
    /// Headers that only a modern server gets.
    pub(crate) headers: HeaderMap,
    pub(crate) timeout: Option<Duration>,
    /// Its id, if that is known before it is sent.
    pub(crate) id: Option<u64>,
    /// Whether progress of it is reported. Such a request may run for long, so the server is told when nobody waits for it any more.
    pub(crate) wants_progress: bool,
    /// The number that its caller has given it.
    pub(crate) source: Option<u64>,
    /// Members of its params that someone else has written, in place of those in `params`.
    pub(crate) written: JsonMembers,
    /// Members of its `_meta` that someone else has written. Those in `params` take precedence.
    pub(crate) meta: JsonMembers,
    /// Whether a modern server is told that the answer must not be a task.
    pub(crate) without_task: bool,
    /// Whether it is a call of a tool that may be run again.
    pub(crate) is_repeatable: bool,
    /// The call that it makes.
    pub(crate) call: Option<CallProgress>,
}

impl Request {
    /// A request without a timeout, of which nothing is reported.
    pub(crate) fn new(method: &str, params: Map<String, Value>) -> Self {
        Self {
            method: method.to_owned(),
            params,
            headers: HeaderMap::new(),
            timeout: None,
            id: None,
            wants_progress: false,
            source: None,
            written: JsonMembers::new(),
            meta: JsonMembers::new(),
            without_task: false,
            is_repeatable: false,
            call: None,
        }
    }
}

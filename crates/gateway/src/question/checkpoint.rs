//! What the task of a call on an upstream is found again by after a restart of the gateway.

use longhaul_client::{EarlierRequest, Generation, RequestRef, SessionRef, TaskRef};
use longhaul_core::{Json, Millis};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The stored form, version 1.
#[derive(Serialize, Deserialize)]
struct Layout {
    version: u32,
    task: String,
    legacy: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<SessionLayout>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl: Option<Millis>,
    /// How many answers to a legacy question of this text the upstream has taken.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    delivered: BTreeMap<String, u32>,
    /// What the upstream has asked in requests, and has no answer to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    open: Vec<OpenLayout>,
}

#[derive(Serialize, Deserialize)]
struct OpenLayout {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The id of the request, as JSON.
    id: String,
    method: String,
    params: Json,
    /// Whether the task was seen asking.
    seen: bool,
    digest: String,
    nth: u32,
}

/// A request of a legacy upstream that has no answer: some upstreams ask once, so it is kept for the next process.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OpenQuestion {
    pub(crate) request: EarlierRequest,
    /// That of its text.
    pub(crate) digest: String,
    /// Its number among the questions of this text. Both make its name in our store.
    pub(crate) nth: u32,
}

#[derive(Serialize, Deserialize)]
struct SessionLayout {
    id: String,
    revision: String,
    capabilities: Box<RawValue>,
}

/// A task on an upstream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UpstreamTask {
    pub(crate) task: TaskRef,
    /// By the digest of their text.
    pub(crate) delivered: BTreeMap<String, u32>,
    pub(crate) open: Vec<OpenQuestion>,
}

impl UpstreamTask {
    pub(crate) fn to_json(&self) -> Json {
        let session = self.task.session.as_ref().and_then(|session| {
            Some(SessionLayout {
                id: session.id.clone(),
                revision: session.revision.clone(),
                capabilities: serde_json::from_str(session.capabilities.as_str()).ok()?,
            })
        });
        let open = self.open.iter().map(OpenLayout::of).collect();
        let layout = Layout {
            version: 1,
            task: self.task.task_id.clone(),
            legacy: self.task.generation == Generation::Legacy,
            session,
            created_at: self.task.created_at.clone(),
            ttl: self.task.ttl,
            delivered: self.delivered.clone(),
            open,
        };
        Json::trusted(serde_json::to_string(&layout).unwrap_or_default())
    }

    /// `None` if another version of Longhaul has written it.
    pub(crate) fn from_json(json: &Json) -> Option<Self> {
        let layout: Layout = serde_json::from_str(json.as_str()).ok()?;
        if layout.version != 1 {
            return None;
        }
        let session = layout.session.map(|session| SessionRef {
            id: session.id,
            revision: session.revision,
            capabilities: Json::from(&*session.capabilities),
        });
        Some(Self {
            task: TaskRef {
                task_id: layout.task,
                generation: match layout.legacy {
                    true => Generation::Legacy,
                    false => Generation::Modern,
                },
                session,
                created_at: layout.created_at,
                ttl: layout.ttl,
            },
            delivered: layout.delivered,
            open: layout.open.into_iter().map(OpenQuestion::from).collect(),
        })
    }
}

impl OpenLayout {
    fn of(open: &OpenQuestion) -> Self {
        let OpenQuestion { request, digest, nth } = open.clone();
        Self {
            session: request.request.session,
            id: request.request.id,
            method: request.method,
            params: request.params.as_json().clone(),
            seen: request.was_seen,
            digest,
            nth,
        }
    }
}

impl From<OpenLayout> for OpenQuestion {
    fn from(layout: OpenLayout) -> Self {
        Self {
            request: EarlierRequest {
                request: RequestRef {
                    session: layout.session,
                    id: layout.id,
                },
                method: layout.method,
                params: layout.params.into(),
                was_seen: layout.seen,
            },
            digest: layout.digest,
            nth: layout.nth,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::ParsedJson;

    #[test]
    fn what_is_stored_is_read_again() {
        for session in [
            None,
            Some(SessionRef {
                id: "s \"1\"".to_owned(),
                revision: "2025-11-25".to_owned(),
                capabilities: Json::trusted(r#"{"elicitation":{"form":{}}}"#),
            }),
        ] {
            let task = UpstreamTask {
                task: TaskRef {
                    task_id: "t".to_owned(),
                    generation: if session.is_some() {
                        Generation::Legacy
                    } else {
                        Generation::Modern
                    },
                    session,
                    created_at: Some("2026-11-25T00:00:00Z".to_owned()),
                    ttl: Some(60_000),
                },
                delivered: BTreeMap::from([("d".to_owned(), 2)]),
                open: vec![OpenQuestion {
                    request: EarlierRequest {
                        request: RequestRef {
                            session: Some("s".to_owned()),
                            id: "7".to_owned(),
                        },
                        method: "elicitation/create".to_owned(),
                        params: ParsedJson::of(r#"{"message":"Which?","n":1e400}"#),
                        was_seen: true,
                    },
                    digest: "d".to_owned(),
                    nth: 3,
                }],
            };
            assert_eq!(UpstreamTask::from_json(&task.to_json()), Some(task));
        }
        assert_eq!(
            UpstreamTask::from_json(&Json::trusted(r#"{"version":2,"task":"t","legacy":false}"#)),
            None
        );
    }
}

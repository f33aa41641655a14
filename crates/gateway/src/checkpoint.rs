//! What the task of a call on an upstream is found again by after a restart of the gateway.

use longhaul_client::{Generation, SessionRef, TaskRef};
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
}

#[derive(Serialize, Deserialize)]
struct SessionLayout {
    id: String,
    revision: String,
    capabilities: Box<RawValue>,
}

/// A task on an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpstreamTask {
    pub(crate) task: TaskRef,
    /// By the digest of their text.
    pub(crate) delivered: BTreeMap<String, u32>,
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
        let layout = Layout {
            version: 1,
            task: self.task.task_id.clone(),
            legacy: self.task.generation == Generation::Legacy,
            session,
            created_at: self.task.created_at.clone(),
            ttl: self.task.ttl,
            delivered: self.delivered.clone(),
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
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            };
            assert_eq!(UpstreamTask::from_json(&task.to_json()), Some(task));
        }
        assert_eq!(
            UpstreamTask::from_json(&Json::trusted(r#"{"version":2,"task":"t","legacy":false}"#)),
            None
        );
    }
}

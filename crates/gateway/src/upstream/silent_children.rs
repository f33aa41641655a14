//! Children that leave the request of 2026-07-28 unanswered. To find that out takes five seconds, so it is remembered over restarts.

use super::{Upstream, upstreams::Upstreams};
use crate::Target;
use longhaul_client::ChildOptions;
use longhaul_core::{Json, canonical_digest};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// How long it is remembered, in milliseconds: the server may learn the later revision.
const REMEMBERED: i64 = 7 * 24 * 60 * 60 * 1000;

/// The stored form.
#[derive(Serialize, Deserialize)]
struct SilentChild {
    /// The digest of its command: another one may be another server.
    command: String,
    /// When it was seen, in milliseconds since 1970.
    seen: i64,
}

impl Upstreams {
    /// Has a child that was silent be asked for a handshake first. If it refuses that, its revision is found out anew.
    pub(crate) fn recall_silence(&self, upstream: &Upstream) {
        let Target::Command(child) = &upstream.options().target else {
            return;
        };
        let stored = self
            .stored
            .as_ref()
            .and_then(|stored| stored.read(&file_name(upstream)));
        let silent = stored.and_then(|text| serde_json::from_str::<SilentChild>(&text).ok());
        let now = upstream.ports.clock.now().0;
        let is_same = silent.is_some_and(|silent| {
            silent.command == digest(child) && (silent.seen..silent.seen + REMEMBERED).contains(&now)
        });
        if is_same {
            upstream.connections.expect_legacy();
        }
    }

    /// Stores that the child of an upstream is silent, if that was seen.
    pub(crate) fn note_silence(&self, upstream: &Upstream) {
        let (Target::Command(child), Some(stored)) = (&upstream.options().target, &self.stored) else {
            return;
        };
        if !upstream.connections.was_silent() {
            return;
        }
        let silent = SilentChild {
            command: digest(child),
            seen: upstream.ports.clock.now().0,
        };
        let text = serde_json::to_string(&silent).unwrap_or_default();
        if let Err(error) = stored.replace(&file_name(upstream), &text) {
            tracing::warn!(upstream = upstream.name(), %error, "the revision of an upstream was not stored, so the next start finds it out again");
        }
    }
}

/// No list has this name.
fn file_name(upstream: &Upstream) -> String {
    format!("{}.silent", upstream.name())
}

/// Without the values of variables, which may be secret.
fn digest(child: &ChildOptions) -> String {
    let variables: Vec<&String> = child.env.iter().map(|(name, _)| name).collect();
    let command = json!([child.program, child.args, child.cwd, variables]);
    let digest = canonical_digest(&Json::from(command));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

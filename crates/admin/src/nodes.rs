//! The servers of the store as operators see them: the JSON of the API, of which the page is made, too.

use crate::{context::AdminContext, words::timestamp};
use longhaul_core::{
    AttemptState, HostId, Millis, NodeId, Now, Task, approximate_duration,
    store::{EventDelivery, HOST_GIVEN_UP, LeaseStatus, NodeStatus, StoreError},
};
use longhaul_runtime::Cordon;
use serde::Serialize;

/// The servers of a store.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodesView {
    pub(crate) nodes: Vec<NodeView>,
    /// For how long a host may be without a server before its attempts are given up, in milliseconds.
    pub(crate) lost_after_ms: Millis,
}

/// A server, from its start to its end.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeView {
    /// Its number: a server that is started again gets another one.
    pub(crate) node: i64,
    pub(crate) host: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    /// `both`, `front` or `worker`.
    pub(crate) role: &'static str,
    /// Whether it is the one that answers.
    pub(crate) answers: bool,
    /// When it was started, as RFC 3339.
    pub(crate) since: String,
    /// `alive` or `dead`.
    pub(crate) state: &'static str,
    /// Why it begins nothing: it is `cordoned`, or is `draining`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cordon: Option<&'static str>,
    /// When its lease ends unless it is renewed, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lease_ms: Option<Millis>,
    /// For how long its host has been without a server, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host_away_ms: Option<Millis>,
    /// When the attempts that are bound to its host are given up, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) given_up_in_ms: Option<Millis>,
    /// How its events reach others, if it is not as it should be: by `another_connection`, or they are `lost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) events: Option<&'static str>,
    /// Active attempts that it holds.
    pub(crate) attempts: u64,
    /// Those of them that are bound to its host, such as commands.
    pub(crate) bound_attempts: u64,
    /// What becomes of the attempts of one that is dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outlook: Option<String>,
}

impl NodeView {
    fn of(status: &NodeStatus, answering: NodeId, lost_after: Millis, now: Now) -> Self {
        let mut view = Self {
            node: status.node.0,
            host: status.host.0.to_string(),
            name: status.name.to_string(),
            address: status.address.as_deref().map(str::to_owned),
            role: status.role.word(),
            answers: status.node == answering,
            since: timestamp(now, status.opened_at),
            state: "alive",
            cordon: None,
            lease_ms: None,
            host_away_ms: None,
            given_up_in_ms: None,
            events: match status.delivery {
                EventDelivery::Own => None,
                EventDelivery::Other => Some("another_connection"),
                EventDelivery::Lost => Some("lost"),
            },
            attempts: status.attempts,
            bound_attempts: status.bound_attempts,
            outlook: None,
        };
        match status.lease {
            LeaseStatus::Unlimited => {}
            LeaseStatus::Held(left) => view.lease_ms = Some(left),
            LeaseStatus::Lost { host_lost_for } => {
                view.state = "dead";
                view.host_away_ms = host_lost_for.filter(|away| *away != HOST_GIVEN_UP);
                let left = host_lost_for.map(|away| lost_after.saturating_sub(away));
                view.given_up_in_ms = left.filter(|_| status.bound_attempts > 0);
                view.outlook = Some(outlook(status, left));
            }
        }
        view
    }

    /// What is wrong with the events of one that lives, in words.
    pub(crate) fn events_in_words(&self) -> Option<&'static str> {
        match self.events.filter(|_| self.state == "alive")? {
            "lost" => Some("its events are lost: it and the others poll the database"),
            _ => Some("what it sends on its connection for events is lost: it sends on another one"),
        }
    }

    /// The server in words.
    pub(crate) fn words(&self) -> String {
        NodeStatus::describe(NodeId(self.node), &self.name, self.address.as_deref())
    }
}

/// What becomes of the attempts of a dead node. `left` is the time until its host is given up, in milliseconds; `None` if the host has a server again.
fn outlook(status: &NodeStatus, left: Option<Millis>) -> String {
    match left {
        _ if status.bound_attempts == 0 => "other servers take over".to_owned(),
        None => "its host has a server again that runs tasks, which takes them back".to_owned(),
        Some(0) => "its host is given up: other servers retry them, or end them as lost".to_owned(),
        Some(left) => {
            // Whole seconds are enough.
            let left = approximate_duration(left.div_ceil(1_000).saturating_mul(1_000));
            format!(
                "what is bound to its host waits for it: start its server within {left}, or other servers retry these attempts, or end them as lost; \
                 if the host does not come back, `longhaul nodes give-up FILE {}` does that now",
                status.node.0
            )
        }
    }
}

impl AdminContext {
    pub(crate) async fn nodes(&self) -> Result<NodesView, StoreError> {
        let (engine, lost_after_ms) = (&self.engine, self.engine.lost_after());
        let (statuses, now) = (engine.nodes().await?, engine.ports().clock.read());
        let view = |status: &NodeStatus| NodeView {
            cordon: engine.cordon(status.node).map(|cordon| match cordon {
                Cordon::Cordoned => "cordoned",
                Cordon::Drains => "draining",
            }),
            ..NodeView::of(status, engine.node_id(), lost_after_ms, now)
        };
        Ok(NodesView {
            nodes: statuses.iter().map(view).collect(),
            lost_after_ms,
        })
    }

    /// Where the log of an attempt is that is bound to another host, and whom to ask for it.
    pub(crate) async fn where_files_are(&self, host: &HostId) -> Result<String, StoreError> {
        let nodes = self.nodes().await?.nodes;
        let server = nodes.iter().find(|node| node.state == "alive" && node.host == *host.0);
        Ok(match server {
            Some(server) => format!("the log is on the host {}: ask its server, {}", host.0, server.words()),
            None => format!("the log is on the host {}, which has no server now", host.0),
        })
    }

    /// Where the active attempt of a task runs, if several servers share the store.
    pub(crate) async fn runs_at(&self, task: &Task) -> Result<Option<NodeView>, StoreError> {
        let attempt = task
            .attempt
            .as_ref()
            .filter(|attempt| attempt.state != AttemptState::Ended);
        let Some(attempt) = attempt.filter(|_| self.engine.store().capabilities().many_nodes) else {
            return Ok(None);
        };
        let nodes = self.nodes().await?.nodes;
        Ok(nodes.into_iter().find(|node| node.node == attempt.node.0))
    }
}

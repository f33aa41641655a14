//! The servers of the store as operators see them, in the API and on the page.

use crate::{context::AdminContext, words::timestamp};
use longhaul_admin_api::{NodeView, NodesView};
use longhaul_core::{
    AttemptState, HostId, Millis, NodeId, Now, Task, approximate_duration,
    store::{EventDelivery, HOST_GIVEN_UP, LeaseStatus, NodeStatus, StoreError},
};
use longhaul_runtime::Cordon;

fn node_view(status: &NodeStatus, answering: NodeId, lost_after: Millis, now: Now) -> NodeView {
    let mut view = NodeView {
        node: status.node.0,
        host: status.host.0.to_string(),
        name: status.name.to_string(),
        address: status.address.as_deref().map(str::to_owned),
        role: status.role.word().into(),
        answers: status.node == answering,
        since: timestamp(now, status.opened_at),
        state: "alive".into(),
        events: match status.delivery {
            EventDelivery::Own => None,
            EventDelivery::Other => Some("another_connection".into()),
            EventDelivery::Lost => Some("lost".into()),
        },
        attempts: status.attempts,
        bound_attempts: status.bound_attempts,
        ..NodeView::default()
    };
    match status.lease {
        LeaseStatus::Unlimited => {}
        LeaseStatus::Held(left) => view.lease_ms = Some(left),
        LeaseStatus::Lost { host_lost_for } => {
            view.state = "dead".into();
            view.host_away_ms = host_lost_for.filter(|away| *away != HOST_GIVEN_UP);
            let left = host_lost_for.map(|away| lost_after.saturating_sub(away));
            view.given_up_in_ms = left.filter(|_| status.bound_attempts > 0);
            view.outlook = Some(outlook(status, left));
        }
    }
    view
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
                Cordon::Cordoned => "cordoned".into(),
                Cordon::Drains => "draining".into(),
            }),
            ..node_view(status, engine.node_id(), lost_after_ms, now)
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
            Some(server) => format!("it is on the host {}: ask its server, {}", host.0, server.words()),
            None => format!("it is on the host {}, which has no server now", host.0),
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

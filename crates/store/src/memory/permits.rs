//! The permits of nodes.

use longhaul_core::{
    NodeId, UnixMillis,
    store::{PermitHolder, PermitReport, PermitRequest, Permits, StoreError},
};
use std::{collections::BTreeMap, sync::Arc};

/// Who holds how many permits of which tool.
#[derive(Default)]
pub(super) struct PermitTable {
    holders: BTreeMap<(Arc<str>, NodeId), PermitHolder>,
    /// The number of each node's last report.
    reports: BTreeMap<NodeId, u64>,
}

impl PermitTable {
    /// Forgets what dead nodes hold.
    pub(super) fn retain_nodes(&mut self, lives: impl Fn(NodeId) -> bool) {
        self.holders.retain(|(_, holder), _| lives(*holder));
    }

    /// Answers a report of a node that lives. `limit_of`: the limit of a tool, and how many attempts of it are those of dead nodes. Also returns the tools of
    /// which something has changed.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if a later report of the node was answered.
    pub(super) fn share(
        &mut self,
        node: NodeId,
        report: &PermitReport,
        limit_of: impl Fn(&str) -> (usize, usize),
        now: UnixMillis,
    ) -> Result<(Vec<Permits>, Vec<Arc<str>>), StoreError> {
        let last = self.reports.entry(node).or_default();
        if report.number <= *last {
            return Err(StoreError::Failed("a later report was made already".to_owned()));
        }
        *last = report.number;
        let mut changed: Vec<Arc<str>> = Vec::new();
        self.holders.retain(|(tool, holder), _| {
            let is_kept = *holder != node || report.requests.iter().any(|request| request.tool == *tool);
            if !is_kept {
                changed.push(Arc::clone(tool));
            }
            is_kept
        });
        let mut permits = Vec::new();
        for request in &report.requests {
            let tool = Arc::clone(&request.tool);
            let before = self.holders.get(&(Arc::clone(&tool), node)).copied();
            let others = self.others(node, request);
            let (after, count) = PermitHolder::answer(node, request, before, &others, limit_of(&tool), now);
            if before != Some(after) {
                changed.push(Arc::clone(&tool));
            }
            self.holders.insert((Arc::clone(&tool), node), after);
            permits.push(Permits { tool, count });
        }
        Ok((permits, changed))
    }

    fn others(&self, node: NodeId, request: &PermitRequest) -> Vec<PermitHolder> {
        let holders = self.holders.iter();
        let others = holders.filter(|((tool, holder), _)| *tool == request.tool && *holder != node);
        others.map(|(_, holder)| *holder).collect()
    }
}

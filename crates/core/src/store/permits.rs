//! The concurrency of a tool over many nodes: each node holds permits, and begins work only with a permit.

use crate::{Millis, NodeId, UnixMillis};
use std::sync::Arc;

/// How long a node may keep a permit that others wait for.
const TURN: Millis = 2_000;

/// What a node says of its permits. It lists each tool with a limit of which it uses or wants any; of all others it gives its permits back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermitReport {
    /// Counts the reports of a node: one that arrives after a later one changes nothing.
    pub number: u64,
    /// One for each tool.
    pub requests: Vec<PermitRequest>,
}

/// What a node needs for one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermitRequest {
    /// The tool.
    pub tool: Arc<str>,
    /// How many permits are in use. Until the report is answered, the node does not use more.
    pub used: usize,
    /// How many it could use now, those in use included.
    pub wanted: usize,
}

/// The answer to a [`PermitRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permits {
    /// The tool.
    pub tool: Arc<str>,
    /// How many permits the node may use. If it uses more, it begins nothing, and reports again when work ends.
    pub count: usize,
}

/// What a store keeps for each node and tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermitHolder {
    /// The node.
    pub node: NodeId,
    /// How many permits nobody else may use.
    pub held: usize,
    /// How many it could use.
    pub wanted: usize,
    /// How many of them are its fair share.
    pub share: usize,
    /// Since when it may use fewer than it could.
    pub short_since: Option<UnixMillis>,
    /// When it last got more than it had.
    pub got_at: UnixMillis,
}

impl PermitHolder {
    /// Answers a request of `node` for a tool of which `limit` may run at once. `before`: what is kept for the node; `others`: the same for the other
    /// nodes with a lease; `lost`: how many attempts are still those of dead nodes. Returns what is to be kept, and how many permits the node may use.
    ///
    /// As long as each node keeps to its answers, the nodes never hold more than `limit` together.
    ///
    /// Each node gets its fair share: as much as all others that want as much. What cannot be shared evenly, as a single permit, stays with a node for two
    /// seconds, and then goes to the one that has waited longest.
    pub fn answer(
        node: NodeId,
        request: &PermitRequest,
        before: Option<Self>,
        others: &[Self],
        (limit, lost): (usize, usize),
        now: UnixMillis,
    ) -> (Self, usize) {
        let limit = limit.saturating_sub(lost);
        let mut holder = Self {
            node,
            held: before.map_or(0, |before| before.held),
            wanted: request.wanted.max(request.used),
            share: 0,
            short_since: before.and_then(|before| before.short_since),
            got_at: before.map_or(now, |before| before.got_at),
        };
        holder.share = holder.fair_share(others, limit, now);
        let elsewhere: usize = others.iter().map(|other| other.held).sum();
        let count = holder.share.min(limit.saturating_sub(elsewhere));
        let held = count.max(request.used);
        if held > holder.held {
            holder.got_at = now;
        }
        holder.held = held;
        let is_short = count < holder.wanted;
        holder.short_since = is_short.then(|| holder.short_since.unwrap_or(now));
        (holder, count)
    }

    /// How many permits this node is due, beside `others`.
    fn fair_share(&self, others: &[Self], limit: usize, now: UnixMillis) -> usize {
        let mut wanted: Vec<usize> = others.iter().map(|other| other.wanted).collect();
        wanted.push(self.wanted);
        wanted.sort_unstable();
        let (mut left, mut nodes) = (limit, wanted.len());
        for wanted in wanted {
            if wanted.saturating_mul(nodes) > left {
                break;
            }
            left -= wanted;
            nodes -= 1;
        }
        if nodes == 0 {
            return self.wanted;
        }
        // All those that want more get `level`, and some of them one more.
        let level = left / nodes;
        if self.wanted <= level {
            return self.wanted;
        }
        let before_this = |other: &&Self| other.wanted > level && other.order(level, now) < self.order(level, now);
        let earlier = others.iter().filter(before_this).count();
        level + usize::from(earlier < left % nodes)
    }

    /// Who gets one more first: nodes that have it and whose turn is not over; then those that wait, the longest wait first; then those that have it.
    fn order(&self, level: usize, now: UnixMillis) -> impl Ord + use<> {
        let (rank, since) = match self.held > level {
            true if now.since(self.got_at) < TURN => (0, self.got_at),
            true => (2, self.got_at),
            false => (1, self.short_since.unwrap_or(now)),
        };
        (rank, since, self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Nodes that work on one tool, and what is kept for them.
    #[derive(Default)]
    struct Nodes {
        holders: BTreeMap<NodeId, PermitHolder>,
        used: BTreeMap<NodeId, usize>,
        may_use: BTreeMap<NodeId, usize>,
    }

    impl Nodes {
        fn report(&mut self, node: NodeId, wanted: usize, limit: usize, now: UnixMillis) -> usize {
            let request = PermitRequest {
                tool: "a".into(),
                used: self.used(node),
                wanted,
            };
            let others = self.holders.iter().filter(|(other, _)| **other != node);
            let others: Vec<PermitHolder> = others.map(|(_, holder)| *holder).collect();
            let before = self.holders.get(&node).copied();
            let (holder, count) = PermitHolder::answer(node, &request, before, &others, (limit, 0), now);
            self.holders.insert(node, holder);
            self.may_use.insert(node, count);
            count
        }

        fn used(&self, node: NodeId) -> usize {
            self.used.get(&node).copied().unwrap_or_default()
        }

        fn begin_all(&mut self, node: NodeId) {
            let count = self.may_use.get(&node).copied().unwrap_or_default();
            let used = self.used(node).max(count);
            self.used.insert(node, used);
        }
    }

    proptest! {
        #[test]
        fn the_limit_holds_and_is_used_up(
            limit in 0..12_usize,
            reports in prop::collection::vec((1..5_i64, 0..12_usize, any::<bool>(), 0..4_000_i64), 1..60),
        ) {
            let mut nodes = Nodes::default();
            let mut now = UnixMillis(0);
            for (node, wanted, ends, later) in reports {
                let node = NodeId(node);
                now = UnixMillis(now.0 + later);
                if ends {
                    nodes.used.insert(node, 0);
                }
                nodes.report(node, wanted, limit, now);
                nodes.begin_all(node);
                prop_assert!(nodes.used.values().sum::<usize>() <= limit);
            }
            // When all have ended their work and report again, nothing that is wanted is left over.
            nodes.used.clear();
            let wanted: BTreeMap<NodeId, usize> = nodes.holders.iter().map(|(id, kept)| (*id, kept.wanted)).collect();
            for _ in 0..5 {
                for (node, wanted) in &wanted {
                    nodes.report(*node, *wanted, limit, now);
                }
            }
            let permitted: usize = nodes.may_use.values().sum();
            prop_assert_eq!(permitted, limit.min(wanted.values().sum()));
        }
    }

    #[test]
    fn permits_are_shared_evenly_and_not_with_those_who_want_none() {
        let mut nodes = Nodes::default();
        let now = UnixMillis(0);
        assert_eq!(nodes.report(NodeId(1), 10, 10, now), 10);
        assert_eq!(nodes.report(NodeId(2), 2, 10, now), 0, "all are held");
        assert_eq!(nodes.report(NodeId(1), 10, 10, now), 8);
        assert_eq!(nodes.report(NodeId(2), 2, 10, now), 2);
        assert_eq!(nodes.report(NodeId(3), 10, 10, now), 0);
        assert_eq!(nodes.report(NodeId(1), 10, 10, now), 4);
        assert_eq!(nodes.report(NodeId(3), 10, 10, now), 4);
        assert_eq!(nodes.report(NodeId(2), 0, 10, now), 0);
        assert_eq!(nodes.report(NodeId(3), 10, 10, now), 5);
        assert_eq!(nodes.report(NodeId(1), 10, 10, now), 5);
    }

    #[test]
    fn a_single_permit_changes_hands() {
        let mut nodes = Nodes::default();
        let (a, b) = (NodeId(1), NodeId(2));
        assert_eq!(nodes.report(a, 1, 1, UnixMillis(0)), 1);
        nodes.begin_all(a);
        assert_eq!(nodes.report(b, 1, 1, UnixMillis(0)), 0);
        nodes.used.insert(a, 0);
        assert_eq!(nodes.report(a, 1, 1, UnixMillis(1)), 1, "it is its turn");
        nodes.begin_all(a);
        assert_eq!(nodes.report(b, 1, 1, UnixMillis(2_000)), 0, "it is in use");
        assert_eq!(nodes.report(a, 1, 1, UnixMillis(2_001)), 0, "it may not begin more");
        nodes.used.insert(a, 0);
        assert_eq!(nodes.report(a, 1, 1, UnixMillis(2_002)), 0);
        assert_eq!(nodes.report(b, 1, 1, UnixMillis(2_003)), 1);
        assert_eq!(nodes.report(a, 1, 1, UnixMillis(4_002)), 0, "it is the other's turn");
        assert_eq!(nodes.report(b, 1, 1, UnixMillis(4_003)), 0, "its turn is over");
        assert_eq!(nodes.report(a, 1, 1, UnixMillis(4_004)), 1);
    }
}

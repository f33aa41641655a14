//! Tasks in order, in a line for each group.

use longhaul_core::TaskId;
use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
    ops::RangeBounds,
};

/// Tasks in order of their rank, then id, in a line for each group. `()` where there is but one line, or no rank.
#[derive(PartialEq)]
pub(super) struct Lines<Group, Rank>(BTreeMap<Group, BTreeSet<(Rank, TaskId)>>);

impl<Group, Rank> Default for Lines<Group, Rank> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<Group: Ord, Rank: Ord> Lines<Group, Rank> {
    /// The line of one group, from its beginning.
    pub(super) fn of<G: Ord + ?Sized>(&self, group: &G) -> impl Iterator<Item = &(Rank, TaskId)>
    where
        Group: Borrow<G>,
    {
        self.0.get(group).into_iter().flatten()
    }

    /// A part of the line of one group.
    pub(super) fn part<G: Ord + ?Sized>(
        &self,
        group: &G,
        range: impl RangeBounds<(Rank, TaskId)>,
    ) -> impl DoubleEndedIterator<Item = &(Rank, TaskId)>
    where
        Group: Borrow<G>,
    {
        self.0.get(group).map(|line| line.range(range)).into_iter().flatten()
    }

    /// Every group with its line, which is not empty.
    pub(super) fn groups(&self) -> impl Iterator<Item = (&Group, &BTreeSet<(Rank, TaskId)>)> {
        self.0.iter()
    }

    pub(super) fn shift(&mut self, id: &TaskId, before: Option<(Group, Rank)>, after: Option<(Group, Rank)>) {
        if before == after {
            return;
        }
        if let Some((group, rank)) = before
            && let Some(line) = self.0.get_mut(&group)
        {
            line.remove(&(rank, id.clone()));
            if line.is_empty() {
                self.0.remove(&group);
            }
        }
        if let Some((group, rank)) = after {
            self.0.entry(group).or_default().insert((rank, id.clone()));
        }
    }
}

//! Drives the branches of a `join` or a `select`: polls them in their order, inside the function's own future.

use super::branches::Branch;
use crate::TaskContext;
use longhaul_core::BoxFuture;
use longhaul_runtime::Fork;
use std::{
    future::poll_fn,
    iter::Enumerate,
    task::{Context, Poll},
    vec::IntoIter,
};

/// The running branches of a fork.
pub(super) struct BranchDriver<'f, 'a, T> {
    parent: &'f TaskContext,
    fork: &'f Fork,
    /// Branches that have not started.
    waiting: Enumerate<IntoIter<Branch<'a, T>>>,
    /// Running branches, in the order in which they started.
    running: Vec<(usize, BoxFuture<'a, T>)>,
    limit: usize,
}

impl<'f, 'a, T> BranchDriver<'f, 'a, T> {
    /// At most `limit` run at once.
    pub(super) fn new(parent: &'f TaskContext, fork: &'f Fork, branches: Vec<Branch<'a, T>>, limit: usize) -> Self {
        let mut driver = Self {
            parent,
            fork,
            waiting: branches.into_iter().enumerate(),
            running: Vec::new(),
            limit: limit.max(1),
        };
        driver.start_next();
        driver
    }

    /// Only the branch with this index, if there is one.
    pub(super) fn only(parent: &'f TaskContext, fork: &'f Fork, branches: Vec<Branch<'a, T>>, nth: usize) -> Self {
        let mut waiting = branches.into_iter().enumerate();
        let branch = waiting.by_ref().nth(nth);
        let mut driver = Self {
            parent,
            fork,
            waiting: Vec::new().into_iter().enumerate(),
            running: Vec::new(),
            limit: 1,
        };
        driver.start(branch);
        driver
    }

    /// Waits for the next branch to end; of branches that end together, the one that started first. `None` once all have ended. The branch
    /// counts as running until [`finish`](Self::finish).
    pub(super) async fn next(&mut self) -> Option<(usize, T)> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Starts the next branch in the place of one that has ended, and only then reports that one as over: while no branch runs, the task counts
    /// as waiting.
    pub(super) fn finish(&mut self, nth: usize) {
        self.start_next();
        self.fork.over(nth);
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(usize, T)>> {
        for at in 0..self.running.len() {
            let (nth, branch) = &mut self.running[at];
            if let Poll::Ready(output) = branch.as_mut().poll(cx) {
                let nth = *nth;
                drop(self.running.remove(at));
                return Poll::Ready(Some((nth, output)));
            }
        }
        if self.running.is_empty() {
            return Poll::Ready(None);
        }
        Poll::Pending
    }

    fn start_next(&mut self) {
        while self.running.len() < self.limit {
            let next = self.waiting.next();
            if next.is_none() {
                return;
            }
            self.start(next);
        }
    }

    fn start(&mut self, branch: Option<(usize, Branch<'a, T>)>) {
        if let Some((nth, branch)) = branch
            && let Some(journal) = self.fork.begin(nth)
        {
            self.running.push((nth, branch(self.parent.branch(journal))));
        }
    }
}

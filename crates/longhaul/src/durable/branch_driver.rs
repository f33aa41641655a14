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
    /// Branches that have not begun.
    waiting: Enumerate<IntoIter<Branch<'a, T>>>,
    /// Running branches, in the order in which they began.
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
        driver.begin();
        driver
    }

    /// Only this branch, if it is there.
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
        driver.run(branch);
        driver
    }

    /// The next to end, of those that end together the one that began first; `None` when all have. It is still held to go on until
    /// [`leave`](Self::leave).
    pub(super) async fn next(&mut self) -> Option<(usize, T)> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Says that nothing more comes of a branch that has ended, and begins another in its place. Before that, since while none of them
    /// goes on, the task is taken to wait.
    pub(super) fn leave(&mut self, nth: usize) {
        self.begin();
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

    fn begin(&mut self) {
        while self.running.len() < self.limit {
            let next = self.waiting.next();
            if next.is_none() {
                return;
            }
            self.run(next);
        }
    }

    fn run(&mut self, branch: Option<(usize, Branch<'a, T>)>) {
        if let Some((nth, branch)) = branch
            && let Some(journal) = self.fork.begin(nth)
        {
            self.running.push((nth, branch(self.parent.branch(journal))));
        }
    }
}

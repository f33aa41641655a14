//! Runs branches concurrently until the first ends.

use super::{
    branch_driver::BranchDriver,
    branches::{Branch, Sealed, SelectBranches},
};
use crate::TaskContext;
use longhaul_core::BoxFuture;
use longhaul_runtime::JournalError;

impl TaskContext {
    /// Runs branches concurrently until the first ends, and returns its index and what it returned. If several end at once, the lowest index
    /// wins.
    ///
    /// The winner is recorded, and a replay runs only that branch. The others are dropped: their questions are withdrawn and their calls
    /// cancelled. A step that was running in one of them may have had its effect.
    ///
    /// As for [`join`](Self::join), the branches are an iterator of async functions or a tuple of two to four, and each must use the context it
    /// is given. All return the same type. Without branches it never ends.
    ///
    /// ```
    /// use longhaul::{TaskContext, ToolResult, time::hours};
    /// async fn remind(cx: TaskContext) -> ToolResult<String> {
    ///     let (first, answer) = cx.select((
    ///         async |cx: TaskContext| cx.elicit_url("Please sign", "https://example.com").await.map(|_| "signed"),
    ///         async |cx: TaskContext| { cx.sleep(hours(8)).await?; Ok("too late") },
    ///     )).await?;
    ///     Ok(format!("{}, by branch {first}", answer?))
    /// }
    /// # longhaul::Tool::durable("remind", remind);
    /// ```
    ///
    /// # Errors
    /// [`JournalError`]; in a tool that is not [durable](crate::Tool::durable), [`JournalError::None`].
    pub fn select<'a, Shape, B>(&'a self, branches: B) -> BoxFuture<'a, Result<(usize, B::Output), JournalError>>
    where
        B: SelectBranches<'a, Shape, First: Send, Second: Send, Third: Send, Fourth: Send>,
    {
        let branches = branches.split(Sealed);
        Box::pin(first(self, branches))
    }
}

async fn first<'a, T>(cx: &TaskContext, branches: Vec<Branch<'a, T>>) -> Result<(usize, T), JournalError> {
    let fork = cx.journal().fork(branches.len())?;
    let race = fork.winner()?;
    let mut driver = match race.winner {
        Some(winner) => BranchDriver::only(cx, &fork, branches, winner),
        None => BranchDriver::new(cx, &fork, branches, usize::MAX),
    };
    let Some((winner, output)) = driver.next().await else {
        return Err(JournalError::Stopped(cx.journal().stopped().await));
    };
    // The other branches are dropped after this is recorded.
    fork.decide(race, winner).await?;
    Ok((winner, output))
}

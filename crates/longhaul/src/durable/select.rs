//! Doing several things at once, and going on with the first that ends.

use super::{
    branches::{Branch, Racing},
    lanes::Lanes,
};
use crate::TaskContext;
use longhaul_core::BoxFuture;
use longhaul_runtime::JournalError;

impl TaskContext {
    /// Runs branches of the function beside each other until the first ends, and gives its number and what it returned. Of several that
    /// end at once it is the one of the lowest number.
    ///
    /// That is decided once: run again, the function goes through the winner only. The losers are dropped where they stand: their questions
    /// are withdrawn, their calls cancelled. A step that was under way may have had its effect.
    ///
    /// As for [`join`](Self::join), the branches are an iterator of functions or a tuple of two to four, and each uses the context it is
    /// given. All return the same type. Of no branches none ever ends.
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
    pub fn select<'a, Shape, B: Racing<'a, Shape>>(
        &'a self,
        branches: B,
    ) -> BoxFuture<'a, Result<(usize, B::Output), JournalError>> {
        let branches = branches.split();
        Box::pin(first(self, branches))
    }
}

async fn first<'a, T>(cx: &TaskContext, branches: Vec<Branch<'a, T>>) -> Result<(usize, T), JournalError> {
    let fork = cx.journal().fork(branches.len())?;
    let race = fork.winner()?;
    let mut lanes = match race.winner {
        Some(winner) => Lanes::only(cx, &fork, branches, winner),
        None => Lanes::new(cx, &fork, branches, usize::MAX),
    };
    let Some((winner, output)) = lanes.next().await else {
        return Err(JournalError::Stopped(cx.journal().stopped().await));
    };
    // The losers are still there, and dropped after this.
    fork.decide(race, winner).await?;
    Ok((winner, output))
}

//! Doing several things at once, and waiting for all.

use super::{
    branches::{Branch, Joining, TryJoining},
    lanes::Lanes,
};
use crate::{Error, TaskContext};
use longhaul_core::BoxFuture;
use longhaul_runtime::JournalError;
use std::{future::IntoFuture, marker::PhantomData};

impl TaskContext {
    /// Runs branches of the function beside each other, and waits for all: an iterator of async functions of one type, or a tuple of two
    /// to four different ones. Each is given a context of its own and uses no other, or is told so: by it the journal tells the branches
    /// apart, and it does not matter which of them was faster.
    ///
    /// Awaiting gives what each returned, in their order: a vector or a tuple. [`all`](Join::all) takes results apart.
    ///
    /// They share the function's one thread of execution: what computes for long belongs elsewhere.
    ///
    /// ```
    /// use longhaul::{TaskContext, ToolResult, time::hours};
    /// use serde_json::json;
    /// async fn test_all(cx: TaskContext) -> ToolResult<String> {
    ///     let platforms = ["linux", "macos", "windows"];
    ///     let tests = platforms.map(|platform| move |cx: TaskContext| async move {
    ///         cx.call("test", json!({"platform": platform})).await
    ///     });
    ///     let results = cx.join(tests).limit(2).all().await?;
    ///     let (answer, ()) = cx.join((
    ///         async |cx: TaskContext| cx.elicit_url("Read this meanwhile", "https://example.com").await.is_ok(),
    ///         async |cx: TaskContext| drop(cx.sleep(hours(1)).await),
    ///     )).await?;
    ///     Ok(format!("{} passed, read: {answer}", results.len()))
    /// }
    /// # longhaul::Tool::durable("test_all", test_all);
    /// ```
    pub fn join<'a, Shape, B: Joining<'a, Shape>>(&'a self, branches: B) -> Join<'a, B, Shape> {
        Join {
            cx: self,
            branches,
            limit: usize::MAX,
            shape: PhantomData,
        }
    }
}

/// Branches that have not begun; made by [`TaskContext::join`]. Awaiting it runs them.
#[must_use = "nothing runs until it is awaited"]
pub struct Join<'a, B, Shape> {
    cx: &'a TaskContext,
    branches: B,
    limit: usize,
    shape: PhantomData<fn() -> Shape>,
}

impl<'a, B, Shape> Join<'a, B, Shape> {
    /// How many run at once, at least 1; the others begin as those end. By default all.
    pub fn limit(mut self, most: usize) -> Self {
        self.limit = most;
        self
    }

    /// Gives what is in the results of all, or the error of the branch that failed first; the others are then dropped where they stand:
    /// their questions are withdrawn, their calls cancelled. Which one failed first is kept, so that it is the same error each time.
    ///
    /// # Errors
    /// The branch's, or one about the journal.
    pub fn all(self) -> BoxFuture<'a, Result<B::All, Error>>
    where
        B: TryJoining<'a, Shape>,
    {
        let Self {
            cx, branches, limit, ..
        } = self;
        let branches = branches.split();
        Box::pin(async move { Ok(together(B::gather(all_or_first_failed(cx, branches, limit).await?))) })
    }
}

impl<'a, B: Joining<'a, Shape> + 'a, Shape> IntoFuture for Join<'a, B, Shape> {
    type Output = Result<B::All, JournalError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            cx, branches, limit, ..
        } = self;
        let branches = branches.split();
        Box::pin(async move { Ok(together(B::gather(all(cx, branches, limit).await?))) })
    }
}

async fn all<'a, T>(cx: &TaskContext, branches: Vec<Branch<'a, T>>, limit: usize) -> Result<Vec<T>, JournalError> {
    let fork = cx.journal().fork(branches.len())?;
    let mut outputs = Outputs::of(branches.len());
    let mut lanes = Lanes::new(cx, &fork, branches, limit);
    while let Some((nth, output)) = lanes.next().await {
        outputs.put(nth, output);
        lanes.leave(nth);
    }
    Ok(outputs.in_order())
}

/// Which branch failed first is a race like any other: it is decided once, also if none does. Without that the branches that were dropped
/// would run on in the next attempt.
async fn all_or_first_failed<'a, T>(
    cx: &TaskContext,
    branches: Vec<Branch<'a, Result<T, Error>>>,
    limit: usize,
) -> Result<Vec<T>, Error> {
    let count = branches.len();
    let fork = cx.journal().fork(count)?;
    let race = fork.first_failed()?;
    let mut lanes = match race.winner {
        Some(failed) if failed < count => Lanes::only(cx, &fork, branches, failed),
        _ => Lanes::new(cx, &fork, branches, limit),
    };
    let mut outputs = Outputs::of(count);
    while let Some((nth, output)) = lanes.next().await {
        match output {
            Ok(output) => outputs.put(nth, output),
            Err(error) => {
                fork.decide(race, nth).await?;
                return Err(error);
            }
        }
        lanes.leave(nth);
    }
    match race.winner {
        None => fork.decide(race, count).await?,
        Some(failed) if failed < count => return Err(Error::server_fault(ONCE_FAILED)),
        Some(_) => {}
    }
    Ok(outputs.in_order())
}

const ONCE_FAILED: &str =
    "a branch that had failed before does not fail any more: what comes out differently each time belongs into a step";

/// What branches have given, each at its place.
struct Outputs<T>(Vec<Option<T>>);

impl<T> Outputs<T> {
    fn of(count: usize) -> Self {
        Self(std::iter::repeat_with(|| None).take(count).collect())
    }

    fn put(&mut self, nth: usize, output: T) {
        if let Some(place) = self.0.get_mut(nth) {
            *place = Some(output);
        }
    }

    fn in_order(self) -> Vec<T> {
        self.0.into_iter().flatten().collect()
    }
}

fn together<T>(all: Option<T>) -> T {
    all.unwrap_or_else(|| unreachable!("every branch has come to its end and given what it gives"))
}

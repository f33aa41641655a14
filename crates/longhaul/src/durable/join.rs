//! Runs branches concurrently and waits for all.

use super::{
    branch_driver::BranchDriver,
    branches::{Branch, JoinBranches, Sealed, TryJoinBranches},
};
use crate::{Error, TaskContext};
use longhaul_core::BoxFuture;
use longhaul_runtime::JournalError;
use std::future::IntoFuture;

impl TaskContext {
    /// Runs branches concurrently and waits for all: an iterator of async functions of one type, or a tuple of two to four different ones. Each
    /// branch gets a context of its own and must use only that one: the journal tells the branches apart by their contexts, so it does not
    /// matter which one is faster.
    ///
    /// Awaiting it returns what each branch returned, in order, as a vector or a tuple; [`all`](Join::all) unwraps their `Result`s.
    ///
    /// The branches are concurrent and not parallel: all run in the future of the function.
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
    pub fn join<'a, Shape, B>(&'a self, branches: B) -> Join<'a, B, Shape>
    where
        B: JoinBranches<'a, Shape, First: Send, Second: Send, Third: Send, Fourth: Send>,
    {
        Join {
            cx: self,
            branches,
            split: B::split,
            limit: usize::MAX,
        }
    }
}

/// Branches that do not run yet; made by [`TaskContext::join`]. Awaiting it runs them.
#[must_use = "nothing runs until it is awaited"]
pub struct Join<'a, B: JoinBranches<'a, Shape>, Shape> {
    cx: &'a TaskContext,
    branches: B,
    /// Taken where the futures are known to be `Send`, so that the compiler reports a future that is not only there.
    split: Split<'a, B, B::Each>,
    limit: usize,
}

type Split<'a, B, T> = fn(B, Sealed) -> Vec<Branch<'a, T>>;

impl<'a, B: JoinBranches<'a, Shape>, Shape> Join<'a, B, Shape> {
    /// How many branches run at once, at least 1; by default all.
    pub fn limit(mut self, most: usize) -> Self {
        self.limit = most;
        self
    }

    /// Returns the values of all branches, or the error of the one that failed first. Then the others are dropped: their questions are withdrawn
    /// and their calls cancelled. Which branch failed first is recorded.
    ///
    /// # Errors
    /// That of the branch, or of the journal.
    pub fn all(self) -> BoxFuture<'a, Result<<B as TryJoinBranches<'a, Shape>>::All, Error>>
    where
        B: TryJoinBranches<'a, Shape, First: Send, Second: Send, Third: Send, Fourth: Send>,
    {
        let Self {
            cx, branches, limit, ..
        } = self;
        let branches = TryJoinBranches::split(branches, Sealed);
        Box::pin(async move {
            let values = all_or_first_failed(cx, branches, limit).await?;
            Ok(expect_all(<B as TryJoinBranches<'a, Shape>>::gather(values)))
        })
    }
}

impl<'a, B, Shape> IntoFuture for Join<'a, B, Shape>
where
    B: JoinBranches<'a, Shape> + 'a,
{
    type Output = Result<B::All, JournalError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            cx,
            branches,
            split,
            limit,
        } = self;
        let branches = split(branches, Sealed);
        Box::pin(async move { Ok(expect_all(B::gather(all(cx, branches, limit).await?))) })
    }
}

async fn all<'a, T>(cx: &TaskContext, branches: Vec<Branch<'a, T>>, limit: usize) -> Result<Vec<T>, JournalError> {
    let fork = cx.journal().fork(branches.len())?;
    let mut outputs = Outputs::of(branches.len());
    let mut driver = BranchDriver::new(cx, &fork, branches, limit);
    while let Some((nth, output)) = driver.next().await {
        outputs.put(nth, output);
        driver.finish(nth);
    }
    Ok(outputs.in_order())
}

/// Records which branch failed first, if any: otherwise the next replay would run the branches that were dropped.
async fn all_or_first_failed<'a, T>(
    cx: &TaskContext,
    branches: Vec<Branch<'a, Result<T, Error>>>,
    limit: usize,
) -> Result<Vec<T>, Error> {
    let count = branches.len();
    let fork = cx.journal().fork(count)?;
    let race = fork.first_failed()?;
    let mut driver = match race.winner {
        Some(failed) if failed < count => BranchDriver::only(cx, &fork, branches, failed),
        _ => BranchDriver::new(cx, &fork, branches, limit),
    };
    let mut outputs = Outputs::of(count);
    while let Some((nth, output)) = driver.next().await {
        match output {
            Ok(output) => outputs.put(nth, output),
            Err(error) => {
                fork.decide(race, nth).await?;
                return Err(error);
            }
        }
        driver.finish(nth);
    }
    match race.winner {
        None => fork.decide(race, count).await?,
        Some(failed) if failed < count => return Err(Error::server_fault(FAILED_BEFORE)),
        Some(_) => {}
    }
    Ok(outputs.in_order())
}

const FAILED_BEFORE: &str =
    "a branch that failed before does not fail in this replay: put what may differ each time into a step";

/// The outputs of branches, in their order.
struct Outputs<T>(Vec<Option<T>>);

impl<T> Outputs<T> {
    fn of(count: usize) -> Self {
        Self(std::iter::repeat_with(|| None).take(count).collect())
    }

    fn put(&mut self, nth: usize, output: T) {
        if let Some(slot) = self.0.get_mut(nth) {
            *slot = Some(output);
        }
    }

    fn in_order(self) -> Vec<T> {
        self.0.into_iter().flatten().collect()
    }
}

fn expect_all<T>(all: Option<T>) -> T {
    all.unwrap_or_else(|| unreachable!("every branch has ended and returned its output"))
}

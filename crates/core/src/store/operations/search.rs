//! Many tasks at once.

use crate::{
    BoxFuture, Principal, Scope, Task, TaskId, Usage,
    store::{Counts, FoundTasks, LiveTasks, Page, StoreError, TaskLookup, TaskSearch},
};

/// Finds, lists and counts tasks. See the [module](crate::store) for what all methods promise together.
pub trait SearchStore: Send + Sync + 'static {
    /// Up to `limit` tasks, as the [`TaskLookup`] says.
    fn find(&self, lookup: TaskLookup, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>>;

    /// Tasks of any owner, announced or not, as [`TaskSearch::page_of`] finds them: for an operator, never for a client. The cost of a page does not grow with
    /// what is kept if it is of live or of unsuccessful tasks, of those of a principal, or of those that a task started.
    fn search(&self, search: TaskSearch) -> BoxFuture<'_, Result<FoundTasks, StoreError>>;

    /// Announced tasks in `scope`, newest first, that are older than `before` (by id).
    fn list(&self, scope: &Scope, before: Option<&TaskId>, limit: usize) -> BoxFuture<'_, Result<Page, StoreError>>;

    /// Live tasks by state.
    fn counts(&self) -> BoxFuture<'_, Result<Counts, StoreError>>;

    /// Live tasks by tool and state, in order of both; a state of a tool without tasks is left out. Costs as much as there are live tasks.
    fn live_tasks(&self) -> BoxFuture<'_, Result<Vec<LiveTasks>, StoreError>>;

    /// How much one principal has, or all together.
    fn usage(&self, of: Option<&Principal>) -> BoxFuture<'_, Result<Usage, StoreError>>;
}

//! An action on all tasks that a filter finds. Each task is acted on as if alone, and each action is recorded.

use super::{ActionError, TaskAction};
use crate::{
    access::Actor,
    context::AdminContext,
    query::{self, InvalidQuery, MOST, MOST_EXAMINED, STATES},
};
use futures_util::{StreamExt as _, TryStreamExt as _, future, stream};
use longhaul_admin_api::{BulkPreview, BulkReport, TaskQuery};
use longhaul_core::{
    State, Task, Verdict,
    store::{SearchOrder, TaskFilter, TaskSearch},
};
use longhaul_runtime::OperatorError;

/// Tasks of one request.
pub(crate) const AT_ONCE: usize = MOST;
/// Tasks of which a preview finds out whether they were retried or reset.
const MOST_CHECKED: usize = 5_000;
/// Actions that run at the same time, so that they share commits.
const TOGETHER: usize = 64;

/// What can be done to many tasks.
#[derive(Debug)]
pub(crate) struct BulkAction {
    pub(crate) name: &'static str,
    /// What a page calls it.
    pub(crate) title: &'static str,
    /// What was done.
    pub(crate) done: &'static str,
    /// What it does to each task.
    pub(crate) meaning: &'static str,
    /// What its `state` may name.
    state_words: &'static str,
    on_one: TaskAction,
    /// Whether it can be done to a task in this state.
    is_for: fn(State) -> bool,
    /// Whether tasks that go on as another one are left out.
    leaves_out_successors: bool,
}

/// Each of them.
pub(crate) static BULK_ACTIONS: [BulkAction; 4] = [
    BulkAction {
        name: "cancel",
        title: "Cancel",
        done: "Cancelled",
        meaning: "The work of each task is asked to stop. One that does not run ends at once. Its client sees it cancelled.",
        state_words: "live, or one of queued, running, suspended and blocked",
        on_one: TaskAction::Cancel,
        is_for: |state| !matches!(state, State::Done(_)),
        leaves_out_successors: false,
    },
    BulkAction {
        name: "retry",
        title: "Retry",
        done: "Retried",
        meaning: "Each task is made again as a new one, with the same arguments, for the same principal. Those that go on as another task, because they were retried or reset before, are left out.",
        state_words: "failed or cancelled",
        on_one: TaskAction::Retry,
        is_for: |state| matches!(state, State::Done(verdict) if verdict != Verdict::Succeeded),
        leaves_out_successors: true,
    },
    BulkAction {
        name: "release",
        title: "Release",
        done: "Released",
        meaning: "Each task is tried again now.",
        state_words: "blocked",
        on_one: TaskAction::Release,
        is_for: |state| state == State::Blocked,
        leaves_out_successors: false,
    },
    BulkAction {
        name: "delete",
        title: "Delete",
        done: "Deleted",
        meaning: "Each task is removed with its arguments, result, journal and log. Its client does not find it any more.",
        state_words: "ended, or one of succeeded, failed and cancelled",
        on_one: TaskAction::Delete,
        is_for: |state| matches!(state, State::Done(_)),
        leaves_out_successors: false,
    },
];

impl BulkAction {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        BULK_ACTIONS.iter().find(|action| action.name == name)
    }

    /// Whether the query may find tasks that can be acted on.
    pub(crate) fn fits(&self, query: &TaskQuery) -> bool {
        let is_for = |states: Vec<State>| states.is_empty() || states.into_iter().any(self.is_for);
        query::states(&query.state).is_ok_and(is_for)
    }

    /// The tasks that `query` finds and that can be acted on.
    ///
    /// # Errors
    /// [`ActionError::Query`], and [`ActionError::Invalid`] if it would find everything, or nothing that can be acted on.
    async fn search(&self, query: &TaskQuery, context: &AdminContext) -> Result<TaskSearch, ActionError> {
        let mut search = context.search::<ActionError>(query).await?;
        if search.filter == TaskFilter::default() {
            return Err(ActionError::Invalid(format!(
                "a filter is wanted: `state` ({}), or another part of it, such as `tool` or `principal`",
                self.state_words
            )));
        }
        let states = &mut search.filter.states;
        if states.is_empty() {
            states.extend(STATES);
        }
        states.retain(|state| (self.is_for)(*state));
        if states.is_empty() {
            return Err(InvalidQuery {
                name: "state",
                value: query.state.clone(),
                must_be: self.state_words,
            }
            .into());
        }
        if search.order != SearchOrder::NewestFirst {
            return Err(InvalidQuery {
                name: "order",
                value: query.order.clone(),
                must_be: "newest: then the tasks that a retry makes are not found again",
            }
            .into());
        }
        if query.limit.trim().is_empty() {
            search.limit = AT_ONCE;
        }
        Ok(search)
    }
}

impl AdminContext {
    /// How many tasks it would be done to.
    ///
    /// # Errors
    /// [`ActionError::Query`], or the store's.
    pub(crate) async fn preview(&self, action: &BulkAction, query: &TaskQuery) -> Result<BulkPreview, ActionError> {
        let search = TaskSearch {
            limit: match action.leaves_out_successors {
                true => MOST_CHECKED,
                false => MOST_EXAMINED,
            },
            ..action.search(query, self).await?
        };
        let found = self.engine.store().search(search).await.map_err(OperatorError::Store)?;
        let tasks = self.without_successors(action, found.tasks).await?.len();
        Ok(BulkPreview {
            tasks,
            or_more: found.next.is_some(),
            hint: match tasks {
                0 => self.unknown_tool(query.tool.trim()).await?,
                _ => None,
            },
        })
    }

    /// Without those that a retry would make nothing of, since they go on as another task.
    async fn without_successors(&self, action: &BulkAction, tasks: Vec<Task>) -> Result<Vec<Task>, OperatorError> {
        if !action.leaves_out_successors {
            return Ok(tasks);
        }
        let checked = tasks.into_iter().map(|task| async move {
            let goes_on = self.goes_on(&task).await?;
            Ok((!goes_on).then_some(task))
        });
        let kept = stream::iter(checked).buffered(TOGETHER);
        kept.try_filter_map(future::ok).try_collect().await
    }

    /// Does it to the first tasks that the query finds. [`BulkReport::next`] says where the next part begins.
    ///
    /// # Errors
    /// [`ActionError::Query`], or the store's. In the second case a part may be done.
    pub(crate) async fn act_on_all(
        &self,
        actor: &Actor,
        action: &BulkAction,
        query: &TaskQuery,
    ) -> Result<BulkReport, ActionError> {
        let search = action.search(query, self).await?;
        let found = self.engine.store().search(search).await.map_err(OperatorError::Store)?;
        let tasks = self.without_successors(action, found.tasks).await?;
        let acted = tasks.into_iter().map(|task| async move {
            let done = self.act(actor, &task.id, action.on_one.clone()).await;
            (task.id.to_string(), done)
        });
        let mut acted = stream::iter(acted).buffered(TOGETHER);
        let mut report = BulkReport {
            next: found.next.map(|next| next.to_string()),
            ..BulkReport::default()
        };
        while let Some((task, done)) = acted.next().await {
            match done {
                Ok(_) => report.done += 1,
                Err(error @ (ActionError::ReadsOnly | ActionError::Refused(OperatorError::Store(_)))) => {
                    return Err(error);
                }
                Err(error) => report.refuse(task, error.to_string()),
            }
        }
        Ok(report)
    }
}

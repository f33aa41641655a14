//! An action on all tasks that a filter finds. Each task is acted on as if alone, and each action is recorded.

use crate::{
    access::Actor,
    action::{ActionError, TaskAction},
    context::AdminContext,
    query::{InvalidQuery, MOST, MOST_EXAMINED, STATES, TaskQuery},
};
use futures_util::{StreamExt as _, TryStreamExt as _, future, stream};
use longhaul_core::{
    State, Task, Verdict,
    store::{SearchOrder, TaskFilter, TaskSearch},
};
use longhaul_runtime::OperatorError;
use serde::Serialize;

/// Tasks of one request.
pub(crate) const AT_ONCE: usize = MOST;
/// Tasks of which a preview finds out whether they were retried or reset.
const MOST_CHECKED: usize = 5_000;
/// Actions that run at the same time, so that they share commits.
const TOGETHER: usize = 64;
/// Refusals that are listed.
const LISTED: usize = 20;

/// What can be done to many tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BulkAction {
    Cancel,
    Retry,
    Release,
    Delete,
}

impl BulkAction {
    pub(crate) const ALL: [Self; 4] = [Self::Cancel, Self::Retry, Self::Release, Self::Delete];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry => "retry",
            Self::Release => "release",
            Self::Delete => "delete",
        }
    }

    /// What a page calls it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Cancel => "Cancel",
            Self::Retry => "Retry",
            Self::Release => "Release",
            Self::Delete => "Delete",
        }
    }

    /// What was done.
    pub(crate) fn done(self) -> &'static str {
        match self {
            Self::Cancel => "Cancelled",
            Self::Retry => "Retried",
            Self::Release => "Released",
            Self::Delete => "Deleted",
        }
    }

    /// What it does to each task.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Cancel => {
                "The work of each task is asked to stop. One that does not run ends at once. Its client sees it cancelled."
            }
            Self::Retry => {
                "Each task is made again as a new one, with the same arguments, for the same principal. Those that go on as another task, because they were retried or reset before, are left out."
            }
            Self::Release => "Each task is tried again now.",
            Self::Delete => {
                "Each task is removed with its arguments, result, journal and log. Its client does not find it any more."
            }
        }
    }

    fn on_one(self) -> TaskAction {
        match self {
            Self::Cancel => TaskAction::Cancel,
            Self::Retry => TaskAction::Retry,
            Self::Release => TaskAction::Release,
            Self::Delete => TaskAction::Delete,
        }
    }

    /// Whether it can be done to a task in this state.
    fn is_for(self, state: State) -> bool {
        match (self, state) {
            (Self::Cancel, state) => !matches!(state, State::Done(_)),
            (Self::Retry, State::Done(verdict)) => verdict != Verdict::Succeeded,
            (Self::Release, State::Blocked) | (Self::Delete, State::Done(_)) => true,
            _ => false,
        }
    }

    /// Whether the query may find tasks that can be acted on.
    pub(crate) fn fits(self, query: &TaskQuery) -> bool {
        let is_for = |states: Vec<State>| states.is_empty() || states.into_iter().any(|state| self.is_for(state));
        query.states().is_ok_and(is_for)
    }

    /// What its `state` may name.
    fn state_words(self) -> &'static str {
        match self {
            Self::Cancel => "live, or one of queued, running, suspended and blocked",
            Self::Retry => "failed or cancelled",
            Self::Release => "blocked",
            Self::Delete => "ended, or one of succeeded, failed and cancelled",
        }
    }

    /// The tasks that `query` finds and that can be acted on.
    ///
    /// # Errors
    /// [`ActionError::Query`], and [`ActionError::Invalid`] if it would find everything, or nothing that can be acted on.
    async fn search(self, query: &TaskQuery, context: &AdminContext) -> Result<TaskSearch, ActionError> {
        let mut search = context.search::<ActionError>(query).await?;
        if search.filter == TaskFilter::default() {
            return Err(ActionError::Invalid(format!(
                "a filter is wanted: `state` ({}), or another part of it, such as `tool` or `principal`",
                self.state_words()
            )));
        }
        let states = &mut search.filter.states;
        if states.is_empty() {
            states.extend(STATES);
        }
        states.retain(|state| self.is_for(*state));
        if states.is_empty() {
            return Err(InvalidQuery {
                name: "state",
                value: query.state.clone(),
                must_be: self.state_words(),
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

/// What has become of a part of the tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BulkReport {
    /// So many were acted on.
    pub(crate) done: usize,
    /// So many were not.
    pub(crate) refused: usize,
    /// The first of these.
    pub(crate) refusals: Vec<Refusal>,
    /// Where the next part begins, unless this is the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// A task that was not acted on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Refusal {
    pub(crate) task: String,
    pub(crate) message: String,
}

impl BulkReport {
    /// Adds the report of a later part.
    pub(crate) fn add(&mut self, later: Self) {
        self.done += later.done;
        self.refused += later.refused;
        self.refusals.extend(later.refusals);
        self.refusals.truncate(LISTED);
        self.next = later.next;
    }
}

/// The tasks that an action would be done to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BulkPreview {
    pub(crate) tasks: usize,
    /// Whether there are more than were looked at.
    pub(crate) or_more: bool,
    /// What may be wrong with the filter, if nothing was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

impl AdminContext {
    /// How many tasks it would be done to.
    ///
    /// # Errors
    /// [`ActionError::Query`], or the store's.
    pub(crate) async fn preview(&self, action: BulkAction, query: &TaskQuery) -> Result<BulkPreview, ActionError> {
        let search = TaskSearch {
            limit: match action {
                BulkAction::Retry => MOST_CHECKED,
                _ => MOST_EXAMINED,
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
    async fn without_successors(&self, action: BulkAction, tasks: Vec<Task>) -> Result<Vec<Task>, OperatorError> {
        if action != BulkAction::Retry {
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
        action: BulkAction,
        query: &TaskQuery,
    ) -> Result<BulkReport, ActionError> {
        let search = action.search(query, self).await?;
        let found = self.engine.store().search(search).await.map_err(OperatorError::Store)?;
        let tasks = self.without_successors(action, found.tasks).await?;
        let acted = tasks.into_iter().map(|task| async move {
            let done = self.act(actor, &task.id, action.on_one()).await;
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
                Err(error) => {
                    report.refused += 1;
                    if report.refusals.len() < LISTED {
                        let message = error.to_string();
                        report.refusals.push(Refusal { task, message });
                    }
                }
            }
        }
        Ok(report)
    }
}

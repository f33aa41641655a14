//! Searches over all tasks, for an operator.

use crate::{Label, Origin, Principal, State, Task, TaskId, UnixMillis};
use std::{borrow::Cow, cmp::Ordering, sync::Arc};

/// Which tasks an operator looks for. What is `None`, empty or `false` restricts nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskFilter {
    /// Whose tasks.
    pub principal: Option<Principal>,
    /// Of which tool.
    pub tool: Option<Arc<str>>,
    /// Of one of these tools; of none if it is empty.
    pub tools: Option<Vec<Arc<str>>>,
    /// In one of these states.
    pub states: Vec<State>,
    /// Which generation of the protocol created them.
    pub origin: Option<Origin>,
    /// Which task started them.
    pub parent: Option<TaskId>,
    /// Only those that have all of these.
    pub labels: Vec<Label>,
    /// Only those with an open question.
    pub asks: bool,
    /// Those that ended then or later, and live ones that were created then or later.
    pub since: Option<UnixMillis>,
    /// Those that ended earlier, and live ones that were created earlier.
    pub before: Option<UnixMillis>,
    /// Part of the [status line](Task::status_line), in any case of ASCII letters.
    pub text: Option<String>,
}

impl TaskFilter {
    /// Whether it finds `task`.
    pub fn finds(&self, task: &Task) -> bool {
        let at = task.ended_at.unwrap_or(task.created_at);
        let parent = task.lineage.as_ref().map(|lineage| &lineage.parent);
        self.principal
            .as_ref()
            .is_none_or(|principal| *principal == task.owner.principal)
            && self.tool.as_ref().is_none_or(|tool| *tool == task.tool)
            && self.tools.as_ref().is_none_or(|tools| tools.contains(&task.tool))
            && (self.states.is_empty() || self.states.contains(&task.state))
            && self.origin.is_none_or(|origin| origin == task.origin)
            && self.parent.as_ref().is_none_or(|wanted| Some(wanted) == parent)
            && self.labels.iter().all(|label| task.labels.has(label))
            && (!self.asks || !task.open_inputs.is_empty())
            && self.since.is_none_or(|since| at >= since)
            && self.before.is_none_or(|before| at < before)
            && self.text.as_ref().is_none_or(|text| {
                task.status_line()
                    .is_some_and(|line| contains_ignoring_case(&line, text))
            })
    }

    /// Whether it finds nothing that is over.
    pub fn is_of_live(&self) -> bool {
        self.asks || (!self.states.is_empty() && self.states.iter().all(|state| !matches!(state, State::Done(_))))
    }

    /// Whether all that it finds has ended, and none of it with success.
    pub fn is_of_unsuccessful(&self) -> bool {
        let unsuccessful =
            |state: &State| matches!(state, State::Done(verdict) if *verdict != crate::Verdict::Succeeded);
        !self.states.is_empty() && self.states.iter().all(unsuccessful)
    }
}

fn contains_ignoring_case(line: &str, text: &str) -> bool {
    let (line, text) = (line.as_bytes(), text.as_bytes());
    text.is_empty() || line.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text))
}

/// In which order tasks are found: that of their ids, and so of their creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SearchOrder {
    /// Newest first.
    #[default]
    NewestFirst,
    /// Oldest first.
    OldestFirst,
}

impl SearchOrder {
    /// Which of two tasks is found first.
    pub fn compare(self, one: &TaskId, other: &TaskId) -> Ordering {
        match self {
            Self::NewestFirst => other.cmp(one),
            Self::OldestFirst => one.cmp(other),
        }
    }
}

/// One page of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSearch {
    /// What is looked for.
    pub filter: TaskFilter,
    /// In which order.
    pub order: SearchOrder,
    /// Only what comes after this id: [`FoundTasks::next`] of the page before.
    pub after: Option<TaskId>,
    /// So many tasks at most.
    pub limit: usize,
    /// So many tasks are looked at, at most. A search for what is rare returns pages that are not full, and can be continued.
    pub most_examined: usize,
}

impl TaskSearch {
    /// Whether `id` comes after what earlier pages have covered.
    pub fn covers(&self, id: &TaskId) -> bool {
        let after = |after| self.order.compare(after, id) == Ordering::Less;
        self.after.as_ref().is_none_or(after)
    }

    /// The page that this search finds among `tasks`, which are in its order and begin after [`after`](Self::after). Every store answers with it.
    ///
    /// # Errors
    /// The first error of `tasks`.
    pub fn page_of<'a, E>(&self, tasks: impl Iterator<Item = Result<Cow<'a, Task>, E>>) -> Result<FoundTasks, E> {
        let mut found = FoundTasks::default();
        for (examined, task) in (1..).zip(tasks) {
            let task = task?;
            let id = task.id.clone();
            if self.filter.finds(&task) {
                found.tasks.push(task.into_owned());
            }
            if found.tasks.len() >= self.limit || examined >= self.most_examined {
                found.next = Some(id);
                break;
            }
        }
        Ok(found)
    }
}

/// What a search has found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FoundTasks {
    /// In the order of the search.
    pub tasks: Vec<Task>,
    /// Where the next page begins, unless the search has come to its end. There may be nothing more.
    pub next: Option<TaskId>,
}

//! [`longhaul_core::store::SearchStore::search`].

use crate::statement::{Execute, Fault, Param, encode, row, select_tasks};
use longhaul_core::{
    TaskId,
    store::{FoundTasks, SearchOrder, TaskFilter, TaskSearch},
};
use std::borrow::Cow;

/// So many rows are read at a time.
const CHUNK: usize = 200;

/// The rows that a search reads, in both orders. `$1` is where it begins, `$2` how many, `$3` the value of the index.
struct Statements {
    newest_first: &'static str,
    oldest_first: &'static str,
}

macro_rules! statements {
    ($condition:literal) => {
        Statements {
            newest_first: select_tasks!("", "WHERE ", $condition, "id < $1 ORDER BY id DESC LIMIT $2"),
            oldest_first: select_tasks!("", "WHERE ", $condition, "id > $1 ORDER BY id LIMIT $2"),
        }
    };
}

const OF_PARENT: Statements = statements!("parent = $3 AND ");
const OPEN: Statements = statements!("ended_at IS NULL AND ");
const UNSUCCESSFUL: Statements = statements!("state > 3 AND ");
const OF_PRINCIPAL: Statements = statements!("principal = $3 AND ");
/// The labels are read in the order of their tasks.
macro_rules! labelled {
    ($tail:literal) => {
        select_tasks!(
            "",
            "JOIN task_labels ON task_labels.task = tasks.id WHERE label = $3 AND ",
            $tail
        )
    };
}

const LABELLED: Statements = Statements {
    newest_first: labelled!("task_labels.task < $1 ORDER BY task_labels.task DESC LIMIT $2"),
    oldest_first: labelled!("task_labels.task > $1 ORDER BY task_labels.task LIMIT $2"),
};
const ALL: Statements = statements!("");

/// The index with the fewest rows for a filter, and its value.
fn chosen(filter: &TaskFilter) -> (Statements, Option<Cow<'_, str>>) {
    if let Some(parent) = &filter.parent {
        (OF_PARENT, Some(parent.as_str().into()))
    } else if filter.is_of_live() {
        (OPEN, None)
    } else if filter.is_of_unsuccessful() {
        (UNSUCCESSFUL, None)
    } else if let Some(label) = filter.labels.first() {
        (LABELLED, Some(label.to_string().into()))
    } else if let Some(principal) = &filter.principal {
        (OF_PRINCIPAL, Some(encode(principal.as_str())))
    } else {
        (ALL, None)
    }
}

/// Reads no more rows than the page needs, and some of a chunk.
pub(crate) async fn page(on: &impl Execute, search: &TaskSearch) -> Result<FoundTasks, Fault> {
    let (statements, value) = chosen(&search.filter);
    let (sql, first) = match search.order {
        // Sorts after every id, and before.
        SearchOrder::NewestFirst => (statements.newest_first, "~"),
        SearchOrder::OldestFirst => (statements.oldest_first, ""),
    };
    let mut found = FoundTasks::default();
    let mut rest = search.clone();
    loop {
        let after = rest.after.as_ref().map_or(first, TaskId::as_str);
        let count = CHUNK.min(rest.most_examined.max(1));
        let count_value = row::bound(count);
        let mut values: Vec<Param<'_>> = vec![&after, &count_value];
        values.extend(value.as_ref().map(|value| value as Param<'_>));
        let tasks = row::tasks(&on.rows(sql, &values).await?)?;
        let (read, last) = (tasks.len(), tasks.last().map(|task| task.id.clone()));
        let part = rest.page_of(tasks.into_iter().map(|task| Ok::<_, Fault>(Cow::Owned(task))))?;
        rest.limit -= part.tasks.len().min(rest.limit);
        rest.most_examined -= read.min(rest.most_examined);
        found.tasks.extend(part.tasks);
        if part.next.is_some() || read < count {
            found.next = part.next;
            return Ok(found);
        }
        rest.after = last;
    }
}

//! [`longhaul_core::store::SearchStore::search`].

use super::{row, select_tasks};
use longhaul_core::store::{FoundTasks, SearchOrder, TaskFilter, TaskSearch};
use rusqlite::{Connection, Result, ToSql};
use std::borrow::Cow;

/// The rows that a search reads, in both orders. `?1` is where it begins, `?2` the value of the index.
struct Statements {
    newest_first: &'static str,
    oldest_first: &'static str,
}

macro_rules! statements {
    ($index:literal, $condition:literal) => {
        Statements {
            newest_first: select_tasks!(
                "",
                $index,
                "CROSS JOIN specs ON specs.seq = tasks.spec WHERE ",
                $condition,
                "tasks.id < ?1 ORDER BY tasks.id DESC"
            ),
            oldest_first: select_tasks!(
                "",
                $index,
                "CROSS JOIN specs ON specs.seq = tasks.spec WHERE ",
                $condition,
                "tasks.id > ?1 ORDER BY tasks.id"
            ),
        }
    };
}

const OF_PARENT: Statements = statements!("INDEXED BY tasks_started ", "tasks.parent = ?2 AND ");
const OPEN: Statements = statements!("INDEXED BY tasks_open ", "ended_at IS NULL AND ");
const UNSUCCESSFUL: Statements = statements!("INDEXED BY tasks_unsuccessful ", "tasks.state > 3 AND ");
const OF_PRINCIPAL: Statements = statements!("INDEXED BY tasks_of_principal ", "principal = ?2 AND ");
/// The labels come first, in the order of their tasks.
macro_rules! labelled {
    ($tail:literal) => {
        select_tasks!(
            from "task_labels",
            "ON tasks.id = task_labels.task CROSS JOIN specs ON specs.seq = tasks.spec WHERE label = ?2 AND ",
            $tail
        )
    };
}

const LABELLED: Statements = Statements {
    newest_first: labelled!("task_labels.task < ?1 ORDER BY task_labels.task DESC"),
    oldest_first: labelled!("task_labels.task > ?1 ORDER BY task_labels.task"),
};
const ALL: Statements = statements!("", "");

/// Every statement, for the test that reads their plans.
#[cfg(test)]
pub(crate) fn statements() -> impl Iterator<Item = &'static str> {
    [OF_PARENT, OPEN, UNSUCCESSFUL, LABELLED, OF_PRINCIPAL, ALL]
        .into_iter()
        .flat_map(|statements| [statements.newest_first, statements.oldest_first])
}

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
        (OF_PRINCIPAL, Some(principal.as_str().into()))
    } else {
        (ALL, None)
    }
}

/// Rows are read one by one, so what the page does not look at costs nothing.
pub(crate) fn page(connection: &Connection, search: &TaskSearch) -> Result<FoundTasks> {
    let (statements, value) = chosen(&search.filter);
    let (sql, first) = match search.order {
        // Sorts after every id, and before.
        SearchOrder::NewestFirst => (statements.newest_first, "~"),
        SearchOrder::OldestFirst => (statements.oldest_first, ""),
    };
    let after = search.after.as_ref().map_or(first, |after| after.as_str());
    let values: Vec<&dyn ToSql> = match &value {
        Some(value) => vec![&after, value],
        None => vec![&after],
    };
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(&values[..], |row| Ok(Cow::Owned(row::task(row)?.1)))?;
    search.page_of(rows)
}

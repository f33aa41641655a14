//! Which column of the SQLite database goes to which column here.

use crate::statement::row::insert_columns;

/// A table that is copied.
pub(super) struct Table {
    pub(super) name: &'static str,
    /// Its columns, each with the expression that reads it from the source.
    columns: Vec<(&'static str, &'static str)>,
    /// What follows the columns when the source is read.
    from: &'static str,
}

impl Table {
    /// The columns here.
    pub(super) fn columns(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }

    /// How the rows are read from the source.
    pub(super) fn select(&self) -> String {
        let read: Vec<&str> = self.columns.iter().map(|(_, expression)| *expression).collect();
        format!("SELECT {} {}", read.join(", "), self.from)
    }
}

fn table(name: &'static str, columns: Vec<(&'static str, &'static str)>, from: &'static str) -> Table {
    Table { name, columns, from }
}

/// Columns that have the same names there.
fn same<const N: usize>(names: [&'static str; N]) -> Vec<(&'static str, &'static str)> {
    names.map(|name| (name, name)).into()
}

/// The bytes of all payloads of a task, as both stores count them.
const BYTES: &str = "\
    coalesce((SELECT octet_length(json) + octet_length(requestor) FROM arguments WHERE task = t.seq), 0) \
    + coalesce((SELECT coalesce(octet_length(json), 0) + coalesce(octet_length(message), 0) FROM outcomes WHERE task = t.seq), 0) \
    + coalesce((SELECT sum(octet_length(request) + coalesce(octet_length(answer), 0)) FROM inputs WHERE task = t.seq), 0) \
    + coalesce((SELECT sum(octet_length(path) + octet_length(name) + octet_length(value)) FROM journal WHERE task = t.seq), 0)";

/// The columns of `tasks`: those that every change of a task writes, so that none is forgotten.
fn of_tasks() -> Vec<(&'static str, &'static str)> {
    let read = |name| match name {
        "spec" => "(SELECT id FROM specs WHERE seq = t.spec)",
        "bytes" => BYTES,
        same => same,
    };
    insert_columns().map(|name| (name, read(name))).collect()
}

/// In the order in which they are copied. Not among them: `tombstones` (the folders of deleted tasks of a data directory are removed by its own server),
/// `permits` (they end with their node), and what only the other store has.
pub(super) fn tables() -> Vec<Table> {
    let mut tables = tables_of_tasks();
    tables.extend(other_tables());
    tables
}

/// The tasks, and what belongs to one of them.
fn tables_of_tasks() -> Vec<Table> {
    vec![
        table("specs", same(["id", "kind", "definition"]), "FROM specs"),
        table("tasks", of_tasks(), "FROM tasks t"),
        table(
            "arguments",
            vec![("task", "t.id"), ("json", "json"), ("requestor", "requestor")],
            "FROM arguments JOIN tasks t ON t.seq = task",
        ),
        table(
            "outcomes",
            vec![
                ("task", "t.id"),
                ("json", "json"),
                ("code", "code"),
                ("message", "message"),
            ],
            "FROM outcomes JOIN tasks t ON t.seq = task",
        ),
        table(
            "inputs",
            vec![
                ("task", "t.id"),
                ("key", "key"),
                ("name", "name"),
                ("request", "request"),
                ("state", "i.state"),
                ("answer", "answer"),
                ("asked_at", "asked_at"),
                ("settled_at", "settled_at"),
                ("answered_by", "answered_by"),
            ],
            "FROM inputs i JOIN tasks t ON t.seq = i.task",
        ),
        table(
            "journal",
            vec![
                ("task", "t.id"),
                ("seq", "j.seq"),
                ("kind", "kind"),
                ("nth", "nth"),
                ("beside", "beside"),
                ("at", "at"),
                ("epoch", "epoch"),
                ("path", "path"),
                ("name", "name"),
                ("value", "value"),
            ],
            "FROM journal j JOIN tasks t ON t.seq = j.task",
        ),
        table("task_labels", same(["label", "task"]), "FROM task_labels"),
        table(
            "task_hosts",
            vec![("task", "id"), ("host", "attempt_host")],
            "FROM tasks WHERE attempt_host IS NOT NULL",
        ),
    ]
}

/// Nodes, usage, tools, schedules, keys and sessions.
fn other_tables() -> Vec<Table> {
    vec![
        // None of them holds a lease any more.
        table(
            "nodes",
            vec![
                ("id", "id"),
                ("host", "host"),
                ("opened_at", "opened_at"),
                ("since", "opened_at"),
                ("ends_at", "opened_at"),
                ("lost_at", "opened_at"),
                ("losses_seen", "0"),
            ],
            "FROM nodes",
        ),
        table(
            "usage",
            vec![
                ("principal", "principal"),
                ("part", "0"),
                ("live", "live"),
                ("bytes", "bytes"),
            ],
            "FROM usage",
        ),
        table(
            "usage_in_all",
            vec![("part", "0"), ("live", "live"), ("bytes", "bytes")],
            "FROM usage_in_all",
        ),
        table(
            "tool_limits",
            same(["tool", "concurrency", "per_group"]),
            "FROM tool_limits",
        ),
        table("start_times", same(["tool", "last_start"]), "FROM start_times"),
        table("paused_tools", same(["tool"]), "FROM paused_tools"),
        table(
            "schedules",
            same([
                "name",
                "plan",
                "next_at",
                "paused",
                "last_task",
                "last_start",
                "started",
                "skipped",
                "missed",
            ]),
            "FROM schedules",
        ),
        table("signing_keys", same(["purpose", "id", "secret"]), "FROM signing_keys"),
        table("ended_sessions", same(["session", "until"]), "FROM ended_sessions"),
    ]
}

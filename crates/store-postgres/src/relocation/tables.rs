//! Which column of the SQLite database goes to which column here.

/// A table that is copied.
pub(super) struct Table {
    pub(super) name: &'static str,
    /// Its columns, each with the expression that reads it from the source. Names that are their own expression stand alone.
    columns: &'static [(&'static str, &'static str)],
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

/// A column that has the same name there.
macro_rules! same {
    ($($name:literal),+ $(,)?) => { [$(($name, $name)),+] };
}

/// The bytes of all payloads of a task, as both stores count them.
const BYTES: &str = "\
    coalesce((SELECT octet_length(json) + octet_length(requestor) FROM arguments WHERE task = t.seq), 0) \
    + coalesce((SELECT coalesce(octet_length(json), 0) + coalesce(octet_length(message), 0) FROM outcomes WHERE task = t.seq), 0) \
    + coalesce((SELECT sum(octet_length(request) + coalesce(octet_length(answer), 0)) FROM inputs WHERE task = t.seq), 0) \
    + coalesce((SELECT sum(octet_length(path) + octet_length(name) + octet_length(value)) FROM journal WHERE task = t.seq), 0)";

const OF_TASKS: &[(&str, &str)] = &[
    ("id", "t.id"),
    ("principal", "principal"),
    ("session", "session"),
    ("tool", "tool"),
    ("spec", "(SELECT id FROM specs WHERE seq = t.spec)"),
    ("origin", "origin"),
    ("front", "front"),
    ("announced", "announced"),
    ("state", "state"),
    ("stop_reason", "stop_reason"),
    ("stop_at", "stop_at"),
    ("attempt_epoch", "attempt_epoch"),
    ("attempt_node", "attempt_node"),
    ("attempt_host", "attempt_host"),
    ("attempt_state", "attempt_state"),
    ("attempt_changes", "attempt_changes"),
    ("attempts_used", "attempts_used"),
    ("created_at", "created_at"),
    ("updated_at", "updated_at"),
    ("ready_at", "ready_at"),
    ("queue_timeout", "queue_timeout"),
    ("deadline", "deadline"),
    ("retention", "retention"),
    ("announced_until", "announced_until"),
    ("retry_until", "retry_until"),
    ("ended_at", "ended_at"),
    ("status", "status"),
    ("progress", "progress"),
    ("progress_total", "progress_total"),
    ("open_inputs", "open_inputs"),
    ("inputs_asked", "inputs_asked"),
    ("journaled", "journaled"),
    ("woken", "woken"),
    ("resume_at", "resume_at"),
    ("blocked", "blocked"),
    ("version", "version"),
    ("wake_at", "wake_at"),
    ("delete_at", "delete_at"),
    ("idempotency_key", "idempotency_key"),
    ("idempotency_digest", "idempotency_digest"),
    ("parent", "parent"),
    ("parent_entry", "parent_entry"),
    ("root", "root"),
    ("depth", "depth"),
    ("bytes", BYTES),
];

/// In the order in which they are copied. Not among them: `tombstones` (the folders of deleted tasks of a data directory are removed by its own server),
/// `permits` (they end with their node), and what only the other store has.
pub(super) const TABLES: &[Table] = &[
    Table {
        name: "specs",
        columns: &same!["id", "kind", "definition"],
        from: "FROM specs",
    },
    Table {
        name: "tasks",
        columns: OF_TASKS,
        from: "FROM tasks t",
    },
    Table {
        name: "arguments",
        columns: &[("task", "t.id"), ("json", "json"), ("requestor", "requestor")],
        from: "FROM arguments JOIN tasks t ON t.seq = task",
    },
    Table {
        name: "outcomes",
        columns: &[
            ("task", "t.id"),
            ("json", "json"),
            ("code", "code"),
            ("message", "message"),
        ],
        from: "FROM outcomes JOIN tasks t ON t.seq = task",
    },
    Table {
        name: "inputs",
        columns: &[
            ("task", "t.id"),
            ("key", "key"),
            ("name", "name"),
            ("request", "request"),
            ("state", "i.state"),
            ("answer", "answer"),
            ("asked_at", "asked_at"),
            ("settled_at", "settled_at"),
        ],
        from: "FROM inputs i JOIN tasks t ON t.seq = i.task",
    },
    Table {
        name: "journal",
        columns: &[
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
        from: "FROM journal j JOIN tasks t ON t.seq = j.task",
    },
    Table {
        name: "task_hosts",
        columns: &[("task", "id"), ("host", "attempt_host")],
        from: "FROM tasks WHERE attempt_host IS NOT NULL",
    },
    // None of them holds a lease any more.
    Table {
        name: "nodes",
        columns: &[
            ("id", "id"),
            ("host", "host"),
            ("opened_at", "opened_at"),
            ("since", "opened_at"),
            ("ends_at", "opened_at"),
            ("lost_at", "opened_at"),
            ("losses_seen", "0"),
        ],
        from: "FROM nodes",
    },
    Table {
        name: "usage",
        columns: &[
            ("principal", "principal"),
            ("part", "0"),
            ("live", "live"),
            ("bytes", "bytes"),
        ],
        from: "FROM usage",
    },
    Table {
        name: "usage_in_all",
        columns: &[("part", "0"), ("live", "live"), ("bytes", "bytes")],
        from: "FROM usage_in_all",
    },
    Table {
        name: "tool_limits",
        columns: &same!["tool", "concurrency"],
        from: "FROM tool_limits",
    },
    Table {
        name: "paused_tools",
        columns: &same!["tool"],
        from: "FROM paused_tools",
    },
    Table {
        name: "signing_keys",
        columns: &same!["purpose", "id", "secret"],
        from: "FROM signing_keys",
    },
    Table {
        name: "ended_sessions",
        columns: &same!["session", "until"],
        from: "FROM ended_sessions",
    },
];

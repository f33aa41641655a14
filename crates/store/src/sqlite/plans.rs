//! The cost of a read must not grow with the number of ended tasks, so every statement must use its index.

use super::{
    SqliteOptions, SqliteStore, change::groups, change::ledger, change::schedules, query::journal, query::search, read,
    write,
};
use longhaul_core::{
    Json, NodeId, Origin, Outcome, Owner, Principal, SessionKey, SpecId, TaskHeader, TaskId, ToolSpec, UnixMillis,
    store::{NewTask, QueueStore, TaskStore},
};
use rusqlite::Connection;
use std::{env, sync::Arc};
use tokio::task::JoinSet;

/// Ended tasks in the store while the plans are read; `LONGHAUL_KEPT=1000000` for the full size.
fn ended_tasks() -> usize {
    env::var("LONGHAUL_KEPT")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(20_000)
}

/// Steps that are not a search by index, and why they are allowed.
const OTHERS: &[(&str, &[&str])] = &[
    // Walk through what is queued, and what is being worked on: partial indices, covering, without what is over.
    (
        read::COUNT_QUEUED,
        &["SCAN tasks USING COVERING INDEX tasks_queued_of_principal"],
    ),
    (read::COUNT_RUNNING, &["SCAN tasks USING COVERING INDEX tasks_working"]),
    (read::COUNT_BLOCKED, &["SCAN tasks USING COVERING INDEX tasks_blocked"]),
    // Groups what is live, and reads no other row.
    (
        read::LIVE_TASKS,
        &["SCAN tasks USING INDEX tasks_open", "USE TEMP B-TREE FOR GROUP BY"],
    ),
    // As many of the first entries of a principal's part of a queue as are counted.
    (read::QUEUED_BEFORE, &["CO-ROUTINE (subquery-1)", "SCAN (subquery-1)"]),
    (read::QUEUED_ABOVE, &["CO-ROUTINE (subquery-1)", "SCAN (subquery-1)"]),
    // Counts within the limit of a group.
    (groups::COUNT, &["CO-ROUTINE (subquery-1)", "SCAN (subquery-1)"]),
    // Walks through what waits: only at a start, and when a limit has changed.
    (
        groups::GROUPS,
        &["SCAN tasks USING COVERING INDEX tasks_waiting_for_group"],
    ),
    // The highest priority, by the same index.
    (write::CLAIM, &["SCALAR SUBQUERY 1"]),
    (read::NEXT_READY, &["SCALAR SUBQUERY 1"]),
    // The last entry of the index on ids.
    (read::NEWEST, &["SCAN tasks USING INDEX sqlite_autoindex_tasks_1"]),
    // Walks through the live tasks that time will change: only when the system's clock was set.
    (write::HASTEN, &["SCAN tasks USING INDEX tasks_wake"]),
    // Each live child's parent, by its id.
    (read::CHILDREN_OF_FINISHED_PARENTS, &["CORRELATED SCALAR SUBQUERY 1"]),
    // The rows of one task.
    (
        write::DELETABLE,
        &[
            "CORRELATED SCALAR SUBQUERY 1",
            "CORRELATED SCALAR SUBQUERY 2",
            "CORRELATED SCALAR SUBQUERY 3",
            "CORRELATED SCALAR SUBQUERY 4",
        ],
    ),
    // Jumps from tool to tool; `queued` is its own short list.
    (
        read::QUEUED_TOOLS,
        &[
            "CO-ROUTINE queued",
            "SETUP",
            "RECURSIVE STEP",
            "SCAN queued",
            "CORRELATED SCALAR SUBQUERY 2",
        ],
    ),
];

/// Neither many ended tasks nor statistics (an operator may have run `ANALYZE`) change which index a statement uses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_tasks_change_no_query_plan() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Arc::new(SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap());
    let store = open();
    // A new one each time: a connection remembers the statistics that it found when it was opened.
    let connect = || Connection::open(directory.path().join("longhaul.db")).unwrap();
    let empty = plans(&connect());
    keep(&store, ended_tasks()).await;
    agree("many tasks", &plans(&connect()), &empty);
    connect().execute_batch("ANALYZE").unwrap();
    drop(store);
    let _store = open();
    agree("statistics of the day before", &plans(&connect()), &empty);
    for (sql, steps) in empty {
        let others = OTHERS
            .iter()
            .find(|(other, _)| *other == sql)
            .map_or(&[][..], |(_, steps)| steps);
        for step in &steps {
            let by_index = step.starts_with("SEARCH ") && (step.contains(" INDEX ") || step.contains(" PRIMARY KEY "));
            assert!(by_index || others.contains(&step.as_str()), "{step}\n  in {sql}");
        }
    }
}

fn agree(with: &str, now: &[(String, Vec<String>)], empty: &[(String, Vec<String>)]) {
    for ((sql, now), (_, empty)) in now.iter().zip(empty) {
        assert_eq!(now, empty, "{with} changed the plan of {sql}");
    }
}

fn plans(connection: &Connection) -> Vec<(String, Vec<String>)> {
    statements()
        .into_iter()
        .map(|sql| (sql.to_owned(), plan(connection, sql)))
        .collect()
}

fn statements() -> Vec<&'static str> {
    let reads = [
        read::GET,
        read::PEEK,
        read::VERSION,
        read::LOAD,
        read::OPEN_INPUTS,
        read::INPUT,
        read::REQUESTOR,
        read::ARGUMENTS,
        read::USAGE,
        read::USAGE_IN_ALL,
        read::SPEC,
        read::LIST_OWNED,
        read::LIST_SESSION,
        read::LIVE,
        read::DUE,
        read::NEXT_WAKE,
        read::NEWEST,
        read::QUEUED_BEFORE,
        read::QUEUED_ABOVE,
        read::EXPIRED,
        read::ORPHANED_CALLS,
        read::HELD_ATTEMPTS,
        read::HELD,
        read::NEXT_READY,
        read::LAST_START,
        read::QUEUED_TOOLS,
        read::COUNT_QUEUED,
        read::COUNT_RUNNING,
        read::COUNT_SUSPENDED,
        read::COUNT_BLOCKED,
        read::LIVE_TASKS,
        read::BLOCKED,
        read::KEYED,
        read::LIVE_UNIQUE,
        read::CHILDREN,
        read::STARTED_BY,
        read::CHILDREN_OF_FINISHED_PARENTS,
        journal::READ,
        journal::EMITTED,
        journal::LENGTH,
        journal::REWRITE,
        read::SIGNING_KEYS,
        schedules::BY_NAME,
        schedules::AFTER,
    ];
    let writes = [
        write::CLAIM,
        write::NEXT_PRIORITY,
        write::ADOPT,
        write::DELETABLE,
        write::DELETE_LABELS,
        write::SET_ANSWER,
        write::WITHDRAW,
        write::FREE_UNIQUE,
        write::FORGET_SESSIONS,
        groups::LIMIT,
        groups::COUNT,
        groups::WAITING,
        groups::LET_IN,
        groups::GROUPS,
        write::HASTEN,
        schedules::REMOVE,
        ledger::ADD_TOTAL_USAGE,
        ledger::DELETE_EMPTY_USAGE,
    ];
    let searches: Vec<&str> = search::statements().collect();
    [&reads[..], &searches, &writes, &write::DELETE].concat()
}

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    // A plan needs no values.
    let steps = statement.raw_query().mapped(|row| row.get::<_, String>(3));
    steps.map(Result::unwrap).collect()
}

async fn keep(store: &Arc<SqliteStore>, count: usize) {
    let definition = Json::trusted("{}");
    let spec = ToolSpec {
        id: SpecId::named("spec"),
        kind: "test".into(),
        definition,
    };
    store.put_spec(spec).await.unwrap();
    let mut running = JoinSet::new();
    for worker in 0..64 {
        let store = store.clone();
        running.spawn(async move {
            for n in (worker..count).step_by(64) {
                store.create(finished(n)).await.unwrap();
            }
        });
    }
    running.join_all().await;
}

fn finished(n: usize) -> NewTask {
    NewTask {
        header: TaskHeader {
            id: format!("t{n:08}").parse::<TaskId>().unwrap(),
            owner: Owner {
                principal: Principal::local(),
                session: Some(SessionKey::named("session")),
            },
            tool: "tool".into(),
            spec: SpecId::named("spec"),
            origin: Origin::Legacy,
            accepted_by: NodeId(1),
            created_at: UnixMillis(n as i64),
            deadline: None,
            queue_timeout: None,
            retention: 1_000,
            lineage: None,
            labels: longhaul_core::Labels::default(),
            group: None,
        },
        announced: true,
        in_memory: false,
        priority: longhaul_core::Priority::default(),
        arguments: Json::trusted("{}"),
        requestor: Json::trusted("{}"),
        claim: None,
        confirmation: None,
        outcome: Some(Outcome::tool_error("no")),
        idempotency: None,
        unique: None,
        quota: longhaul_core::Quota::default(),
        parent: None,
        history: None,
        replaces: None,
        schedule: None,
    }
}

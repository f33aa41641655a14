//! The numbered, forward-only steps from an empty file to the present schema.

use super::SqliteOpenError;
use rusqlite::{Connection, Error, ErrorCode, TransactionBehavior};
use std::path::Path;

/// "Long" in ASCII: identifies the file as ours (`PRAGMA application_id`).
const APPLICATION_ID: i64 = 0x4c6f_6e67;

/// Step n brings a file from version n to n + 1. Steps are only ever added.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_tasks.sql"),
    include_str!("migrations/0002_callers.sql"),
    include_str!("migrations/0003_journals.sql"),
    include_str!("migrations/0004_suspended.sql"),
    include_str!("migrations/0005_emitted.sql"),
    include_str!("migrations/0006_blocked.sql"),
    include_str!("migrations/0007_noted_nodes.sql"),
    include_str!("migrations/0008_tool_limits.sql"),
    include_str!("migrations/0009_settled_inputs.sql"),
    include_str!("migrations/0010_removals.sql"),
    include_str!("migrations/0011_numbered_changes.sql"),
    include_str!("migrations/0012_rounds.sql"),
    include_str!("migrations/0013_started.sql"),
    include_str!("migrations/0014_queued_of_principals.sql"),
    include_str!("migrations/0015_searches.sql"),
    include_str!("migrations/0016_paused_tools.sql"),
    include_str!("migrations/0017_relocation.sql"),
    include_str!("migrations/0018_answered_by.sql"),
    include_str!("migrations/0019_queue_order.sql"),
    include_str!("migrations/0020_unique.sql"),
    include_str!("migrations/0021_schedules.sql"),
    include_str!("migrations/0022_labels.sql"),
    include_str!("migrations/0023_concurrency_groups.sql"),
    include_str!("migrations/0024_confirmed.sql"),
];

/// Migrates the file, or returns why it cannot be used.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), SqliteOpenError> {
    migrate_with(connection, path, MIGRATIONS)
}

fn migrate_with(connection: &mut Connection, path: &Path, steps: &[&str]) -> Result<(), SqliteOpenError> {
    let failed = |error| because(error, path);
    let found = version(connection, path)?;
    for (version, step) in (1_i64..).zip(steps).skip(found) {
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        transaction.execute_batch(step).map_err(failed)?;
        transaction
            .pragma_update(None, "user_version", version)
            .and_then(|()| transaction.pragma_update(None, "application_id", APPLICATION_ID))
            .and_then(|()| transaction.commit())
            .map_err(failed)?;
    }
    if found > steps.len() {
        return Err(SqliteOpenError::NewerSchema {
            path: path.to_owned(),
            found,
            known: steps.len(),
        });
    }
    Ok(())
}

/// The version that this release writes.
pub(super) const VERSION: usize = MIGRATIONS.len();

/// How many steps the file has gone through; 0 for an empty one.
pub(super) fn version(connection: &Connection, path: &Path) -> Result<usize, SqliteOpenError> {
    let number = |sql: &str| -> Result<i64, SqliteOpenError> {
        connection
            .query_row(sql, [], |row| row.get(0))
            .map_err(|error| because(error, path))
    };
    let version = number("PRAGMA user_version")?;
    let ours = number("PRAGMA application_id")? == APPLICATION_ID;
    let empty = version == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0;
    match usize::try_from(version) {
        Ok(version) if ours || empty => Ok(version),
        _ => Err(SqliteOpenError::NotOurs { path: path.to_owned() }),
    }
}

/// SQLite's reasons that mean "this file is broken", in plain words.
pub(super) fn because(error: Error, path: &Path) -> SqliteOpenError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => SqliteOpenError::Corrupt {
            path: path.to_owned(),
            detail: error.to_string(),
        },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => SqliteOpenError::Locked { path: path.to_owned() },
        _ => SqliteOpenError::Sqlite {
            path: path.to_owned(),
            source: error,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SqliteOptions, SqliteStore};
    use longhaul_core::{
        AnsweredBy, AttemptEnd, Entry, EntryKey, EntryKind, Event, HostId, InputKey, Json, NodeId, Outcome, Principal,
        State, UnixMillis, Usage, Verdict,
        store::{Change, JournalStore, LeaseStore, SearchStore, TaskLookup, TaskStore},
    };

    fn memory() -> Connection {
        Connection::open_in_memory().unwrap()
    }

    fn dump(connection: &Connection) -> Vec<String> {
        let mut statement = connection
            .prepare("SELECT coalesce(sql, name) FROM sqlite_schema ORDER BY name")
            .unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    #[test]
    fn every_earlier_version_arrives_at_the_present_schema() {
        let mut fresh = memory();
        migrate(&mut fresh, Path::new("fresh")).unwrap();
        for released in 0..=MIGRATIONS.len() {
            let mut old = memory();
            migrate_with(&mut old, Path::new("old"), &MIGRATIONS[..released]).unwrap();
            migrate(&mut old, Path::new("old")).unwrap();
            assert_eq!(dump(&old), dump(&fresh), "from version {released}");
        }
    }

    /// As the first release left it: a live task with a question open and one answered, a result, an error, a cancelled one.
    const FIRST_RELEASE: &str = r#"
        INSERT INTO specs (seq, id, kind, definition) VALUES (1, 'spec', 'command', '{}');
        INSERT INTO tasks (seq, id, principal, tool, spec, origin, front, announced, state, attempts_used, created_at, updated_at,
            ready_at, retention, announced_until, ended_at, open_inputs, inputs_asked, version, delete_at)
        VALUES (1, 'live', 'alice', 'tool', 1, 1, 1, 1, 2, 1, 5, 5, 5, 9, 14, NULL, 'in-2', 2, 3, NULL),
               (2, 'result', 'alice', 'tool', 1, 1, 1, 1, 3, 1, 5, 5, 5, 9, 14, 5, '', 0, 2, 14),
               (3, 'error', 'bob', 'tool', 1, 0, 1, 1, 5, 1, 5, 5, 5, 9, 14, 5, '', 0, 2, 14),
               (4, 'cancelled', 'bob', 'tool', 1, 0, 1, 0, 6, 1, 5, 5, 5, 9, 14, 5, '', 0, 2, 14);
        INSERT INTO arguments (task, json) VALUES (1, '{"a":"ä"}'), (2, '{}'), (3, '{}'), (4, '{}');
        INSERT INTO outcomes (task, json, code, message) VALUES (2, '{"ok":1}', NULL, NULL), (3, NULL, -32603, 'naïve');
        INSERT INTO inputs (task, key, request, state, answer, asked_at)
        VALUES (1, 'in-1', '{"q":1}', 1, '"yes"', 5), (1, 'in-2', '{"q":2}', 0, NULL, 5);
    "#;

    #[test]
    fn what_the_first_release_stored_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("longhaul.db");
        let mut old = Connection::open(&path).unwrap();
        migrate_with(&mut old, &path, &MIGRATIONS[..1]).unwrap();
        old.execute_batch(FIRST_RELEASE).unwrap();
        drop(old);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
            // Each requestor is `{}` from now on.
            let live = r#"{"a":"ä"}{}{"q":1}"yes"{"q":2}"#.len() as u64;
            let (result, error, cancelled) = (2 + 2 + 8, 2 + 2 + 6, 2 + 2);
            let usage = async |who: &str| store.usage(Some(&Principal::named(who))).await.unwrap();
            let alice = Usage {
                live: 1,
                bytes: live + result,
            };
            let bob = Usage {
                live: 0,
                bytes: error + cancelled,
            };
            assert_eq!((usage("alice").await, usage("bob").await), (alice, bob));
            let all = Usage {
                live: 1,
                bytes: alice.bytes + bob.bytes,
            };
            assert_eq!(store.usage(None).await.unwrap(), all);

            let id = "live".parse().unwrap();
            assert_eq!(store.requestor(&id).await.unwrap(), Some(Json::trusted("{}")));
            let record = store.get_unscoped(&id).await.unwrap().unwrap();
            assert_eq!((record.inputs[0].name.clone(), record.task.keyed), (None, false));
            // Earlier releases did not store when an answer came, and from whom.
            let settled = async |nth| {
                let input = store.input(&id, &InputKey::nth(nth)).await.unwrap().unwrap();
                (input.settled_at, input.answered_by)
            };
            assert_eq!(settled(1).await, (None, None));
            let answered = Event::InputAnswered {
                key: InputKey::nth(2),
                answer: Json::trusted("0"),
                by: AnsweredBy::Client,
            };
            store.apply(Change::of(&id, answered, UnixMillis(7))).await.unwrap();
            assert_eq!(settled(2).await, (Some(UnixMillis(7)), Some(AnsweredBy::Client)));
            let live = live + 1;
            // What was stored before is uncounted when it is deleted.
            let over = ["result", "error", "cancelled"].map(|id| id.parse().unwrap()).to_vec();
            let deleted = store
                .delete(&HostId("here".into()), over, UnixMillis(14))
                .await
                .unwrap();
            assert_eq!(deleted, 3);
            let rest = Usage { live: 1, bytes: live };
            assert_eq!((usage("alice").await, usage("bob").await), (rest, Usage::default()));
            assert_eq!(store.usage(None).await.unwrap(), rest);
        });
    }

    /// As the release before journals left it: one running, one waiting and asked to stop, one over.
    const SECOND_RELEASE: &str = r#"
        INSERT INTO specs (seq, id, kind, definition) VALUES (1, 'spec', 'command', '{}');
        INSERT INTO nodes (id, host, opened_at) VALUES (1, 'here', 1);
        INSERT INTO tasks (seq, id, principal, tool, spec, origin, front, announced, state, stop_reason, stop_at, attempt_epoch, attempt_node,
            attempt_state, attempts_used, created_at, updated_at, ready_at, retention, announced_until, ended_at, open_inputs, inputs_asked,
            version, delete_at)
        VALUES (1, 'running', 'alice', 'tool', 1, 1, 1, 1, 1, NULL, NULL, 1, 1, 1, 1, 5, 5, 5, 9, 14, NULL, '', 0, 3, NULL),
               (2, 'parked', 'alice', 'tool', 1, 1, 1, 1, 2, 0, 6, 1, 1, 2, 1, 5, 5, 5, 9, 14, NULL, '', 0, 3, NULL),
               (3, 'over', 'alice', 'tool', 1, 1, 1, 1, 3, NULL, NULL, 1, 1, 3, 1, 5, 5, 5, 9, 14, 5, '', 0, 4, 14);
        INSERT INTO arguments (task, json) VALUES (1, '{}'), (2, '{}'), (3, '{}');
        INSERT INTO outcomes (task, json) VALUES (3, '{}');
        INSERT INTO usage (principal, live, bytes) VALUES ('alice', 2, 14);
        UPDATE usage_in_all SET live = 2, bytes = 14;
    "#;

    /// It has no journal, no parent and waits for nothing. From then on it can have a journal, and is counted like any other.
    #[test]
    fn a_task_from_before_journals_continues_with_an_empty_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("longhaul.db");
        let mut old = Connection::open(&path).unwrap();
        migrate_with(&mut old, &path, &MIGRATIONS[..2]).unwrap();
        old.execute_batch(SECOND_RELEASE).unwrap();
        drop(old);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
            let counts = store.counts().await.unwrap();
            assert_eq!((counts.queued, counts.running, counts.suspended), (0, 2, 0));
            for name in ["running", "parked", "over"] {
                let task = store.get_unscoped(&name.parse().unwrap()).await.unwrap().unwrap().task;
                assert_eq!(
                    (task.journaled, task.woken, task.resume_at, &task.lineage),
                    (0, 0, None, &None)
                );
                assert_eq!(store.journal(&task.id, 0, 9).await, Ok(vec![]));
            }
            let running = store
                .get_unscoped(&"running".parse().unwrap())
                .await
                .unwrap()
                .unwrap()
                .task;
            let entry = Entry {
                seq: 1,
                key: EntryKey {
                    path: "".into(),
                    kind: EntryKind::Step,
                    name: "build".into(),
                    nth: 1,
                },
                beside: false,
                value: Json::trusted("12"),
                at: UnixMillis(7),
                epoch: 1,
            };
            let change = Change {
                fence: running.active_attempt().map(|attempt| attempt.fence()),
                ..Change::of(&running.id, Event::Journaled(entry.clone()), UnixMillis(7))
            };
            assert_eq!(store.apply(change).await.unwrap().journaled, 1);
            assert_eq!(store.journal(&running.id, 0, 9).await, Ok(vec![entry]));
            assert_eq!(store.usage(None).await.unwrap().bytes, 14 + 7);
        });
    }

    /// As left by a version that kept waiting tasks with their attempt: one such task, and one suspended without it; both have a question.
    const SUSPENDED_WITH_ATTEMPT: &str = r#"
        INSERT INTO specs (seq, id, kind, definition) VALUES (1, 'spec', 'command', '{}');
        INSERT INTO nodes (id, host, opened_at) VALUES (1, 'here', 1);
        INSERT INTO tasks (seq, id, principal, tool, spec, origin, front, announced, state, attempt_epoch, attempt_node, attempt_state,
            attempts_used, created_at, updated_at, ready_at, retention, announced_until, open_inputs, inputs_asked, version)
        VALUES (1, 'beside', 'alice', 'tool', 1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 5, 5, 9, 14, 'in-1', 1, 3),
               (2, 'let-go', 'alice', 'tool', 1, 1, 1, 1, 2, 1, 1, 3, 0, 1, 5, 5, 9, 14, 'in-1', 1, 3);
        INSERT INTO arguments (task, json) VALUES (1, '{}'), (2, '{}');
        INSERT INTO inputs (task, key, request, state, asked_at) VALUES (1, 'in-1', '{}', 0, 5), (2, 'in-1', '{}', 0, 5);
        INSERT INTO usage (principal, live, bytes) VALUES ('alice', 2, 12);
        UPDATE usage_in_all SET live = 2, bytes = 12;
    "#;

    /// It is adopted and ends like any other; an answer queues only the task that was suspended without its attempt.
    #[test]
    fn a_task_that_waited_with_its_attempt_is_running() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("longhaul.db");
        let mut old = Connection::open(&path).unwrap();
        migrate_with(&mut old, &path, &MIGRATIONS[..3]).unwrap();
        old.execute_batch(SUSPENDED_WITH_ATTEMPT).unwrap();
        drop(old);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
            let counts = store.counts().await.unwrap();
            assert_eq!((counts.queued, counts.running, counts.suspended), (0, 1, 1));
            let host = HostId("here".into());
            let node = store.open_node(&host.clone().into(), UnixMillis(6)).await.unwrap().node;
            let adopted = store.adopt(node, &host, 9, UnixMillis(6)).await.unwrap();
            assert_eq!(adopted.len(), 1);
            let fence = adopted[0].task.active_attempt().unwrap().fence();
            assert_eq!(
                (adopted[0].task.id.as_str(), fence.epoch, fence.node),
                ("beside", 1, NodeId(2))
            );
            for (name, state) in [("beside", State::Running), ("let-go", State::Queued)] {
                let answered = Event::InputAnswered {
                    key: InputKey::nth(1),
                    answer: Json::trusted("{}"),
                    by: AnsweredBy::Client,
                };
                let change = Change::of(&name.parse().unwrap(), answered, UnixMillis(7));
                assert_eq!(store.apply(change).await.unwrap().state, state, "{name}");
            }
            let ended = AttemptEnd::Finished(Outcome::result(Json::trusted("{}")));
            let change = Change {
                fence: Some(fence),
                ..Change::of(&adopted[0].task.id, Event::AttemptEnded(ended), UnixMillis(8))
            };
            assert_eq!(
                store.apply(change).await.unwrap().state,
                State::Done(Verdict::Succeeded)
            );
        });
    }

    /// As the release before blocks left it: a suspended task with an entry, and its parent's entry for it.
    const THIRD_RELEASE: &str = r#"
        INSERT INTO specs (seq, id, kind, definition) VALUES (1, 'spec', 'durable', '{}');
        INSERT INTO nodes (id, host, opened_at) VALUES (1, 'here', 1);
        INSERT INTO tasks (seq, id, principal, tool, spec, origin, front, announced, state, attempt_epoch, attempt_node, attempt_state,
            attempts_used, created_at, updated_at, ready_at, retention, announced_until, open_inputs, inputs_asked, journaled, woken, version)
        VALUES (1, 'let-go', 'alice', 'tool', 1, 1, 1, 1, 2, 4, 1, 3, 0, 1, 5, 5, 9, 14, '', 0, 1, 0, 3);
        INSERT INTO arguments (task, json) VALUES (1, '{}');
        INSERT INTO journal (task, seq, kind, nth, beside, at, path, name, value) VALUES (1, 1, 0, 1, 0, 5, '', 'build', '{"ok":1}');
        INSERT INTO usage (principal, live, bytes) VALUES ('alice', 1, 17);
        UPDATE usage_in_all SET live = 1, bytes = 17;
    "#;

    /// It is not blocked, its entry has no known attempt, and it can continue and be blocked like any other.
    #[test]
    fn a_task_from_before_blocks_continues() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("longhaul.db");
        let mut old = Connection::open(&path).unwrap();
        migrate_with(&mut old, &path, &MIGRATIONS[..5]).unwrap();
        old.execute_batch(THIRD_RELEASE).unwrap();
        drop(old);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
            let id: longhaul_core::TaskId = "let-go".parse().unwrap();
            let task = store.get_unscoped(&id).await.unwrap().unwrap().task;
            assert_eq!((task.state, task.blocked), (State::Suspended, None));
            let epochs: Vec<u32> = (store.journal(&id, 0, 9).await.unwrap().iter())
                .map(|entry| entry.epoch)
                .collect();
            assert_eq!(epochs, [0]);
            let counts = store.counts().await.unwrap();
            assert_eq!((counts.suspended, counts.blocked), (1, 0));
            assert_eq!(store.find(TaskLookup::BlockedAfter(None), 9).await, Ok(vec![]));
        });
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let mut newer = memory();
        let steps = [MIGRATIONS, &["CREATE TABLE tomorrow (x)"]].concat();
        migrate_with(&mut newer, Path::new("newer"), &steps).unwrap();
        let refused = migrate(&mut newer, Path::new("newer")).unwrap_err();
        assert!(matches!(refused, SqliteOpenError::NewerSchema { found, known, .. } if found == known + 1));
    }

    #[test]
    fn a_database_of_another_program_is_not_migrated() {
        let mut stranger = memory();
        stranger.execute_batch("CREATE TABLE theirs (x)").unwrap();
        let refused = migrate(&mut stranger, Path::new("stranger")).unwrap_err();
        assert!(matches!(refused, SqliteOpenError::NotOurs { .. }), "{refused}");
    }
}

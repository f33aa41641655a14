//! Deletion leaves nothing behind.

use crate::task::{create, finish, journal, new_task, open};
use longhaul_core::{
    AnsweredBy, AttemptEnd, Entry, EntryKey, EntryKind, Event, HostId, InputKey, Json, NodeId, Outcome, UnixMillis,
    store::{Change, TaskStore, TimerStore},
};
use longhaul_store::{SqliteOptions, SqliteStore};
use rusqlite::Connection;
use std::path::Path;

const FAR: UnixMillis = UnixMillis(1 << 50);

fn number(directory: &Path, sql: &str) -> i64 {
    let observer = Connection::open(directory.join("longhaul.db")).unwrap();
    observer.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Fifty tasks with arguments, a question, its answer, a journal and an outcome.
async fn fill(store: &SqliteStore, node: NodeId, round: usize) {
    for n in 0..50 {
        let task = create(store, &format!("r{round}-{n}"), node, 20_000).await.unwrap();
        let key = InputKey::nth(1);
        let events = vec![
            Event::InputRequested {
                key: key.clone(),
                name: None,
                request: Json::trusted("{}"),
            },
            Event::InputAnswered {
                key,
                answer: Json::trusted("{}"),
                by: AnsweredBy::Client,
            },
        ];
        let fence = task.active_attempt().map(|attempt| attempt.fence());
        store
            .apply(Change {
                task: task.id.clone(),
                fence,
                events,
                at: UnixMillis(1_500),
                number: None,
                can_wait: false,
            })
            .await
            .unwrap();
        for seq in 1..4 {
            journal(store, &task, seq, 1_000 * seq as usize).await.unwrap();
        }
        finish(store, &task).await.unwrap();
    }
}

/// No row of a deleted task stays, and its pages are reused, so the file does not grow with deleted tasks.
#[tokio::test]
async fn deleted_tasks_leave_no_rows_and_their_pages_are_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let (store, node) = open(directory.path(), SqliteOptions::default()).await;
    let mut pages = Vec::new();
    for round in 0..6 {
        fill(&store, node, round).await;
        pages.push(number(directory.path(), "PRAGMA page_count"));
        loop {
            let expired = store.expired(FAR, 7).await.unwrap();
            if expired.is_empty() {
                break;
            }
            store
                .delete(&longhaul_core::HostId("here".into()), expired, FAR)
                .await
                .unwrap();
        }
        for table in ["tasks", "arguments", "outcomes", "inputs", "journal"] {
            assert_eq!(
                number(directory.path(), &format!("SELECT count(*) FROM {table}")),
                0,
                "{table}"
            );
        }
    }
    let (first, last) = (pages[0], pages[5]);
    assert!(last <= first + first / 10, "{pages:?}");
}

/// How often the text is found in the files of the directory.
fn found(directory: &Path, text: &str) -> usize {
    let files = std::fs::read_dir(directory).unwrap();
    let bytes = files.map(|file| std::fs::read(file.unwrap().path()).unwrap_or_default());
    bytes
        .map(|bytes| {
            let windows = bytes.windows(text.len());
            windows.filter(|window| *window == text.as_bytes()).count()
        })
        .sum()
}

const SECRET: &str = "the-secret-of-a-task";

/// A finished task with its secret in its arguments, its question, the answer, an entry that is written again, its status and its outcome; short, or so long that
/// SQLite keeps it in pages of its own.
async fn create_with_secrets(store: &SqliteStore, name: &str, node: NodeId, (secret, times): (&str, usize)) {
    let text = || Json::from(serde_json::json!([secret].repeat(times)));
    let mut new = new_task(name, node, 10);
    new.arguments = text();
    let task = store.create(new).await.unwrap().into_task();
    let key = InputKey::nth(1);
    let entry = |value: Json| Entry {
        seq: 1,
        key: EntryKey {
            path: "1.0".into(),
            kind: EntryKind::Step,
            name: secret.into(),
            nth: 1,
        },
        beside: false,
        value,
        at: UnixMillis(1_500),
        epoch: 1,
    };
    let request = text();
    let changes = [
        vec![Event::Journaled(entry(text()))],
        vec![Event::Journaled(entry(Json::trusted("{}")))],
        vec![Event::InputRequested {
            key: key.clone(),
            name: None,
            request,
        }],
        vec![Event::InputAnswered {
            key,
            answer: text(),
            by: AnsweredBy::Client,
        }],
        vec![Event::AttemptEnded(AttemptEnd::Finished(Outcome::result(text())))],
    ];
    for events in changes {
        let fence = task.active_attempt().map(|attempt| attempt.fence());
        store
            .apply(Change {
                fence,
                events,
                ..Change::of(&task.id, Event::TimerFired, UnixMillis(2_000))
            })
            .await
            .unwrap();
    }
}

/// What a client has deleted is not in the files any more, as soon as the log was truncated. Also what was written over before.
#[tokio::test]
async fn what_is_deleted_on_request_is_overwritten() {
    for times in [1, 400] {
        let directory = tempfile::tempdir().unwrap();
        let (store, node) = open(directory.path(), SqliteOptions::default()).await;
        let mut ids = Vec::new();
        for n in 0..20 {
            let name = format!("t{n:02}");
            create_with_secrets(&store, &name, node, (SECRET, times)).await;
            ids.push(crate::task::id(&name));
        }
        assert!(found(directory.path(), SECRET) > 0);
        let host = HostId("here".into());
        let deleted = store.delete_ended(&host, ids, UnixMillis(3_000)).await;
        assert_eq!(deleted, Ok(20));
        while found(directory.path(), SECRET) > 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Of some that are deleted among others no row is left. When SQLite has moved rows between pages it may have left copies of them there, which no deletion
/// finds: they are gone after `VACUUM`, which docs/audit.md asks operators for.
#[tokio::test]
async fn what_is_deleted_among_others_is_gone_after_a_vacuum() {
    let directory = tempfile::tempdir().unwrap();
    let (store, node) = open(directory.path(), SqliteOptions::default()).await;
    // Up to 1 KiB each, in no order of their lengths.
    let tasks: Vec<(String, String)> = (0..150_usize)
        .map(|n| (format!("t{:03}", n * 67 % 150), format!("{SECRET}-{n:03}")))
        .collect();
    for (n, (name, secret)) in tasks.iter().enumerate() {
        create_with_secrets(&store, name, node, (secret, 1 + n * 7919 % 40)).await;
    }
    let deletes = |n: usize| n * 31 % 150 < 70;
    for (n, (name, _)) in tasks.iter().enumerate() {
        if deletes(n) {
            let ids = vec![crate::task::id(name)];
            let deleted = store.delete_ended(&HostId("here".into()), ids, UnixMillis(3_000)).await;
            assert_eq!(deleted, Ok(1));
        }
    }
    let rows = |secret: &str| -> i64 {
        let counts = [
            ("arguments", "json"),
            ("outcomes", "json"),
            ("inputs", "request"),
            ("journal", "name"),
        ]
        .map(|(table, column)| format!("(SELECT count(*) FROM {table} WHERE instr({column}, '{secret}'))"));
        number(directory.path(), &format!("SELECT {}", counts.join(" + ")))
    };
    for (n, (_, secret)) in tasks.iter().enumerate() {
        assert_eq!(rows(secret), if deletes(n) { 0 } else { 4 }, "{secret}");
    }
    drop(store);
    let operator = loop {
        // The store's thread ends soon.
        let operator = Connection::open(directory.path().join("longhaul.db")).unwrap();
        if operator
            .execute_batch("PRAGMA locking_mode = EXCLUSIVE; VACUUM")
            .is_ok()
        {
            break operator;
        }
        tokio::task::yield_now().await;
    };
    drop(operator);
    for (n, (name, secret)) in tasks.iter().enumerate() {
        let copies = found(directory.path(), secret);
        assert_eq!(copies == 0, deletes(n), "{copies} of {name}");
    }
    let (store, _) = open(directory.path(), SqliteOptions::default()).await;
    let kept = tasks.iter().enumerate().filter(|(n, _)| !deletes(*n));
    for (_, (name, _)) in kept {
        assert!(crate::task::exists(&store, name).await, "{name}");
    }
}

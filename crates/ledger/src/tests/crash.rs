//! A process that is killed at every place between two effects of a change.

use super::{new_call, open, path_in};
use crate::ClientJournal;
use longhaul_client::{CallFilter, CallId, Finished, Generation, JournalError, NewCall, SessionRef, TaskRef};
use longhaul_core::Json;
use longhaul_wire::TaskStatus;
use rusqlite::{Connection, OpenFlags};
use std::{
    env,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const DIRECTORY: &str = "LONGHAUL_TEST_DIRECTORY";
const KILL_AT: &str = "LONGHAUL_TEST_KILL_AT";
const CHILD: &str = "tests::crash::child";
const STEPS: usize = 19;
const DAY: i64 = 24 * 60 * 60 * 1000;

fn call(number: i64) -> CallId {
    CallId::from_number(number)
}

fn session(id: &str) -> SessionRef {
    SessionRef {
        id: id.to_owned(),
        revision: "2025-11-25".to_owned(),
        capabilities: Json::trusted("{}"),
    }
}

fn task(id: &str, session: Option<SessionRef>) -> TaskRef {
    TaskRef {
        task_id: id.to_owned(),
        generation: Generation::Legacy,
        session,
        created_at: None,
        ttl: Some(60_000),
    }
}

/// One change of each kind. Calls are numbered from 1 in the order in which they begin.
async fn step(number: usize, directory: &Path, journal: &ClientJournal, clock: &super::ManualClock) {
    let done = match number {
        0 => journal.begin(new_call("a")).await.map(drop),
        1 => {
            let keyed = NewCall {
                idempotency_key: Some("key".to_owned()),
                session: Some(session("s1")),
                ..new_call("b")
            };
            journal.begin(keyed).await.map(drop)
        }
        2 => journal
            .acknowledge(call(1), task("task-1", Some(session("s1"))))
            .await
            .map(drop),
        3 => journal.note_status(call(1), TaskStatus::InputRequired).await,
        4 => journal.ask(call(1), "q1").await.map(drop),
        5 => journal
            .record_answer(call(1), "q1", Json::trusted("\"yes\""))
            .await
            .map(drop),
        6 => journal.answer_accepted(call(1), "q1").await,
        7 => journal.ask(call(2), "q2").await.map(drop),
        8 => journal
            .acknowledge(call(2), task("task-2", Some(session("s2"))))
            .await
            .map(drop),
        9 => journal
            .acknowledge(call(2), task("task-2", Some(session("s3"))))
            .await
            .map(drop),
        10 => journal.mark_lost(call(2), "its session is gone").await,
        11 => journal.finish(call(1), Finished::Completed).await,
        12 => journal.forget(call(2)).await,
        13 => {
            let ended = open(directory).await.0;
            ended.begin(new_call("c")).await.map(drop)
        }
        14 => journal.claim_unresolved(call(3)).await.map(|claimed| assert!(claimed)),
        15 => journal.mark_unknown(call(3), "its process ended").await,
        16 => journal.begin(new_call("d")).await.map(drop),
        17 => journal.finish(call(4), Finished::Answered).await,
        _ => {
            clock.set(2 * DAY);
            let missing = journal.finish(call(4), Finished::Answered).await;
            assert_eq!(missing, Err(JournalError::UnknownCall(call(4))));
            Ok(())
        }
    };
    done.unwrap();
}

/// All that is recorded, apart from which processes own it.
fn dump(directory: &Path) -> String {
    let Ok(connection) = Connection::open_with_flags(path_in(directory), OpenFlags::SQLITE_OPEN_READ_WRITE) else {
        return String::new();
    };
    let check: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
    let mut text = String::new();
    for (table, columns) in [
        (
            "calls",
            "seq, tool, idempotency_key, state, session, task_id, status, finished, reason, delete_at",
        ),
        ("questions", "call, key, state, answer"),
        ("sessions", "seq, id"),
    ] {
        let Ok(mut statement) = connection.prepare(&format!("SELECT {columns} FROM {table} ORDER BY 1, 2")) else {
            continue;
        };
        let count = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<_> = (0..count).map(|at| row.get_ref(at).unwrap()).collect();
            text.push_str(&format!("{table} {values:?}\n"));
        }
    }
    text
}

/// Killed at one place after the other, until it gets to its end: what had returned is there, and at most the next change.
#[tokio::test]
async fn what_had_returned_is_there_wherever_the_process_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, clock) = open(directory.path()).await;
    let mut expected = vec![dump(directory.path())];
    for number in 0..STEPS {
        step(number, directory.path(), &journal, &clock).await;
        expected.push(dump(directory.path()));
    }
    let kinds: std::collections::BTreeSet<&String> = expected.iter().collect();
    // Three do not change what is dumped: the claim, which sets the process, and the first and the last dump.
    assert!(kinds.len() > STEPS - 2, "{expected:#?}");
    expected.push(expected[STEPS].clone());

    let mut places = 0;
    loop {
        places += 1;
        let directory = tempfile::tempdir().unwrap();
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", CHILD, "--ignored", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, directory.path())
            .env(KILL_AT, places.to_string())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&child.stdout);
        let done = stdout.lines().filter(|line| line.starts_with("step ")).count();
        if child.status.success() {
            assert_eq!(done, STEPS, "{stdout}");
            break;
        }
        assert_eq!(
            child.status.signal(),
            Some(9),
            "{stdout}{}",
            String::from_utf8_lossy(&child.stderr)
        );
        let found = dump(directory.path());
        assert!(
            [&expected[done], &expected[done + 1]].contains(&&found),
            "killed at place {places} after {done} steps, it left\n{found}\nand not\n{}\nor\n{}",
            expected[done],
            expected[done + 1],
        );
        // The next process works with what it left.
        let (journal, _) = open(directory.path()).await;
        journal.list(CallFilter::default()).await.unwrap();
        journal.begin(new_call("next")).await.unwrap();
    }
    assert!(places > 3 * STEPS, "there are only {places} places");
}

#[tokio::test]
#[ignore = "started by what_had_returned_is_there_wherever_the_process_is_killed"]
async fn child() {
    let Some(directory) = env::var_os(DIRECTORY).map(PathBuf::from) else {
        return;
    };
    let (journal, clock) = open(&directory).await;
    // After what the test runner has begun to write.
    println!();
    for number in 0..STEPS {
        step(number, &directory, &journal, &clock).await;
        println!("step {number}");
    }
}

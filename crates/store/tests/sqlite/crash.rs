//! A process that is killed in the middle of its work.

use crate::{
    child,
    task::{block_on, counts_agree, create, create_child, finish, id, journal, open},
};
use longhaul_core::{
    ChildEntry, Entry, Task, TaskId,
    store::{JournalStore, TaskStore},
};
use longhaul_store::{
    SqliteOptions, SqliteStore,
    sqlite::{EXIT_COMMIT_FAILED, InjectedFault},
};
use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::Stdio,
};

const ROUNDS: usize = 8;
const WORKER: &str = "crash::child_works_until_it_is_killed";

/// Creates and finishes tasks, with a step and a child each, concurrently until it is killed, and prints what was acknowledged.
#[test]
#[ignore = "run by the tests below, in a process of its own"]
fn child_works_until_it_is_killed() {
    let Some(directory) = child::directory() else { return };
    let plant = child::planted().then_some(InjectedFault::AcknowledgeBeforeCommit);
    block_on(async {
        let (store, node) = open(
            &directory,
            SqliteOptions {
                injected_fault: plant,
                ..SqliteOptions::default()
            },
        )
        .await;
        let mut running = tokio::task::JoinSet::new();
        for worker in 0..16 {
            let store = store.clone();
            running.spawn(async move {
                for n in 0.. {
                    let name = format!("n{}-w{worker}-{n}", node.0);
                    let task = create(&store, &name, node, 200).await.unwrap();
                    report("created", &name);
                    if journal(&store, &task, 1, 50).await.is_err() {
                        continue;
                    }
                    report("journaled", &name);
                    let Ok(child) = create_child(&store, &format!("{name}-child"), &task, 2).await else {
                        continue;
                    };
                    if finish(&store, &child).await.is_ok() {
                        report("ended", &name);
                    }
                    // Without a fault a task that was created is there. With it, it may not be there yet.
                    if finish(&store, &task).await.is_ok() {
                        report("finished", &name);
                    }
                }
            });
        }
        running.join_all().await;
    });
}

/// One line in one write: a kill cuts between lines, or leaves a last line without its end.
fn report(what: &str, name: &str) {
    let line = format!("acknowledged {what} {name}.\n");
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}

/// The name in a child's line of an acknowledged change.
fn acknowledged(line: &str) -> Option<&str> {
    line.strip_prefix("acknowledged ")?.strip_suffix('.')
}

async fn is_kept(store: &SqliteStore, what: &str, task: &TaskId) -> bool {
    let Some(record) = store.get_unscoped(task).await.unwrap() else {
        return false;
    };
    let entries = store.journal(task, 0, 10).await.unwrap();
    agrees(store, &record.task, &entries).await;
    match what {
        "created" => true,
        "journaled" => !entries.is_empty(),
        "ended" => entries.len() == 2 && ChildEntry::from_json(&entries[1].value).unwrap().outcome.is_some(),
        _ => record.task.is_done() && record.outcome.is_some(),
    }
}

/// A task has the entries it counts. A child is there together with its parent's entry, and over in both or in neither.
async fn agrees(store: &SqliteStore, task: &Task, entries: &[Entry]) {
    assert_eq!(task.journaled as usize, entries.len());
    let child = store.get_unscoped(&id(&format!("{}-child", task.id))).await.unwrap();
    let said = entries.get(1).map(|entry| ChildEntry::from_json(&entry.value).unwrap());
    assert_eq!(
        child.as_ref().map(|child| &child.task.id),
        said.as_ref().map(|said| &said.task)
    );
    assert_eq!(
        child.and_then(|child| child.outcome),
        said.and_then(|said| said.outcome)
    );
}

/// How many of the acknowledged changes are missing from what a child left.
fn missing(directory: &Path, acknowledged: &[String]) -> usize {
    block_on(async {
        let (store, _) = open(directory, SqliteOptions::default()).await;
        let mut missing = 0;
        for said in acknowledged {
            let (what, name) = said.split_once(' ').unwrap();
            missing += usize::from(!is_kept(&store, what, &id(name)).await);
        }
        counts_agree(&store, directory).await;
        missing
    })
}

/// Kills a child after it has printed `lines` lines; returns how many acknowledged changes are missing, and how many there were.
fn killed_after(lines: usize, directory: &Path, plant: bool) -> (usize, usize) {
    let mut child = child::command(WORKER, directory, plant)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        said.extend(acknowledged(&line.unwrap()).map(str::to_owned));
        if said.len() == lines {
            child.kill().unwrap();
        }
    }
    let status = child.wait().unwrap();
    assert!(said.len() >= lines, "it ended by itself: {status}");
    (missing(directory, &said), said.len())
}

/// From the 40th on, every fsync fails with `EIO`: the process ends by itself, and all that it acknowledged is there.
#[cfg(target_os = "linux")]
#[test]
fn a_failed_fsync_ends_the_process_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let fault = "inject=fsync,fdatasync:error=EIO:when=40+";
    let strace = [
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=fsync,fdatasync",
        "-e",
        fault,
    ];
    let output = match child::under(&strace, WORKER, directory.path(), false).output() {
        Ok(output) => output,
        Err(error) => return eprintln!("not tested: no strace ({error})"),
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    if stderr.contains("ptrace") || stderr.contains("PTRACE") {
        return eprintln!("not tested: {stderr}");
    }
    assert_eq!(output.status.code(), Some(EXIT_COMMIT_FAILED), "{stderr}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let said: Vec<String> = stdout.lines().filter_map(acknowledged).map(str::to_owned).collect();
    assert!(!said.is_empty());
    assert_eq!(missing(directory.path(), &said), 0, "of {}", said.len());
}

#[test]
fn invariant_11_what_was_acknowledged_survives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let mut total = 0;
    // The same directory again and again, so that later rounds recover what earlier ones left.
    for round in 0..ROUNDS {
        let lines = 40 + fastrand::usize(0..400);
        let (missing, acknowledged) = killed_after(lines, directory.path(), false);
        assert_eq!(missing, 0, "round {round}: of {acknowledged} acknowledged");
        total += acknowledged;
    }
    assert!(total >= ROUNDS * 40);
}

/// Proves that the test above can fail.
#[test]
fn invariant_11_a_planted_lost_acknowledgement_is_seen() {
    let lost = (0..5 * ROUNDS).any(|_| {
        let directory = tempfile::tempdir().unwrap();
        killed_after(40 + fastrand::usize(0..100), directory.path(), true).0 > 0
    });
    assert!(lost);
}

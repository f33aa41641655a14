//! A process that is killed in the middle of its work.

use crate::{
    child,
    task::{block_on, create, exists, finish, id, open},
};
use longhaul_core::Store;
use longhaul_store::{SqliteOptions, sqlite::Plant};
use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::Stdio,
};

const ROUNDS: usize = 8;

/// Creates and finishes tasks from many sides until it is killed, and says what was acknowledged.
#[test]
#[ignore = "run by the tests below, in a process of its own"]
fn child_works_until_it_is_killed() {
    let Some(directory) = child::directory() else { return };
    let plant = child::planted().then_some(Plant::AcknowledgeBeforeCommit);
    block_on(async {
        let (store, node) = open(
            &directory,
            SqliteOptions {
                plant,
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
                    say("created", &name);
                    // Without a fault a task that was created is there. With it, it may not be there yet.
                    if finish(&store, &task).await.is_ok() {
                        say("finished", &name);
                    }
                }
            });
        }
        running.join_all().await;
    });
}

/// One line in one write: a kill cuts between lines, or leaves a last line without its end.
fn say(what: &str, name: &str) {
    let line = format!("acknowledged {what} {name}.\n");
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}

/// Kills a child after it has said so many lines; returns how many acknowledged changes are missing from what it left, and how
/// many there were.
fn killed_after(lines: usize, directory: &Path, plant: bool) -> (usize, usize) {
    let mut child = child::command("crash::child_works_until_it_is_killed", directory, plant)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(said) = line
            .strip_prefix("acknowledged ")
            .and_then(|rest| rest.strip_suffix('.'))
        {
            acknowledged.push(said.to_owned());
            if acknowledged.len() == lines {
                child.kill().unwrap();
            }
        }
    }
    let status = child.wait().unwrap();
    assert!(acknowledged.len() >= lines, "it ended by itself: {status}");
    let missing = block_on(async {
        let (store, _) = open(directory, SqliteOptions::default()).await;
        let mut missing = 0;
        for said in &acknowledged {
            let (what, name) = said.split_once(' ').unwrap();
            let kept = match what {
                "created" => exists(&store, name).await,
                _ => store
                    .peek(&id(name))
                    .await
                    .unwrap()
                    .is_some_and(|record| record.task.is_done() && record.outcome.is_some()),
            };
            missing += usize::from(!kept);
        }
        missing
    });
    (missing, acknowledged.len())
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

/// The test above is able to fail.
#[test]
fn invariant_11_a_planted_lost_acknowledgement_is_seen() {
    let lost = (0..5 * ROUNDS).any(|_| {
        let directory = tempfile::tempdir().unwrap();
        killed_after(40 + fastrand::usize(0..100), directory.path(), true).0 > 0
    });
    assert!(lost);
}

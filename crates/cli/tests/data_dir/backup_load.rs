//! Backups that are taken while tasks are created, run and end.

use super::support::{Place, Served, done};
use crate::assertions::*;
use longhaul_client::{Client, Connection, Options, Outcome, TaskStatus};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// `work` leaves a line in the file `runs/N`, a log and a result that have its number. `held` runs until there is a file `gate`.
const JOBS: &str = r#"
[server]
name = "test"
listen = "127.0.0.1:0"
data_dir = "data"
max_running = 4

[[tool]]
name = "work"
description = "works for a moment"
command = ["sh", "-c", "echo run >> runs/$1; echo begin $1; sleep 0.0$(($1 % 10)); echo result $1", "sh", "{n}"]
input = { n = { type = "integer" } }
task = "always"

[[tool]]
name = "held"
description = "runs through all of the test"
command = ["sh", "-c", "echo run >> runs/held; while [ -e jobs.toml ] && [ ! -e gate ]; do sleep 0.02; done; echo through"]
task = "always"
"#;
/// Calls at a time: more than run at a time, so that some are queued.
const WORKERS: usize = 8;

#[derive(Default)]
struct Known {
    /// The numbers of tasks by their id, as soon as the client knows it.
    acknowledged: BTreeMap<String, u64>,
    /// Those whose result it has.
    ended: BTreeMap<String, u64>,
}

/// Calls `work` with one number after the other.
async fn work(client: Client, next: Arc<AtomicU64>, known: Arc<Mutex<Known>>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let n = next.fetch_add(1, Ordering::Relaxed);
        let call = client.start("work", json!({"n": n})).await.unwrap();
        let id = call.task().await.unwrap().id().to_owned();
        known.lock().unwrap().acknowledged.insert(id.clone(), n);
        let outcome = call.result().await.unwrap();
        text(&outcome).has(&format!("\"begin {n}\\nresult {n}\\n\""));
        known.lock().unwrap().ended.insert(id, n);
    }
}

/// What the client is told, the result or the error.
fn text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Result { json, .. } => json.as_str().to_owned(),
        Outcome::RpcError(error) => error.message.to_string(),
        Outcome::Cancelled => "cancelled".to_owned(),
    }
}

fn connect(server: &Served) -> Connection {
    Connection::lazy(&server.url, Options::named("test", "1")).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "another process gives no sign")]
async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

fn runs(place: &Place, what: &str) -> usize {
    let runs = fs::read_to_string(place.file(&format!("runs/{what}")));
    runs.unwrap_or_default().lines().count()
}

/// Each restored backup has every task that was acknowledged before it was begun, and those that had ended with their results and logs. What ran is
/// interrupted, and has run once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[expect(clippy::disallowed_methods, reason = "a test has no ports")]
async fn backups_under_load_have_all_that_was_acknowledged() {
    let place = Place::with(JOBS);
    fs::create_dir(place.file("runs")).unwrap();
    let server = place.serve(&[]);
    let connection = connect(&server);
    let client = Client::new(connection.clone());
    let held = client.start("held", json!({})).await.unwrap();
    let held = held.task().await.unwrap().id().to_owned();
    until("it runs", || runs(&place, "held") == 1).await;

    let (next, known) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Known::default())));
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| tokio::spawn(work(client.clone(), next.clone(), known.clone(), stop.clone())))
        .collect();
    let mut backups = Vec::new();
    for (nth, choice) in [&[][..], &["--interrupt-queued"], &["--run-queued"]]
        .into_iter()
        .enumerate()
    {
        let wanted = (nth + 1) * 40;
        until("more have ended", || known.lock().unwrap().ended.len() >= wanted).await;
        let (acknowledged, ended) = {
            let known = known.lock().unwrap();
            (known.acknowledged.clone(), known.ended.clone())
        };
        let name = format!("backup-{nth}.tar");
        let taken = tokio::task::block_in_place(|| done(&place, &["backup", "jobs.toml", &name, "--json"]));
        assert!(taken["tasks"]["running"].as_u64().unwrap() >= 1, "{taken}");
        backups.push((name, choice, acknowledged, ended));
    }
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    for n in 0..next.load(Ordering::Relaxed) {
        assert_eq!(runs(&place, &n.to_string()), 1, "{n}");
    }

    for (name, choice, acknowledged, ended) in backups {
        let (copy, data_dir) = (format!("copy-of-{name}"), place.file(&format!("copy-of-{name}")));
        let restored = done(
            &place,
            &[&["restore", &name, "--data-dir", &copy, "--json"], choice].concat(),
        );
        let queued = restored["queued"].as_u64().unwrap();
        let restored = place.serve(&["--data-dir", data_dir.to_str().unwrap()]);
        let connection = connect(&restored);
        let runs_queued = choice == ["--run-queued"];
        let mut run_again = 0;
        for (id, n) in &acknowledged {
            let task = connection.task(id.clone());
            let mut status = task.get().await.unwrap().status;
            if runs_queued && status == TaskStatus::Working {
                task.wait(&mut |_| {}).await.unwrap();
                status = task.get().await.unwrap().status;
            }
            if ended.contains_key(id) || (runs_queued && status != TaskStatus::Failed) {
                assert_eq!(status, TaskStatus::Completed, "{n}");
            }
            if status == TaskStatus::Completed {
                let outcome = task.wait(&mut |_| {}).await.unwrap();
                text(&outcome).has(&format!("\"begin {n}\\nresult {n}\\n\""));
                let log = String::from_utf8(task.read_log(None, Some(0)).await.unwrap().bytes).unwrap();
                assert_eq!(log, format!("begin {n}\nresult {n}\n"));
            }
            match runs(&place, &n.to_string()) {
                1 => {}
                2 if status == TaskStatus::Completed && !ended.contains_key(id) => run_again += 1,
                many => panic!("{n} has run {many} times and is {status:?}"),
            }
        }
        match runs_queued {
            true => assert!(run_again <= queued, "{run_again} of {queued}"),
            false => assert_eq!(run_again, 0, "nothing is run again"),
        }
        let held = connection.task(held.clone());
        assert_eq!(held.get().await.unwrap().status, TaskStatus::Failed);
        let why = text(&held.wait(&mut |_| {}).await.unwrap());
        assert!(why.contains("this ran when the backup was taken"), "{why}");
        assert_eq!(restored.report["orphanedAttempts"]["kept"], 0);
    }
    assert_eq!(runs(&place, "held"), 1);
    fs::write(place.file("gate"), "").unwrap();
    let outcome = connection.task(held).wait(&mut |_| {}).await.unwrap();
    assert!(text(&outcome).contains("through"), "{}", text(&outcome));
}

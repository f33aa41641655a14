//! Several processes at once, and processes that are killed at any time.

use crate::support::{begin_task, new_call, open, task};
use longhaul_client::{Asked, CallFilter, CallId, CallState, Finished};
use longhaul_core::Json;
use longhaul_ledger::ClientJournal;
use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

const DIRECTORY: &str = "LONGHAUL_TEST_DIRECTORY";
const NAME: &str = "LONGHAUL_TEST_NAME";

/// Calls that everybody tries to claim, and tasks whose questions everybody wants to ask.
const SHARED: usize = 15;
/// Calls that each makes for itself.
const OWN: usize = 15;

fn spawn(test: &str, directory: &Path, name: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .env(NAME, name)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What the parent has given; `None` when someone runs ignored tests by hand.
fn given() -> Option<(PathBuf, String)> {
    Some((env::var_os(DIRECTORY)?.into(), env::var(NAME).ok()?))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(future)
}

/// Leaves calls without a process, and tasks.
async fn prepare(directory: &Path) {
    let journal = open(directory).await;
    for number in 0..SHARED {
        journal.begin(new_call(&format!("shared-{number}"))).await.unwrap();
    }
    for number in 0..SHARED {
        begin_task(&journal, &format!("shared-{number}")).await;
    }
}

/// Claims and asks what it can, and makes calls of its own; returns what it got.
async fn compete(journal: &ClientJournal, name: &str) -> Vec<String> {
    let shared = |number: usize| CallId::from_number(i64::try_from(number + 1).unwrap());
    let mut got = Vec::new();
    for number in 0..SHARED {
        if journal.claim_unresolved(shared(number)).await.unwrap() {
            got.push(format!("claimed {number}"));
        }
        let asked = journal.ask(shared(SHARED + number), "q").await.unwrap();
        match asked {
            Asked::First => got.push(format!("asked {number}")),
            asked => assert_eq!(asked, Asked::Pending),
        }
        let answer = Json::trusted(format!("\"{name}\""));
        if journal
            .record_answer(shared(SHARED + number), "r", answer)
            .await
            .unwrap()
        {
            got.push(format!("answered {number}"));
        }
    }
    let own = (0..OWN).map(async |number| {
        let id = format!("{name}-{number}");
        let call = begin_task(journal, &id).await;
        if number % 2 == 0 {
            journal.finish(call, Finished::Completed).await.unwrap();
        }
    });
    futures_util::future::join_all(own).await;
    got
}

/// Each thing was got once, and everybody's own calls are there.
async fn check(directory: &Path, names: &[String], got: Vec<String>) {
    let distinct: BTreeSet<&String> = got.iter().collect();
    assert_eq!((got.len(), distinct.len()), (3 * SHARED, 3 * SHARED), "{got:?}");
    let journal = open(directory).await;
    let calls = journal.list(CallFilter::default()).await.unwrap();
    assert_eq!(calls.len(), 2 * SHARED + names.len() * OWN);
    for name in names {
        for number in 0..OWN {
            let id = format!("{name}-{number}");
            let found = journal.find(id.clone()).await.unwrap();
            let wanted = match number % 2 {
                0 => CallState::Finished(Finished::Completed),
                _ => CallState::Task,
            };
            assert_eq!(
                found.iter().map(|call| &call.state).collect::<Vec<_>>(),
                [&wanted],
                "{id}"
            );
        }
    }
}

#[test]
fn of_several_connections_one_gets_each_thing() {
    let directory = tempfile::tempdir().unwrap();
    block_on(prepare(directory.path()));
    let names: Vec<String> = (0..4).map(|number| format!("thread-{number}")).collect();
    // A connection that is closed gives up what it has claimed, so all stay open until all are done.
    let done = std::sync::Barrier::new(names.len());
    let got = thread::scope(|scope| {
        let run = |name: &str| {
            block_on(async {
                let journal = open(directory.path()).await;
                let got = compete(&journal, name).await;
                done.wait();
                got
            })
        };
        let threads: Vec<_> = names.iter().map(|name| scope.spawn(move || run(name))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    block_on(check(directory.path(), &names, got));
}

#[test]
fn of_several_processes_one_gets_each_thing() {
    let directory = tempfile::tempdir().unwrap();
    block_on(prepare(directory.path()));
    let names: Vec<String> = (0..4).map(|number| format!("process-{number}")).collect();
    let mut children: Vec<Child> = Vec::new();
    for name in &names {
        let mut child = Command::new(env::current_exe().unwrap());
        child
            .args([
                "--exact",
                "processes::competitor",
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(DIRECTORY, directory.path())
            .env(NAME, name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        children.push(child.spawn().unwrap());
    }
    let mut got = Vec::new();
    let mut outputs = Vec::new();
    for child in &mut children {
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let until_over = lines.by_ref().take_while(|line| line != "over");
        got.extend(until_over.filter_map(|line| line.strip_prefix("got ").map(str::to_owned)));
        outputs.push(lines);
    }
    for (mut child, output) in children.into_iter().zip(outputs) {
        drop(child.stdin.take());
        output.for_each(drop);
        assert!(child.wait().unwrap().success());
    }
    block_on(check(directory.path(), &names, got));
}

#[test]
#[ignore = "started by of_several_processes_one_gets_each_thing"]
fn competitor() {
    let Some((directory, name)) = given() else { return };
    block_on(async {
        let journal = open(&directory).await;
        // After what the test runner has begun to write.
        println!();
        for got in compete(&journal, &name).await {
            println!("got {got}");
        }
        println!("over");
        // Until all are done: what it has claimed it gives up at its end.
        std::io::stdin().lines().for_each(drop);
    });
}

/// How many files are created.
const CREATED: usize = 60;

#[test]
fn processes_that_create_the_file_at_once_all_open_it() {
    let directory = tempfile::tempdir().unwrap();
    let spawn = |name| spawn("processes::creator", directory.path(), name);
    for child in ["one", "two", "three"].map(spawn) {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// One that is ahead has to create each file, which takes longer than to open it. So they soon do it at the same time.
#[test]
#[ignore = "started by processes_that_create_the_file_at_once_all_open_it"]
fn creator() {
    let Some((directory, name)) = given() else { return };
    block_on(async {
        for number in 0..CREATED {
            let journal = open(&directory.join(number.to_string())).await;
            journal.begin(new_call(&name)).await.unwrap();
        }
    });
}

/// What the victim has reported of its calls: how many changes of each had returned.
type Reported = BTreeMap<i64, usize>;

#[test]
fn what_had_returned_is_there_whenever_the_process_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let journal = block_on(open(directory.path()));
    let mut changes = 0;
    for round in 0..200_u64 {
        let mut child = spawn("processes::victim", directory.path(), &format!("round-{round}"));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut reported = Reported::new();
        let mut read = |line: String| {
            if let Some((call, step)) = line.strip_prefix("did ").and_then(|did| did.split_once(' ')) {
                // A kill may cut a line.
                if let Some(step) = step.strip_suffix('.') {
                    reported.insert(call.parse().unwrap(), step.parse().unwrap());
                }
            }
        };
        // In some rounds while it opens the file, in the others after a few changes.
        if round % 10 != 0 {
            let ready = |line: &String| line == "open" || line.starts_with("did ");
            let wanted = fastrand::usize(1..10);
            lines
                .by_ref()
                .map(Result::unwrap)
                .filter(ready)
                .take(wanted)
                .for_each(&mut read);
        }
        pause(Duration::from_micros(fastrand::u64(..15_000)));
        child.kill().unwrap();
        lines.map_while(Result::ok).for_each(&mut read);
        child.wait().unwrap();
        changes += reported.values().sum::<usize>();
        block_on(verify(&journal, &reported));
    }
    assert!(changes > 500, "only {changes} changes in all");
}

#[expect(clippy::disallowed_methods, reason = "a kill at a random time is what is tested")]
fn pause(duration: Duration) {
    thread::sleep(duration);
}

/// Each call has come as far as was reported, or one change further.
async fn verify(journal: &ClientJournal, reported: &Reported) {
    let interrupted = journal.unresolved().await.unwrap();
    for (number, steps) in reported {
        let call = journal.get(CallId::from_number(*number)).await.unwrap();
        let id = call.id;
        let came = match call.state {
            CallState::Interrupted => {
                assert!(interrupted.contains(&call));
                1
            }
            CallState::Task => match journal.ask(id, "q").await.unwrap() {
                // Asked or not: either way it may be asked now.
                Asked::First => 2..=3,
                Asked::Answered(answer) => {
                    assert_eq!(answer.as_str(), "\"yes\"");
                    4..=4
                }
                Asked::Accepted => 5..=5,
                Asked::Pending => panic!("{id} is in the hands of a process that was killed"),
            }
            .find(|came| came >= steps)
            .unwrap_or(0),
            CallState::Finished(Finished::Completed) => 6,
            state => panic!("{id} is {state:?}"),
        };
        assert!(
            (*steps..=steps + 1).contains(&came),
            "{id} reported {steps} changes and has {came}"
        );
        if journal.claim_unresolved(id).await.unwrap() {
            journal.mark_unknown(id, "its process was killed").await.unwrap();
        }
    }
}

/// Makes calls until it is killed, and reports each change that has returned.
#[test]
#[ignore = "started by what_had_returned_is_there_whenever_the_process_is_killed"]
fn victim() {
    let Some((directory, name)) = given() else { return };
    let report = |line: String| {
        let _ = std::io::stdout().lock().write_all(line.as_bytes());
    };
    block_on(async {
        let journal = open(&directory).await;
        report("\nopen\n".to_owned());
        for number in 0.. {
            let call = journal.begin(new_call(&name)).await.unwrap();
            let did = |step: u32| report(format!("did {} {step}.\n", call.number()));
            did(1);
            journal
                .acknowledge(call, task(&format!("{name}-{number}")))
                .await
                .unwrap();
            did(2);
            assert_eq!(journal.ask(call, "q").await.unwrap(), Asked::First);
            did(3);
            assert!(
                journal
                    .record_answer(call, "q", Json::trusted("\"yes\""))
                    .await
                    .unwrap()
            );
            did(4);
            journal.answer_accepted(call, "q").await.unwrap();
            did(5);
            journal.finish(call, Finished::Completed).await.unwrap();
            did(6);
        }
    });
}

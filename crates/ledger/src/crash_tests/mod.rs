//! A client that is killed at every write of its journal and around every message, and then started again.

use crate::{ClientJournal, file::crash_point::reached as crash_point_reached};
use act::{Act, has_detached};
use axum::http::HeaderMap;
use longhaul_client::{
    CallFilter, CallState, Client, Connection, EraChoice, Finished, Http, InputRequest, InputResponse, Inputs, Options,
    Outgoing, QuestionJournal, Reply, RequestError, SystemClock, Transport,
};
use longhaul_core::{BoxFuture, Clock, UnixMillis};
use serde_json::{Map, Value, json};
use server::{Kind, Server};
use std::{
    collections::BTreeSet,
    env,
    net::SocketAddr,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};
use tokio::runtime::Runtime;

mod act;
mod asks_once;
mod server;

const DIRECTORY: &str = "LONGHAUL_TEST_DIRECTORY";
const SERVER: &str = "LONGHAUL_TEST_SERVER";
const KIND: &str = "LONGHAUL_TEST_KIND";
const ACT: &str = "LONGHAUL_TEST_ACT";
const KILL_AT: &str = "LONGHAUL_TEST_KILL_AT";
const FAIL_AT: &str = "LONGHAUL_TEST_JOURNAL_FAILS_AT";
/// More writes than a client makes.
const MANY_WRITES: usize = 40;
const CHILD: &str = "crash_tests::child";

/// HTTP that is a place to be killed before each message, behind it, and behind each message that comes back.
struct Places(Http);

impl Transport for Places {
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Reply, RequestError>> {
        Box::pin(async move {
            crash_point_reached();
            Ok(in_places(self.0.send(message).await?))
        })
    }

    fn listen(&self, headers: HeaderMap) -> BoxFuture<'_, Result<Option<Reply>, RequestError>> {
        Box::pin(async move {
            crash_point_reached();
            Ok(self.0.listen(headers).await?.map(in_places))
        })
    }

    fn close(&self, headers: HeaderMap) -> BoxFuture<'_, ()> {
        self.0.close(headers)
    }

    fn is_session(&self) -> bool {
        false
    }

    fn address(&self) -> &str {
        self.0.address()
    }
}

/// A place here, and behind each message.
fn in_places(reply: Reply) -> Reply {
    crash_point_reached();
    reply.inspect(|_| crash_point_reached())
}

/// A clock whose pauses are short.
struct FastClock(SystemClock);

impl Clock for FastClock {
    fn now(&self) -> UnixMillis {
        self.0.now()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(duration / 20)
    }
}

/// What an author would write: it finishes what was begun, and else makes the call, once.
async fn work(directory: &Path, url: &str, kind: Kind, act: Act) {
    let journal = ClientJournal::open(&directory.join("client/handles.db")).await.unwrap();
    let mut options = Options::named("test", "0");
    options.era = match kind.is_legacy() {
        true => EraChoice::Legacy,
        false => EraChoice::Modern,
    };
    options.clock = Arc::new(FastClock(SystemClock));
    let person = Person(directory.join("asked"));
    let asked = person.clone();
    let inputs = match act {
        Act::Answer => Inputs::deferred(),
        _ => Inputs::new().elicit(move |question| {
            let answer = asked.answer(&question);
            async { Ok(answer) }
        }),
    };
    options.inputs = Some(inputs.into());
    let http = Http::new(url.parse().unwrap(), &options);
    let client = Client::recorded(Connection::over(Places(http), options), journal.clone());
    for task in client.tasks().await.unwrap() {
        act.go_on(&task, &person).await;
        let outcome = task.wait(&mut |_| {}).await.unwrap();
        act.check(&outcome);
        task.finish(&outcome).await.unwrap();
    }
    let calls = journal.list(CallFilter::default()).await.unwrap();
    let must_call = match calls.as_slice() {
        [] => true,
        [call] => call.state == CallState::Interrupted && kind.takes_keys(),
        _ => panic!("{calls:?}"),
    };
    if must_call {
        let call = client.start("build", Value::Object(Map::new())).await.unwrap();
        if let Some(outcome) = act.call(call, &person, directory).await {
            act.check(&outcome);
        }
    }
    client.close().await;
}

/// A person who never says the same twice.
#[derive(Clone)]
struct Person(PathBuf);

impl Person {
    fn answer(&self, question: &InputRequest) -> InputResponse {
        let count = std::fs::read_dir(&self.0).map_or(0, Iterator::count);
        std::fs::create_dir_all(self.0.join(count.to_string())).unwrap();
        InputResponse::accept(json!({"answer": count, "to": question.message()}))
    }
}

/// What happens to a client at one of its places.
#[derive(Debug, Clone, Copy)]
enum Harm {
    KilledAt(usize),
    JournalFailsAt(usize),
}

fn run_child(directory: &Path, address: SocketAddr, (kind, act): (Kind, Act), harm: Option<Harm>) -> ExitStatus {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", CHILD, "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .env(SERVER, format!("http://{address}/mcp"))
        .env(KIND, kind.name())
        .env(ACT, act.name())
        .stdin(Stdio::null());
    match harm {
        Some(Harm::KilledAt(place)) => command.env(KILL_AT, place.to_string()),
        Some(Harm::JournalFailsAt(write)) => command.env(FAIL_AT, write.to_string()),
        None => &mut command,
    };
    let child = command.output().unwrap();
    let is_expected = match harm {
        Some(Harm::KilledAt(_)) => child.status.success() || child.status.signal() == Some(9),
        // The author of `work` does not deal with errors, so the process ends by a panic.
        Some(Harm::JournalFailsAt(_)) => child.status.code().is_some(),
        None => child.status.success(),
    };
    let text = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
    assert!(is_expected, "{kind:?}, {act:?}, {harm:?}: {text}");
    child.status
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

/// A server that asks once, and whose question is lost on its way, asks again in this test: no client can know it. What is recorded is not asked again.
fn ask_again_what_was_lost(directory: &Path, server: &Server, runtime: &Runtime) {
    let mut seen = server.seen.lock();
    if !seen.once.is_open {
        return;
    }
    let is_recorded = runtime.block_on(async {
        let journal = ClientJournal::open(&directory.join("client/handles.db")).await.unwrap();
        let call = journal.list(CallFilter::default()).await.unwrap().pop().unwrap();
        let open = journal.open_requests(call.id).await.unwrap();
        open.iter()
            .any(|open| open.request.params.contains(seen.once.question()))
    });
    if !is_recorded {
        seen.once.ask_again();
    }
}

/// Each question has one answer, and that is the answer to it.
fn check_answers(kind: Kind, answers: &[Value], harm: &str) {
    if kind == Kind::LegacyAsksOnce {
        assert!(
            answers.iter().all(|answer| answer["to"] == answer["question"]),
            "{harm}: {answers:?}"
        );
        return;
    }
    let answers: BTreeSet<String> = answers.iter().map(Value::to_string).collect();
    assert!(answers.len() <= 1, "{kind:?}, {harm}: {answers:?}");
}

/// Kills the client at one place after the other, and lets the next process go on.
fn kill_everywhere(kind: Kind, act: Act) {
    let runtime = runtime();
    let mut places = 0;
    loop {
        places += 1;
        let directory = tempfile::tempdir().unwrap();
        let (server, address) = Server::start(kind, &runtime);
        let was_killed = !run_child(directory.path(), address, (kind, act), Some(Harm::KilledAt(places))).success();
        if was_killed {
            ask_again_what_was_lost(directory.path(), &server, &runtime);
        }
        // What the author was told of is not lost with the process.
        let was_detached = has_detached(directory.path());
        if was_killed {
            run_child(directory.path(), address, (kind, act), None);
        }
        if act == Act::Detach {
            // One that has begun the call has detached it, too.
            run_child(directory.path(), address, (kind, act), None);
        }
        let path = directory.path().join("client/handles.db");
        let calls = runtime.block_on(async {
            let journal = ClientJournal::open(&path).await.unwrap();
            journal.list(CallFilter::default()).await.unwrap()
        });
        // A call whose key may be forgotten stays, and the next process makes another one.
        let (call, given_up) = match calls.as_slice() {
            [call] => (call, 0),
            [call, first] if kind == Kind::ForgetsKeys && matches!(first.state, CallState::Unknown { .. }) => (call, 1),
            _ => panic!("{kind:?}, killed at {places}: {calls:?}"),
        };
        let seen = server.seen.lock();
        let executed = seen.executions.len();
        assert!(
            seen.executions
                .values()
                .all(|execution| kind != Kind::ForgetsKeys || execution.calls == 1),
            "{kind:?}, killed at {places}: called again under a key that is forgotten"
        );
        match &call.state {
            CallState::Finished(finished) => {
                let is_cancelled = *finished == Finished::Cancelled;
                assert_eq!(is_cancelled, act == Act::Cancel, "{kind:?}, killed at {places}");
                assert!((1..=1 + given_up).contains(&executed), "{kind:?}, killed at {places}");
            }
            // Nobody knows, and it was not made again.
            CallState::Unknown { .. } if !kind.takes_keys() => {
                assert!(executed <= 1 && !was_detached, "{kind:?}, {act:?}, killed at {places}");
                // The handle is on disk before the task is read.
                assert!(
                    seen.executions.values().all(|execution| execution.polls == 0),
                    "killed at {places}"
                );
            }
            other => panic!("{kind:?}, killed at {places}: {other:?}"),
        }
        for execution in seen.executions.values() {
            check_answers(kind, &execution.answers, &format!("killed at {places}"));
        }
        if kind.is_legacy() && matches!(call.state, CallState::Finished(_)) {
            // The last process has fetched the result, and ended the session.
            assert!(seen.sessions <= 2 && seen.deleted.len() <= 1, "killed at {places}");
        }
        if !was_killed {
            break;
        }
    }
    let least = match act {
        Act::Detach => 15,
        _ => 20,
    };
    assert!(places > least, "{kind:?}, {act:?}: there are only {places} places");
}

/// Lets one write of the journal fail after the other, and then lets another process go on.
fn fail_everywhere(kind: Kind) {
    let runtime = runtime();
    for write in 1.. {
        let directory = tempfile::tempdir().unwrap();
        let (server, address) = Server::start(kind, &runtime);
        run_child(
            directory.path(),
            address,
            (kind, Act::Wait),
            Some(Harm::JournalFailsAt(write)),
        );
        let has_failed = directory.path().join("failed").exists();
        run_child(directory.path(), address, (kind, Act::Wait), None);
        let path = directory.path().join("client/handles.db");
        let calls = runtime.block_on(async {
            let journal = ClientJournal::open(&path).await.unwrap();
            journal.list(CallFilter::default()).await.unwrap()
        });
        let seen = server.seen.lock();
        // Without a record nothing is sent, and with one nothing is sent twice but under its key.
        assert!(seen.executions.len() <= 1, "{kind:?}, write {write}: {calls:?}");
        let is_ended = matches!(
            calls.as_slice(),
            [call] if matches!(call.state, CallState::Finished(_)) || (matches!(call.state, CallState::Unknown { .. }) && !kind.takes_keys())
        );
        assert!(is_ended, "{kind:?}, write {write}: {calls:?}");
        for execution in seen.executions.values() {
            check_answers(kind, &execution.answers, &format!("write {write}"));
        }
        if !has_failed {
            assert!(write > 4, "{kind:?}: there are only {write} writes");
            return;
        }
        assert!(write < MANY_WRITES, "{kind:?}: the writes do not end");
    }
}

#[test]
fn a_call_with_a_key_ends_once_wherever_the_client_is_killed() {
    kill_everywhere(Kind::Keys, Act::Wait);
}

#[test]
fn a_call_with_a_key_that_is_answered_at_once_ends_once() {
    kill_everywhere(Kind::KeysDirect, Act::Wait);
}

#[test]
fn a_call_without_a_key_is_never_repeated() {
    kill_everywhere(Kind::NoKeys, Act::Wait);
}

#[test]
fn a_legacy_task_is_found_again_in_its_session() {
    kill_everywhere(Kind::Legacy, Act::Wait);
}

#[test]
fn a_legacy_task_that_asks_is_answered_once() {
    kill_everywhere(Kind::LegacyAsks, Act::Wait);
}

#[test]
fn a_legacy_task_that_asks_on_push_streams_is_answered_once() {
    kill_everywhere(Kind::LegacyPushes, Act::Wait);
}

#[test]
fn a_legacy_task_that_asks_each_question_once_gets_its_answers() {
    kill_everywhere(Kind::LegacyAsksOnce, Act::Wait);
}

#[test]
fn a_call_whose_key_may_be_forgotten_is_not_sent_again() {
    kill_everywhere(Kind::ForgetsKeys, Act::Wait);
}

#[test]
fn an_answer_by_hand_is_given_once() {
    for kind in [Kind::Keys, Kind::NoKeys] {
        kill_everywhere(kind, Act::Answer);
    }
}

#[test]
fn a_call_that_is_cancelled_ends_as_cancelled() {
    for kind in [Kind::Keys, Kind::NoKeys, Kind::Legacy] {
        kill_everywhere(kind, Act::Cancel);
    }
}

#[test]
fn a_detached_task_is_found_by_the_next_process() {
    for kind in [Kind::Keys, Kind::NoKeys, Kind::Legacy] {
        kill_everywhere(kind, Act::Detach);
    }
}

/// Instead of being killed, the client gets one error of its journal, at each write in turn.
#[test]
fn an_error_of_the_journal_makes_no_call_twice() {
    for kind in [Kind::Keys, Kind::NoKeys, Kind::LegacyAsks] {
        fail_everywhere(kind);
    }
}

#[tokio::test]
#[ignore = "started by the tests of this file"]
async fn child() {
    let (Some(directory), Ok(url), Ok(kind), Ok(act)) = (
        env::var_os(DIRECTORY).map(PathBuf::from),
        env::var(SERVER),
        env::var(KIND),
        env::var(ACT),
    ) else {
        return;
    };
    let kind = Kind::ALL.into_iter().find(|known| known.name() == kind).unwrap();
    let act = Act::ALL.into_iter().find(|known| known.name() == act).unwrap();
    work(&directory, &url, kind, act).await;
}

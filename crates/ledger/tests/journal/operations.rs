//! Single operations, one after the other.

use crate::support::{HOUR, ManualClock, SERVER, begin_task, new_call, open, open_with, session, task};
use longhaul_client::{Asked, CallFilter, CallId, CallState, Finished, JournalError, NewCall, TaskRef, TaskStatus};
use longhaul_core::Json;
use longhaul_ledger::{CallCancellation, ClientJournal};
use std::sync::Arc;

async fn ids(journal: &ClientJournal, part: &str) -> Vec<CallId> {
    let found = journal.find(part).await.unwrap();
    found.into_iter().map(|call| call.id).collect()
}

#[tokio::test]
async fn all_that_is_recorded_is_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(directory.path()).await;
    let call = journal.begin(new_call("tool")).await.unwrap();
    let with_session = TaskRef {
        session: Some(session("s")),
        ..task("task-1")
    };
    journal.acknowledge(call, with_session.clone()).await.unwrap();
    journal.note_status(call, TaskStatus::InputRequired).await.unwrap();
    let found = open(directory.path()).await.get(call).await.unwrap();
    let new = new_call("tool");
    assert_eq!(
        (
            &found.server,
            &found.server_name,
            &found.tool,
            found.arguments_digest,
            &found.idempotency_key
        ),
        (
            &new.server,
            &new.server_name,
            &new.tool,
            new.arguments_digest,
            &new.idempotency_key
        )
    );
    assert_eq!(
        (found.id, found.state, found.task, found.status, found.asks),
        (
            call,
            CallState::Task,
            Some(with_session),
            Some(TaskStatus::InputRequired),
            true
        )
    );
    journal.finish(call, Finished::Failed).await.unwrap();
    let found = journal.get(call).await.unwrap();
    assert_eq!(
        (found.state, found.asks),
        (CallState::Finished(Finished::Failed), false)
    );
}

#[tokio::test]
async fn a_task_is_found_by_a_part_of_its_id() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(directory.path()).await;
    let first = begin_task(&journal, "0192-aaaa-xyz").await;
    let second = begin_task(&journal, "0192-bbbb-xyz").await;
    let short = begin_task(&journal, "7").await;
    assert_eq!(ids(&journal, "aaaa").await, [first]);
    assert_eq!(ids(&journal, "-xyz").await, [second, first]);
    assert_eq!(ids(&journal, "0192-bbbb-xyz").await, [second]);
    assert_eq!(ids(&journal, "7").await, [short]);
    assert!(ids(&journal, "xyz").await.is_empty());
    assert!(ids(&journal, "AAAA").await.is_empty());
    let prefix = begin_task(&journal, "aaaa").await;
    assert_eq!(ids(&journal, "aaaa").await, [prefix]);
}

#[tokio::test]
async fn lists_are_filtered() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(directory.path()).await;
    let elsewhere = NewCall {
        server: r#"["server","--stdio"]"#.to_owned(),
        ..new_call("tool")
    };
    let elsewhere = journal.begin(elsewhere).await.unwrap();
    let live = begin_task(&journal, "live").await;
    let done = begin_task(&journal, "done").await;
    journal.finish(done, Finished::Completed).await.unwrap();
    let list = async |filter: CallFilter| -> Vec<CallId> {
        let calls = journal.list(filter).await.unwrap();
        calls.into_iter().map(|call| call.id).collect()
    };
    let all = CallFilter::default;
    assert_eq!(list(all()).await, [done, live, elsewhere]);
    assert_eq!(
        list(CallFilter {
            limit: Some(1),
            ..all()
        })
        .await,
        [done]
    );
    assert_eq!(
        list(CallFilter {
            unfinished: true,
            ..all()
        })
        .await,
        [live, elsewhere]
    );
    let here = Some(SERVER.to_owned());
    assert_eq!(
        list(CallFilter {
            server: here.clone(),
            ..all()
        })
        .await,
        [done, live]
    );
    let unfinished = CallFilter {
        server: here,
        unfinished: true,
        limit: Some(5),
    };
    assert_eq!(list(unfinished).await, [live]);
    assert_eq!(journal.live().await.unwrap().len(), 1);
}

#[tokio::test]
async fn finished_calls_are_deleted_in_portions_after_a_day() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let journal = open_with(directory.path(), &clock).await;
    let mut calls = Vec::new();
    for _ in 0..40 {
        let call = journal.begin(new_call("tool")).await.unwrap();
        journal.finish(call, Finished::Answered).await.unwrap();
        calls.push(call);
    }
    clock.pass(24 * HOUR - 1);
    assert_eq!(journal.list(CallFilter::default()).await.unwrap().len(), 40);
    clock.pass(1);
    // Not listed any more, although most of them are still in the file.
    let last = journal.begin(new_call("tool")).await.unwrap();
    assert!(last > *calls.last().unwrap());
    let listed = journal.list(CallFilter::default()).await.unwrap();
    assert_eq!(listed.iter().map(|call| call.id).collect::<Vec<_>>(), [last]);
    let gone = Err(JournalError::UnknownCall(calls[39]));
    assert_eq!(journal.finish(calls[39], Finished::Answered).await, gone);
    let file = rusqlite::Connection::open(journal.path()).unwrap();
    let stored = || -> i64 {
        file.query_row("SELECT count(*) FROM calls", [], |row| row.get(0))
            .unwrap()
    };
    assert_eq!(stored(), 1 + 40 - 2 * 16);
    journal.begin(new_call("tool")).await.unwrap();
    assert_eq!(stored(), 2);
}

#[tokio::test]
async fn a_lost_task_that_is_found_again_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let journal = open_with(directory.path(), &clock).await;
    let lost = begin_task(&journal, "lost").await;
    let found = begin_task(&journal, "found").await;
    for call in [lost, found] {
        journal.mark_lost(call, "its session is gone").await.unwrap();
    }
    journal.acknowledge(found, task("found")).await.unwrap();
    clock.pass(31 * 24 * HOUR);
    journal.begin(new_call("tool")).await.unwrap();
    assert_eq!(journal.get(found).await.unwrap().state, CallState::Task);
    assert_eq!(journal.get(lost).await, Err(JournalError::UnknownCall(lost)));
}

#[tokio::test]
async fn a_call_that_is_released_can_be_claimed() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, other) = (open(directory.path()).await, open(directory.path()).await);
    let call = journal.begin(new_call("tool")).await.unwrap();
    other.release_call(call).await.unwrap();
    assert_eq!(other.claim_unresolved(call).await, Ok(false));
    assert!(other.unresolved().await.unwrap().is_empty());
    journal.release_call(call).await.unwrap();
    assert_eq!(other.unresolved().await.unwrap().len(), 1);
    assert_eq!(other.claim_unresolved(call).await, Ok(true));
    assert_eq!(journal.claim_unresolved(call).await, Ok(false));
    let refused = journal.mark_unknown(call, "").await.unwrap_err();
    assert!(matches!(refused, JournalError::WrongState { .. }), "{refused}");
}

/// Without a key nobody may send it again, and after a day with one neither.
#[tokio::test]
async fn an_abandoned_call_is_of_unknown_outcome_and_listed_for_a_day() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let sending = open_with(directory.path(), &clock).await;
    let journal = open_with(directory.path(), &clock).await;
    let unkeyed = NewCall {
        idempotency_key: None,
        session: Some(session("s")),
        ..new_call("tool")
    };
    let unkeyed = sending.begin(unkeyed).await.unwrap();
    let keyed = sending.begin(new_call("tool")).await.unwrap();
    let listed = async || {
        journal.settle_abandoned().await.unwrap();
        let calls = journal.list(CallFilter::default()).await.unwrap();
        calls.into_iter().map(|call| (call.id, call.state)).collect::<Vec<_>>()
    };
    let unknown = |reason: &str| CallState::Unknown {
        reason: reason.to_owned(),
    };
    let in_flight = [(keyed, CallState::InFlight), (unkeyed, CallState::InFlight)];
    assert_eq!(listed().await, in_flight);
    drop(sending);
    let ended = unknown("the program ended before there was an answer");
    let settled = [(keyed, CallState::Interrupted), (unkeyed, ended)];
    assert_eq!(listed().await, settled);
    // Its task may be there.
    assert_eq!(journal.may_end_session(SERVER, "s").await, Ok(false));
    clock.pass(24 * HOUR - 1);
    assert_eq!(listed().await, settled);
    clock.pass(1);
    let forgotten = unknown(
        "it was interrupted before it was answered, and since then the server may have forgotten its idempotency key",
    );
    assert_eq!(listed().await, [(keyed, forgotten)]);
    assert_eq!(journal.may_end_session(SERVER, "s").await, Ok(true));
    clock.pass(24 * HOUR);
    assert_eq!(listed().await, []);
}

/// Nobody has told the server, so nobody knows what has become of the call.
#[tokio::test]
async fn an_interrupted_call_that_is_given_up_is_of_unknown_outcome() {
    let directory = tempfile::tempdir().unwrap();
    let sending = open(directory.path()).await;
    let journal = open(directory.path()).await;
    let call = sending.begin(new_call("tool")).await.unwrap();
    drop(sending);
    assert_eq!(journal.get(call).await.unwrap().state, CallState::Interrupted);
    assert_eq!(journal.cancel_call(call).await.unwrap(), CallCancellation::Recorded);
    let given_up = journal.get(call).await.unwrap();
    assert!(matches!(given_up.state, CallState::Unknown { .. }), "{given_up:?}");
    assert_eq!(journal.claim_unresolved(call).await, Ok(false), "it is not made again");
}

/// The server does not know the key of another user. The same user may have another key, and then it does.
#[tokio::test]
async fn an_interrupted_call_of_another_user_is_not_taken_over() {
    const ANN: &str = "user ann at https://login.example";
    for (made_as, present, is_taken) in [
        (Some(ANN), Some("user bob at https://login.example"), false),
        (Some(ANN), Some("user ann at https://other.example"), false),
        (Some(ANN), Some(ANN), true),
        (Some(ANN), None, true),
        (None, Some(ANN), true),
        (Some("key 1"), Some("key 2"), true),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let as_user = |login: Option<&str>| NewCall {
            login: login.map(str::to_owned),
            ..new_call("tool")
        };
        let sending = open(directory.path()).await;
        let call = sending.begin(as_user(made_as)).await.unwrap();
        drop(sending);
        let journal = open(directory.path()).await;
        let taken = journal.take_over(as_user(present), None).await.unwrap();
        let expected = is_taken.then_some(call);
        assert_eq!(taken.map(|taken| taken.call), expected, "{made_as:?} {present:?}");
        assert_eq!(journal.get(call).await.unwrap().login.as_deref(), made_as);
    }
}

#[tokio::test]
async fn questions_of_rounds_and_of_the_task_are_apart() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(directory.path()).await;
    let call = journal.begin(new_call("tool")).await.unwrap();
    assert_eq!(journal.ask(call, "name").await, Ok(Asked::First));
    let answer = Json::trusted("{}");
    assert_eq!(journal.record_answer(call, "name", answer.clone()).await, Ok(true));
    journal.acknowledge(call, task("task")).await.unwrap();
    assert_eq!(journal.ask(call, "name").await, Ok(Asked::First));
    // A new session of the same task changes nothing about its questions.
    journal.acknowledge(call, task("task")).await.unwrap();
    assert_eq!(journal.ask(call, "name").await, Ok(Asked::Pending));
    assert_eq!(journal.record_answer(call, "name", answer.clone()).await, Ok(true));
    journal.answer_refused(call, "name").await.unwrap();
    assert_eq!(journal.ask(call, "name").await, Ok(Asked::First));
}

#[tokio::test]
async fn an_accepted_answer_is_in_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(directory.path()).await;
    let call = begin_task(&journal, "task").await;
    let answer = Json::trusted(r#"{"password":"a-very-secret-word"}"#);
    journal.record_answer(call, "q", answer).await.unwrap();
    journal.answer_accepted(call, "q").await.unwrap();
    let file = rusqlite::Connection::open(journal.path()).unwrap();
    let checkpoint: i64 = file
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .unwrap();
    assert_eq!(checkpoint, 0);
    let bytes = std::fs::read(journal.path()).unwrap();
    assert!(!bytes.windows(16).any(|bytes| bytes == b"very-secret-word"));
}

#[tokio::test]
async fn a_session_with_a_task_is_not_ended_also_when_the_result_was_fetched() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(directory.path()).await;
    let begin = |id: &str| {
        let call = NewCall {
            session: Some(session(id)),
            ..new_call("tool")
        };
        journal.begin(call)
    };
    let first = begin("s").await.unwrap();
    let second = begin("s").await.unwrap();
    assert_eq!(journal.sessions_in_use(SERVER).await, Ok(vec![session("s")]));
    assert_eq!(journal.may_end_session(SERVER, "s").await, Ok(false));
    let in_session = TaskRef {
        session: Some(session("s")),
        ..task("task")
    };
    journal.acknowledge(first, in_session).await.unwrap();
    journal.mark_unknown(second, "the connection broke").await.unwrap();
    journal.finish(first, Finished::Completed).await.unwrap();
    assert_eq!(journal.may_end_session(SERVER, "s").await, Ok(false));
    journal.finish(second, Finished::Refused).await.unwrap();
    // Other processes may wait for the task.
    assert_eq!(journal.sessions_in_use(SERVER).await, Ok(vec![session("s")]));
    assert_eq!(journal.may_end_session(SERVER, "s").await, Ok(false));
    assert_eq!(journal.may_end_session(SERVER, "unheard of").await, Ok(true));
    let third = begin("t").await.unwrap();
    assert_eq!(journal.may_end_session(SERVER, "t").await, Ok(false));
    journal.finish(third, Finished::Answered).await.unwrap();
    assert_eq!(journal.may_end_session(SERVER, "t").await, Ok(true));
    // A server that was started again may give an id again.
    begin("t").await.unwrap();
}

#[tokio::test]
async fn the_end_of_a_call_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(directory.path()).await;
    let call = begin_task(&journal, "task").await;
    let refused = |result: Result<(), JournalError>, state: &str| {
        let error = result.unwrap_err();
        assert!(matches!(error, JournalError::WrongState { .. }), "{error}");
        assert!(error.to_string().ends_with(state), "{error}");
    };
    refused(journal.acknowledge(call, task("other")).await.map(drop), "a task");
    refused(journal.mark_unknown(call, "").await, "a task");
    journal.mark_lost(call, "gone").await.unwrap();
    refused(journal.note_status(call, TaskStatus::Working).await, "lost");
    journal.acknowledge(call, task("task")).await.unwrap();
    journal.finish(call, Finished::Cancelled).await.unwrap();
    journal.finish(call, Finished::Completed).await.unwrap();
    refused(journal.mark_lost(call, "gone").await, "finished");
    refused(journal.ask(call, "q").await.map(drop), "finished");
    refused(journal.acknowledge(call, task("task")).await.map(drop), "finished");
    let state = journal.get(call).await.unwrap().state;
    assert_eq!(state, CallState::Finished(Finished::Cancelled));
}

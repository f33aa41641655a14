//! Answering a call that asks before it is a task, or whose task only its command reaches: through the journal, which the process that makes the call watches.

use super::{answered_line, choose, respond};
use crate::{
    args,
    ask::arguments::Words,
    call::{
        record::{self, NamedTask},
        tasks,
    },
    exit::{failure::Failure, result::Exit},
    output,
    servers::Server,
};
use longhaul_client::{CallFilter, CallState, RecordedCall};
use longhaul_ledger::ClientJournal;

/// The only call that asks before it is a task, if no task could be meant.
pub(super) async fn only_that_asks(server: &Server) -> Result<Option<RecordedCall>, Failure> {
    if !NamedTask::candidates(server, "answer").await?.is_empty() {
        return Ok(None);
    }
    let unfinished = CallFilter {
        unfinished: true,
        ..CallFilter::default()
    };
    let mut asking = record::list(unfinished).await?;
    asking.retain(|call| call.task.is_none() && call.asks && server.covers(call));
    match asking.as_slice() {
        [] => Ok(None),
        [_] => Ok(asking.pop()),
        several => {
            let names = several
                .iter()
                .map(|call| format!("\n  {}  {}", tasks::call_name(call.id), call.tool));
            Err(Failure::usage(format!(
                "name one of your calls:{}",
                names.collect::<String>()
            )))
        }
    }
}

/// Records the answer, which the process that makes the call sends.
pub(super) async fn answer(call: &RecordedCall, args: &args::Answer, words: &Words) -> Result<Exit, Failure> {
    let name = tasks::name_of(call);
    let is_over = || Failure::refused(format!("{name} asks nothing now"));
    if call.state == CallState::Interrupted && call.idempotency_key.is_none() {
        return Err(Failure::refused(format!(
            "the program that made {name} has ended, so nothing can send the answer; make the call again: it asks again"
        )));
    }
    let is_open = matches!(call.state, CallState::InFlight | CallState::Interrupted);
    if !(is_open || call.ends_with_process) {
        return Err(is_over());
    }
    let journal = record::open().await?;
    let questions = journal.call_questions(call.id).await?;
    for question in choose(&questions, args, words, is_over)? {
        let key = question.key.clone().unwrap_or_default();
        let withdrawn = until_withdrawn(&journal, call, &key);
        let response = respond(&question, args, words.clone(), withdrawn).await?;
        if !journal.answer_call(call.id, &key, &response).await? {
            return Err(is_not_asked(call, &key));
        }
        let task = call.task.as_ref().map(|task| task.task_id.as_str());
        answered_line(task, task.is_none().then_some(name.as_str()), Some(&key), args.json);
        output::note(match call.state {
            CallState::InFlight | CallState::Task => "the answer is recorded; the program that makes the call sends it",
            _ => "the answer is recorded; make the same call again, which sends it",
        });
    }
    Ok(Exit::Answered)
}

/// Waits until the call has ended, or does not ask this any more.
async fn until_withdrawn(journal: &ClientJournal, call: &RecordedCall, key: &str) -> Failure {
    let mut watch = journal.watch();
    loop {
        let asked = match journal.call_questions(call.id).await {
            Ok(asked) => asked,
            Err(error) => return error.into(),
        };
        if asked.iter().all(|request| request.key.as_deref() != Some(key)) {
            return is_not_asked(call, key);
        }
        watch.changed_or_ended().await;
    }
}

fn is_not_asked(call: &RecordedCall, key: &str) -> Failure {
    let name = tasks::name_of(call);
    Failure::refused(format!("{name} does not ask `{key}` any more; nothing was answered"))
}

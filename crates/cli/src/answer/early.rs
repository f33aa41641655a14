//! Answering a call that asks before it is a task: through the journal, which the process that makes the call watches.

use super::{answered_line, choose, respond};
use crate::{
    args,
    arguments::Words,
    failure::Failure,
    output,
    record::{self, Named},
    result::Exit,
    servers::Server,
    tasks,
};
use longhaul_client::{CallFilter, CallState, RecordedCall};

/// The only call that asks before it is a task, if no task could be meant.
pub(super) async fn only_that_asks(server: &Server) -> Result<Option<RecordedCall>, Failure> {
    if !Named::candidates(server, "answer").await?.is_empty() {
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
    let name = tasks::call_name(call.id);
    let is_over = || Failure::refused(format!("{name} asks nothing now"));
    if call.state == CallState::Interrupted && call.idempotency_key.is_none() {
        return Err(Failure::refused(format!(
            "the program that made {name} has ended, so nothing can send the answer; make the call again: it asks again"
        )));
    }
    if !matches!(call.state, CallState::InFlight | CallState::Interrupted) {
        return Err(is_over());
    }
    let journal = record::open().await?;
    let questions = journal.call_questions(call.id).await?;
    for question in choose(&questions, args, words, is_over)? {
        let response = respond(&question, args, words.clone()).await?;
        let key = question.key.clone().unwrap_or_default();
        if !journal.answer_call(call.id, &key, &response).await? {
            return Err(Failure::refused(format!("{name} does not ask `{key}` any more")));
        }
        answered_line(None, Some(&name), Some(&key), args.json);
        output::note(match call.state {
            CallState::InFlight => "the answer is recorded; the program that makes the call sends it",
            _ => "the answer is recorded; make the same call again, which sends it",
        });
    }
    Ok(Exit::Answered)
}

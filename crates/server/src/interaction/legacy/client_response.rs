//! Responses of legacy clients to requests of ours.

use super::client_tasks;
use crate::{
    interaction::{Interaction, check_answer},
    response::store_failed,
    session::{Session, other_nodes, replies},
};
use longhaul_core::{AnsweredBy, InputKey, Json, RpcFailure, TaskId};
use longhaul_runtime::{QuestionLookup, QuestionReply};
use longhaul_wire::{
    InvalidResponse, RemoteError, RequestId, RpcError, jsonrpc::Response, legacy::input_request::strip_related_task,
};
use serde_json::value::RawValue;
use std::sync::Arc;

/// What a response was taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseMatch {
    /// It answers a request of ours.
    Answer,
    /// Nothing awaits it, or not any more.
    NotAwaited,
    /// It answers a question of a task that its sender does not have.
    UnknownTask,
}

/// Takes a response that came on a session of ours.
///
/// # Errors
/// −32602/400 for a response that is none to its question, which stays open; the store's.
pub(crate) async fn accept(
    interaction: &Arc<Interaction>,
    session: &Session,
    response: &Response<'_>,
) -> Result<ResponseMatch, RpcError> {
    // It names no request of ours.
    let Some(id) = response.id.and_then(text_of) else {
        return Ok(ResponseMatch::NotAwaited);
    };
    let sender = interaction.sessions.replies.other_sender(&id);
    let question = replies::question_of(&id);
    // A question of a task is answered here, unless the answer is a task of the client: whoever has asked polls it, on the stream on which it has.
    if let Some(sender) = sender
        && (question.is_none() || response.outcome.is_ok_and(client_tasks::is_task))
    {
        other_nodes::pass_on(&interaction.engine, &interaction.sessions, sender, session, response);
        return Ok(ResponseMatch::Answer);
    }
    let reply = match response.outcome {
        Ok(result) => QuestionReply::Result(strip_related_task(result.get())?),
        Err(error) => QuestionReply::Error(failure(error)),
    };
    match question {
        Some((task, key)) => {
            interaction.desk.responded(&id);
            answer_question(interaction, session, &task, key, reply).await
        }
        None => match interaction.sessions.replies.take(&session.key, id, reply) {
            true => Ok(ResponseMatch::Answer),
            false => Ok(ResponseMatch::NotAwaited),
        },
    }
}

async fn answer_question(
    interaction: &Arc<Interaction>,
    session: &Session,
    task: &TaskId,
    key: InputKey,
    reply: QuestionReply,
) -> Result<ResponseMatch, RpcError> {
    let question = interaction.engine.open_question(&session.principal, task, &key).await;
    let request = match question.map_err(store_failed)? {
        QuestionLookup::Open(request) => request,
        QuestionLookup::NotOpen => return Ok(ResponseMatch::NotAwaited),
        QuestionLookup::UnknownTask => return Ok(ResponseMatch::UnknownTask),
    };
    let (mut reply, mut by) = (reply, AnsweredBy::Client);
    if let QuestionReply::Result(answer) = &reply {
        if client_tasks::take(interaction, session, task, &key, &request, answer) {
            return Ok(ResponseMatch::Answer);
        }
        match check_answer(&request, answer) {
            Ok(()) => {}
            Err(error @ InvalidResponse::Structure(_)) => return Err(error.into()),
            // A response has no response that says so: what asked is told, and may ask again.
            Err(error) => (reply, by) = (QuestionReply::Error(error.into_failure()), AnsweredBy::Server),
        }
    }
    let answered = interaction
        .engine
        .answer_question(task, key, reply.into_answer(), by)
        .await;
    answered.map_err(store_failed)?;
    Ok(ResponseMatch::Answer)
}

fn text_of(id: RequestId<'_>) -> Option<String> {
    serde_json::from_str(id.as_json()).ok()
}

fn failure(error: &RawValue) -> RpcFailure {
    let error = RemoteError::read(error);
    RpcFailure {
        code: i32::try_from(error.code).unwrap_or(-32603),
        message: error.message.into(),
        data: error.data.map(Json::from),
    }
}

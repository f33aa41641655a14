//! From bytes to the method that answers them.

use crate::{answer::Answer, caller::Caller, front::Front, method, session::Session};
use longhaul_wire::{
    Admitted, Era, Generation, Message, Method, Params, Peer, Refusal, Request, RpcError, Rules, admit, decide,
    envelope::Notification,
};
use std::sync::Arc;

/// One message, with what surrounds it.
pub(crate) struct Incoming<'a> {
    /// The message.
    pub(crate) bytes: &'a [u8],
    /// What carries it.
    pub(crate) peer: Peer<'a>,
    /// The live session its id came to, if it has one.
    pub(crate) session: Option<Session>,
    /// Whether its sender takes a stream of events as an answer.
    pub(crate) takes_stream: bool,
}

/// Answers one message.
pub(crate) async fn dispatch(front: &Arc<Front>, incoming: Incoming<'_>) -> Answer {
    match Message::parse(incoming.bytes) {
        Err(Refusal { id, error }) => Answer::error(id, &error),
        Ok(Message::Request(request)) => {
            let id = request.id;
            request_answer(front, &request, incoming)
                .await
                .unwrap_or_else(|error| Answer::error(Some(id), &error))
        }
        Ok(Message::Notification(notification)) => {
            accept(front, &notification, incoming).unwrap_or_else(|error| Answer::error(None, &error))
        }
        // We ask nothing yet, so there is nothing to answer; but a modern client must not even try (T-22).
        Ok(Message::Response(_)) => match incoming.session {
            Some(_) => Answer::Accepted,
            None => Answer::error(None, &RpcError::invalid_request("No response is awaited here")),
        },
    }
}

async fn request_answer(front: &Arc<Front>, request: &Request<'_>, incoming: Incoming<'_>) -> Result<Answer, RpcError> {
    let rules = Rules {
        strict_headers: front.strict_headers,
        serves,
    };
    let Admitted {
        era,
        method,
        params,
        meta,
    } = admit(request, &incoming.peer, &rules)?;
    let caller = Caller::new(&era, front.principal(), incoming.session, incoming.takes_stream);
    let call = Call {
        id: request.id,
        params,
        meta,
        caller,
    };
    method::answer(front, method, call).await
}

/// A request on its way to its method.
pub(crate) struct Call<'a> {
    pub(crate) id: longhaul_wire::RequestId<'a>,
    pub(crate) params: Params<'a>,
    pub(crate) meta: longhaul_wire::Meta<'a>,
    pub(crate) caller: Caller,
}

/// What is served, of all that the protocol has.
fn serves(method: Method) -> bool {
    matches!(
        method,
        Method::Initialize
            | Method::Discover
            | Method::Ping
            | Method::ToolsList
            | Method::ToolsCall
            | Method::TasksGet
            | Method::TasksResult
            | Method::TasksList
            | Method::TasksCancel
            | Method::TasksUpdate
            | Method::ResourcesList
            | Method::ResourceTemplatesList
            | Method::ResourcesRead
    )
}

/// Takes a notification. Unknown ones are accepted: nobody waits for an answer, and a later revision may have meant them kindly.
fn accept(front: &Front, notification: &Notification<'_>, incoming: Incoming<'_>) -> Result<Answer, RpcError> {
    let params = Params::read(notification.params)?;
    let era = decide(Some(&notification.method), &params.meta()?, &incoming.peer)?;
    let caller = Caller::new(&era, front.principal(), incoming.session, incoming.takes_stream);
    // Over HTTP a modern client calls a request off by leaving; it has no notification for it (T-34, T-36).
    let legacy = matches!(era, Era::Legacy(_));
    if legacy && Method::parse(&notification.method, Generation::Legacy) == Some(Method::Cancelled) {
        front.inflight.call_off(&caller, params.cancelled()?.request_id);
    }
    Ok(Answer::Accepted)
}

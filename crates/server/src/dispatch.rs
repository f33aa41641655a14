//! From bytes to the method that answers them.
//!
//! One thing is left out on purpose. A modern request that declares only the legacy `tasks` capability could be let at tasks which
//! it created as a legacy client (C-12): the shape of that answer is defined nowhere, no client is known to ask, and −32021 names
//! what to declare. So the gate is the same for everyone.

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

impl Incoming<'_> {
    fn caller(&self, front: &Front, era: &Era<'_>) -> Caller {
        Caller::new(era, front.principal.clone(), self.session.as_ref(), self.takes_stream)
    }
}

/// Answers one message.
pub(crate) async fn dispatch(front: &Arc<Front>, incoming: &Incoming<'_>) -> Answer {
    match Message::parse(incoming.bytes) {
        Err(Refusal { id, error }) => Answer::error(id, &error),
        Ok(Message::Request(request)) => {
            let id = request.id;
            request_answer(front, &request, incoming)
                .await
                .unwrap_or_else(|error| Answer::error(Some(id), &error))
        }
        Ok(Message::Notification(notification)) => accept(front, &notification, incoming).unwrap_or_else(unaccepted),
        Ok(Message::Response(_)) => accept_response(incoming).unwrap_or_else(unaccepted),
    }
}

/// Refuses a message for what surrounds it, with the id that is in it, if it is a sound one.
pub(crate) fn refuse_message(bytes: &[u8], error: &RpcError) -> Answer {
    let id = match Message::parse(bytes) {
        Ok(Message::Request(request)) => Some(request.id),
        Ok(Message::Notification(_) | Message::Response(_)) => None,
        Err(Refusal { id, .. }) => id,
    };
    Answer::error(id, error)
}

/// What wants no answer and is refused all the same has a status of its own: 200 would read as accepted (T-04).
fn unaccepted(error: RpcError) -> Answer {
    let error = if error.status() < 400 {
        error.with_status(400)
    } else {
        error
    };
    Answer::error(None, &error)
}

async fn request_answer(
    front: &Arc<Front>,
    request: &Request<'_>,
    incoming: &Incoming<'_>,
) -> Result<Answer, RpcError> {
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
    let caller = incoming.caller(front, &era);
    let call = Call {
        id: request.id,
        params,
        meta,
        caller,
    };
    method::answer(front, method, &call).await
}

/// A request on its way to its method.
pub(crate) struct Call<'a> {
    pub(crate) id: longhaul_wire::RequestId<'a>,
    pub(crate) params: Params<'a>,
    pub(crate) meta: longhaul_wire::Meta<'a>,
    pub(crate) caller: Caller,
}

/// Takes a response. We ask nothing yet, so a session's is for a question that nobody remembers; without one there cannot have been
/// a question, and a modern client must not even try (T-22).
fn accept_response(incoming: &Incoming<'_>) -> Result<Answer, RpcError> {
    match incoming.peer {
        Peer::Http {
            session: longhaul_wire::Session::Gone,
            ..
        } => Err(RpcError::session_not_found()),
        _ if incoming.session.is_some() => Ok(Answer::Accepted),
        _ => Err(RpcError::invalid_request("No response is awaited here")),
    }
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
fn accept(front: &Front, notification: &Notification<'_>, incoming: &Incoming<'_>) -> Result<Answer, RpcError> {
    let params = Params::read(notification.params)?;
    let era = decide(Some(&notification.method), &params.meta()?, &incoming.peer)?;
    let caller = incoming.caller(front, &era);
    // Over HTTP a modern client calls a request off by leaving; it has no notification for it (T-34, T-36).
    let legacy = matches!(era, Era::Legacy(_));
    if legacy && Method::parse(&notification.method, Generation::Legacy) == Some(Method::Cancelled) {
        front.inflight.call_off(&caller, params.cancelled()?.request_id);
    }
    Ok(Answer::Accepted)
}

//! From bytes to the method that answers them.

mod custom;

use crate::{
    admission::caller::{Caller, Reach},
    methods,
    response::Answer,
    session::{Session, replies},
    transport::front::Front,
};
use longhaul_core::beginning;
use longhaul_wire::{
    AdmissionRules, Admitted, Era, Generation, Message, Method, Params, Rejection, Request, RpcError, Transport, admit,
    admit_custom, detect_era,
    jsonrpc::{Notification, Response},
};
use std::sync::Arc;
use tracing::debug;

/// Bytes of a method's name that the log shows.
const LONGEST_METHOD: usize = 100;

/// One message, with what surrounds it.
pub(crate) struct Incoming<'a> {
    /// The message.
    pub(crate) bytes: &'a [u8],
    /// What carries it.
    pub(crate) peer: Transport<'a>,
    /// The live session its id came to, if it has one.
    pub(crate) session: Option<Session>,
    /// Whether its sender takes a stream of events as an answer.
    pub(crate) takes_stream: bool,
    /// Who may have sent it.
    pub(crate) reach: Reach,
}

impl Incoming<'_> {
    fn caller(&self, front: &Front, era: &Era<'_>) -> Caller {
        Caller::new(
            era,
            front.principal.clone(),
            self.session.as_ref(),
            self.takes_stream,
            self.reach,
        )
    }
}

/// Answers one message.
pub(crate) async fn dispatch(front: &Arc<Front>, incoming: &Incoming<'_>) -> Answer {
    match Message::parse(incoming.bytes) {
        Err(Rejection { id, error }) => Answer::error(id, &error),
        Ok(Message::Request(request)) => {
            debug!(
                method = beginning(&request.method, LONGEST_METHOD),
                session = incoming.session.is_some(),
                "request"
            );
            let id = request.id;
            request_answer(front, &request, incoming)
                .await
                .unwrap_or_else(|error| Answer::error(Some(id), &error))
        }
        Ok(Message::Notification(notification)) => {
            debug!(method = beginning(&notification.method, LONGEST_METHOD), "notification");
            accept(front, &notification, incoming).unwrap_or_else(unaccepted)
        }
        Ok(Message::Response(response)) => accept_response(front, &response, incoming)
            .await
            .unwrap_or_else(unaccepted),
    }
}

/// Refuses a message for what surrounds it, with the id that is in it, if it is a sound one.
pub(crate) fn refuse_message(bytes: &[u8], error: &RpcError) -> Answer {
    let id = match Message::parse(bytes) {
        Ok(Message::Request(request)) => Some(request.id),
        Ok(Message::Notification(_) | Message::Response(_)) => None,
        Err(Rejection { id, .. }) => id,
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
    if let Some(own) = front.engine.catalog().method(&request.method) {
        let (era, params, meta) = admit_custom(request, &incoming.peer)?;
        let call = call(front, request, incoming, &era, params, meta);
        return custom::answer(front, &call, own, request.params);
    }
    let rules = AdmissionRules {
        strict_headers: front.strict_headers,
        serves,
    };
    let Admitted {
        era,
        method,
        params,
        meta,
    } = admit(request, &incoming.peer, &rules)?;
    let call = call(front, request, incoming, &era, params, meta);
    methods::answer(front, method, &call).await
}

/// An admitted request with its caller.
fn call<'a>(
    front: &Front,
    request: &Request<'a>,
    incoming: &'a Incoming<'_>,
    era: &Era<'_>,
    params: Params<'a>,
    meta: longhaul_wire::Meta<'a>,
) -> Call<'a> {
    Call {
        id: request.id,
        params,
        meta,
        headers: incoming.peer.headers(),
        caller: incoming.caller(front, era),
    }
}

/// A request on its way to its method.
pub(crate) struct Call<'a> {
    pub(crate) id: longhaul_wire::RequestId<'a>,
    pub(crate) params: Params<'a>,
    pub(crate) meta: longhaul_wire::Meta<'a>,
    /// Those of its HTTP request.
    pub(crate) headers: Option<&'a longhaul_wire::Headers<'a>>,
    pub(crate) caller: Caller,
}

/// Takes a response to a request of ours. Only sessions are asked anything, and a modern client must not even try (T-22).
async fn accept_response(
    front: &Arc<Front>,
    response: &Response<'_>,
    incoming: &Incoming<'_>,
) -> Result<Answer, RpcError> {
    match (&incoming.session, &incoming.peer) {
        (Some(session), _) => replies::accept(front, session, response).await,
        (
            None,
            Transport::Http {
                session: longhaul_wire::SessionState::Gone,
                ..
            },
        ) => Err(RpcError::session_not_found()),
        (None, _) => Err(RpcError::invalid_request("No response is awaited here")),
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
            | Method::ResourcesSubscribe
            | Method::ResourcesUnsubscribe
            | Method::LoggingSetLevel
            | Method::SubscriptionsListen
            | Method::PromptsList
            | Method::PromptsGet
            | Method::CompletionComplete
    )
}

/// Takes a notification. Unknown ones are accepted: nobody waits for an answer, and a later revision may have meant them kindly.
fn accept(front: &Front, notification: &Notification<'_>, incoming: &Incoming<'_>) -> Result<Answer, RpcError> {
    let params = Params::read(notification.params)?;
    let era = detect_era(Some(&notification.method), &params.meta()?, &incoming.peer)?;
    let caller = incoming.caller(front, &era);
    // Over HTTP a modern client calls a request off by leaving; it has no notification for it (T-34, T-36).
    let legacy = matches!(era, Era::Legacy(_));
    if legacy && Method::parse(&notification.method, Generation::Legacy) == Some(Method::Cancelled) {
        front.inflight.call_off(&caller, params.cancelled()?.request_id);
    }
    Ok(Answer::Accepted)
}

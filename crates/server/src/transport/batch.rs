//! Batches of sessions of 2025-03-26 (its transports page, "Sending Messages to the Server"): the only revision that has them, so no
//! other message may be one.
//!
//! Each message of a batch is counted against the rates and dispatched by itself, in order. The responses come together: as one array,
//! or on one stream if any of them has to be waited for and the client takes one.

use crate::{
    admission::limits::{Busy, Reservation},
    dispatch::{IncomingMessage, refuse_message},
    response::{
        Answer,
        resumption::Resumption,
        stream::{self, Text, send_answer},
    },
    session::Session,
    transport::protocol_server::ProtocolServer,
};
use futures_util::future::join_all;
use longhaul_core::Principal;
use longhaul_wire::{Batch, Message, Method, Request, RpcError, Version};
use std::sync::Arc;

/// Whether this is a batch of a session that may send one. Anything else is read, and a batch refused, as a single message.
pub(crate) fn is_taken(bytes: &[u8], session: Option<&Session>) -> bool {
    session.is_some_and(|session| session.version == Version::V2025_03_26) && Batch::is_batch(bytes)
}

/// Why a request may not be part of a batch, if so.
pub(crate) fn refusal(request: &Request<'_>) -> Option<RpcError> {
    if request.method == Method::Initialize.as_str() {
        return Some(RpcError::invalid_request(
            "initialize cannot be part of a batch: send it by itself",
        ));
    }
    is_modern(request)
        .then(|| RpcError::invalid_request("Revisions after 2025-03-26 have no batches: send the request by itself"))
}

/// Whether the request is a modern one: its `_meta` names a protocol version.
pub(crate) fn is_modern(request: &Request<'_>) -> bool {
    let meta = request.params().and_then(|params| params.meta());
    meta.is_ok_and(|meta| matches!(meta.protocol_version(), Ok(Some(_))))
}

/// Counts a message against the rate limits. A request over the limit is refused; a message without a response is not lost, but
/// waits.
pub(crate) async fn count(protocol: &ProtocolServer, principal: &Principal, message: &[u8]) -> Result<(), Busy> {
    while let Err(busy) = protocol.admission.meter.message(principal) {
        if matches!(Message::parse(message), Ok(Message::Request(_))) {
            return Err(busy);
        }
        protocol.engine.ports().clock.sleep(busy.wait()).await;
    }
    Ok(())
}

/// The responses as one array, with their memory.
pub(crate) fn array(responses: Vec<Text>) -> Text {
    let length: usize = responses.iter().map(|response| response.text.len() + 1).sum();
    let (mut text, mut reservation) = (String::with_capacity(length + 2), None::<Reservation>);
    for response in responses {
        text.push(if text.is_empty() { '[' } else { ',' });
        text.push_str(&response.text);
        match (&mut reservation, response.reservation) {
            (Some(reservation), Some(more)) => reservation.join(more),
            (None, first) => reservation = first,
            (Some(_), None) => {}
        }
    }
    text.push(']');
    Text { text, reservation }
}

/// Answers a batch that came over HTTP. Its first message has been counted with the request that carried it.
pub(crate) async fn answer_batch(protocol: &Arc<ProtocolServer>, incoming: &IncomingMessage<'_>) -> Answer {
    let batch = match Batch::parse(incoming.bytes) {
        Ok(batch) => batch,
        Err(error) => return Answer::error(None, &error),
    };
    let (mut pending, mut unaccepted) = (Vec::new(), None);
    for (nth, member) in batch.members().enumerate() {
        match one(protocol, incoming, member, nth == 0).await {
            Member::WithResponse(answer) => pending.push(answer),
            Member::WithoutResponse(Answer::Accepted) => {}
            Member::WithoutResponse(refused) => unaccepted = Some(refused),
        }
    }
    if pending.is_empty() {
        // Without requests the answer only shows whether the messages were accepted.
        return unaccepted.unwrap_or(Answer::Accepted);
    }
    let ready = pending.iter().all(|answer| {
        matches!(
            answer,
            Answer::Message { .. } | Answer::Challenge { .. } | Answer::Accepted
        )
    });
    if incoming.takes_stream && !ready {
        let requests = batch.members().filter_map(|member| match Message::parse(member) {
            Ok(Message::Request(request)) => Some(request.id),
            _ => None,
        });
        let resumption = Some(Resumption::fail(requests));
        return Answer::Stream(
            stream::events(protocol.engine.ports(), |sink| async move {
                join_all(pending.into_iter().map(|answer| send_answer(answer, &sink))).await;
            })
            .resumed_by(resumption),
        );
    }
    let together = async {
        let responses = join_all(pending.into_iter().map(response)).await;
        let responses: Vec<Text> = responses.into_iter().flatten().collect();
        match responses.is_empty() {
            // All were cancelled.
            true => Answer::Accepted,
            false => Answer::Message {
                status: 200,
                retry_after: None,
                text: array(responses),
            },
        }
    };
    match ready {
        true => together.await,
        false => Answer::Later(Box::pin(together)),
    }
}

/// What comes back for a message of a batch.
enum Member {
    /// It is a request, or not a valid message: its sender gets a response.
    WithResponse(Answer),
    /// It is a notification or a response.
    WithoutResponse(Answer),
}

async fn one(
    protocol: &Arc<ProtocolServer>,
    incoming: &IncomingMessage<'_>,
    member: &[u8],
    is_counted: bool,
) -> Member {
    let read = Message::parse(member);
    let counted = match is_counted {
        true => Ok(()),
        false => count(protocol, incoming.identity.principal(), member).await,
    };
    let refused = match &read {
        Ok(Message::Request(request)) => refusal(request),
        _ => None,
    };
    let answer = match (counted, refused) {
        (Err(busy), _) => refuse_message(member, &busy.into()),
        (Ok(()), Some(error)) => refuse_message(member, &error),
        (Ok(()), None) => {
            let incoming = IncomingMessage {
                bytes: member,
                transport: incoming.transport.clone(),
                session: incoming.session.clone(),
                ..*incoming
            };
            let answer = protocol.dispatcher.dispatch(&incoming).await;
            answer.with_memory_reserved(&protocol.admission.memory, |error| refuse_message(member, error))
        }
    };
    match read {
        Ok(Message::Notification(_) | Message::Response(_)) => Member::WithoutResponse(answer),
        Ok(Message::Request(_)) | Err(_) => Member::WithResponse(answer),
    }
}

/// The response of an answer, for a client that takes no stream; `None` if the request was cancelled.
async fn response(mut answer: Answer) -> Option<Text> {
    loop {
        answer = match answer {
            Answer::Later(later) => later.await,
            Answer::Message { text, .. } => return Some(text),
            Answer::Session { text, .. } | Answer::Challenge { text, .. } => return Some(text.into()),
            // A client that takes no stream is not answered with one.
            Answer::Accepted | Answer::Stream(_) => return None,
        }
    }
}

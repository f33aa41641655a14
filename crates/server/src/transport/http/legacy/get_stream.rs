//! GET (legacy): a stream for messages that belong to no request, or the rest of one that broke off.

use super::replay::{EventId, NotKept, ReplayBuffer, StreamKind, TooManyStreams, event, is_push, tells_of_resources};
use crate::{
    admission::{identity::Identity, limits::StreamPermit, permissions::Permissions},
    dispatch::{IncomingMessage, permission},
    interaction::legacy::{push_stream, push_streams::PushChannel},
    response::{
        Answer, answer_lost,
        resumption::Resumption,
        stream::{self, Events, send_answer},
    },
    session::Session,
    transport::{
        http::response::{Response, event_stream, response},
        protocol_server::ProtocolServer,
    },
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use longhaul_core::KeptEvent;
use longhaul_wire::{Headers, MessageTransport, RequestId, RpcError};
use serde_json::value::RawValue;
use std::sync::Arc;

/// Ends the streams of a session that was ended while one of them was opened: ending the session did not find that one.
pub(crate) async fn end_if_ended(protocol: &ProtocolServer, session: &Session) {
    // On a failed read the stream goes on as if the session had not ended.
    if protocol
        .engine
        .store()
        .session_ended(&session.key)
        .await
        .unwrap_or_default()
    {
        protocol.http.replay_buffers.end_session(session).await;
    }
}

/// The refusal of a reader who lacks some of what a stream needs.
///
/// Whoever may read a stream may read what is replayed of it: both are decided here, when the stream is opened and when it is resumed. A push stream needs
/// what `tasks/get` needs, and tells of resources only whoever may read them; a stream that does is resumed by nobody else. An answer may have told anything that its sender may read, so it is only replayed to whoever has all permissions of
/// that sender. They are not known of an answer that an earlier process began: it needs all there are.
pub(crate) fn refused(protocol: &ProtocolServer, identity: &Identity, needs: &Permissions) -> Option<Response> {
    let missing = identity.permissions().lacks(needs);
    let refusal = permission::refuse_stream(&protocol.interaction, identity, &missing)?;
    Some(response(protocol, refusal))
}

/// Opens a push stream of `kind` for `session`.
pub(crate) async fn open(
    protocol: &Arc<ProtocolServer>,
    session: &Session,
    kind: StreamKind,
) -> Result<Response, RpcError> {
    let permit = protocol.admission.meter.stream(&session.principal)?;
    let resources = kind
        == StreamKind::Push {
            tells_of_resources: true,
        };
    let events = push_stream::open(&protocol.interaction, session, (PushChannel::Dedicated, resources));
    let buffer = protocol
        .http
        .replay_buffers
        .begin(session, events, kind)
        .map_err(|TooManyStreams { busy, .. }| busy)?;
    end_if_ended(protocol, session).await;
    read(protocol, &buffer, 0, permit)
}

/// Resumes the stream that `last_event` belongs to, after that event.
///
/// A push stream that is not kept, because it was at another node or in an earlier process, is opened anew: clients ask again with the same event id when they are refused, and give up
/// after a few times. Then nothing would reach them any more. On a new stream the questions of their tasks are asked again.
pub(crate) async fn resume(
    protocol: &Arc<ProtocolServer>,
    (identity, session): (&Arc<Identity>, &Session),
    last_event: &[u8],
) -> Result<Response, RpcError> {
    let id = std::str::from_utf8(last_event).ok().and_then(EventId::parse);
    let id = id.ok_or_else(not_kept)?;
    if let Some(resumed) = resume_kept(protocol, (identity, session), &id).await? {
        return Ok(resumed);
    }
    if !is_push(id.stream) {
        return Err(not_kept());
    }
    let kind = StreamKind::push_for(identity.permissions());
    match refused(protocol, identity, &kind.needs()) {
        Some(refused) => Ok(refused),
        None => open(protocol, session, kind).await,
    }
}

/// As [`resume`]; `None` if not all that comes after the event is kept.
async fn resume_kept(
    protocol: &Arc<ProtocolServer>,
    (identity, session): (&Arc<Identity>, &Session),
    &EventId { stream, nth }: &EventId<'_>,
) -> Result<Option<Response>, RpcError> {
    let permit = protocol.admission.meter.stream(&session.principal)?;
    let replay_buffers = &protocol.http.replay_buffers;
    if let Some(buffer) = replay_buffers.find(session, stream) {
        if let Some(refused) = refused(protocol, identity, buffer.needs()) {
            return Ok(Some(refused));
        }
        let first = buffer.first();
        if nth + 1 >= first {
            return read(protocol, &buffer, nth + 1, permit).map(Some);
        }
        let Some(mut missed) = replay_buffers.kept_after(&session.key, stream, nth).await else {
            return Ok(None);
        };
        missed.retain(|event| event.nth < first);
        if missed.last().is_none_or(|last| last.nth + 1 < first) {
            return Ok(None);
        }
        return followed_by(protocol, stream, &missed, (&buffer, first), permit).map(Some);
    }
    if let Some(missed) = replay_buffers.kept_after(&session.key, stream, nth).await {
        let kind = match is_push(stream) {
            true => StreamKind::Push {
                tells_of_resources: tells_of_resources(stream),
            },
            false => StreamKind::Answer(Permissions::all()),
        };
        if let Some(refused) = refused(protocol, identity, &kind.needs()) {
            return Ok(Some(refused));
        }
        // A client that has the end of an answer, and not the response, resumes again.
        if is_push(stream) || !missed.is_empty() {
            return go_on(protocol, session, (stream, nth), missed, permit).await.map(Some);
        }
    }
    if is_push(stream) {
        return Ok(None);
    }
    match answer_anew(protocol, (identity, session), stream, nth + 1).await? {
        Anew::Going(buffer) => read(protocol, &buffer, nth + 1, permit).map(Some),
        Anew::Refused(refusal) => Ok(Some(response(protocol, refusal))),
    }
}

/// Continues a stream of an earlier process with the events that the client has missed. A push stream then goes on; the request of any other
/// has ended with its process.
async fn go_on(
    protocol: &Arc<ProtocolServer>,
    session: &Session,
    (stream, nth): (&str, u64),
    missed: Vec<KeptEvent>,
    permit: StreamPermit,
) -> Result<Response, RpcError> {
    if !is_push(stream) {
        return Ok(event_stream(sent_again(stream, &missed)));
    }
    let last = missed.last().map_or(nth, |event| event.nth);
    let tells_of_resources = tells_of_resources(stream);
    let channel = (PushChannel::Dedicated, tells_of_resources);
    let events = push_stream::open(&protocol.interaction, session, channel);
    let buffer = protocol
        .http
        .replay_buffers
        .begin_again(
            session,
            events,
            (stream, last + 1),
            StreamKind::Push { tells_of_resources },
        )
        .map_err(|TooManyStreams { busy, .. }| busy)?;
    end_if_ended(protocol, session).await;
    followed_by(protocol, stream, &missed, (&buffer, last + 1), permit)
}

/// Events of a stream, and then what its buffer has from the event `next` on.
fn followed_by(
    protocol: &ProtocolServer,
    stream: &str,
    missed: &[KeptEvent],
    (buffer, next): (&Arc<ReplayBuffer>, u64),
    permit: StreamPermit,
) -> Result<Response, RpcError> {
    let reader = buffer.read(next, &protocol.engine.ports().clock);
    let rest = reader.map_err(|NotKept| not_kept())?.events();
    let events = sent_again(stream, missed).chain(rest);
    Ok(event_stream(counted(events, Some(permit))))
}

fn sent_again(stream: &str, events: &[KeptEvent]) -> impl Stream<Item = Bytes> + Send + use<> {
    let events: Vec<Bytes> = events.iter().map(|kept| event(stream, kept)).collect();
    futures_util::stream::iter(events)
}

fn read(
    protocol: &ProtocolServer,
    buffer: &Arc<ReplayBuffer>,
    next: u64,
    permit: StreamPermit,
) -> Result<Response, RpcError> {
    let reader = buffer.read(next, &protocol.engine.ports().clock);
    let events = reader.map_err(|NotKept| not_kept())?.events();
    Ok(event_stream(counted(events, Some(permit))))
}

/// The events of a reader, whose permit is released when the connection has read everything, or closes.
pub(crate) fn counted(
    events: impl Stream<Item = Bytes> + Send,
    permit: Option<StreamPermit>,
) -> impl Stream<Item = Bytes> + Send {
    events.inspect(move |_| {
        let _held = &permit;
    })
}

/// What became of a stream whose requests are answered anew.
enum Anew {
    Going(Arc<ReplayBuffer>),
    /// Its sender may not make the request any more.
    Refused(Answer),
}

/// Answers the requests of a stream that an earlier process started, or that was dropped here, if its name says how: clients of which a request is
/// open wait for its response until their own time limit when resuming is refused.
async fn answer_anew(
    protocol: &Arc<ProtocolServer>,
    (identity, session): (&Arc<Identity>, &Session),
    stream: &str,
    first: u64,
) -> Result<Anew, RpcError> {
    let resumption = protocol.http.replay_buffers.resumption_of(session, stream);
    let (request, call) = match resumption.ok_or_else(not_kept)? {
        Resumption::Repeat(request) => (request, None),
        Resumption::Rejoin { call, request } => (request, Some(call)),
        Resumption::Fail(ids) => {
            let events = stream::events(protocol.engine.ports(), |sink| async move {
                for failed in lost(&ids) {
                    // Nothing more is sent to a client that has left.
                    let _ = sink.message(failed).await;
                }
            });
            return begin_again(protocol, (identity, session), events, (stream, first)).await;
        }
    };
    let (front_of_work, identity_of_work, session_of_work) =
        (Arc::clone(protocol), Arc::clone(identity), session.clone());
    let answer = protocol.engine.ports().run_to_completion(async move {
        let incoming = IncomingMessage {
            bytes: request.as_bytes(),
            transport: MessageTransport::Http {
                headers: Headers::default(),
                session: longhaul_wire::SessionState::Live(session_of_work.version),
                sessionless: false,
            },
            session: Some(session_of_work),
            takes_stream: true,
            identity: &identity_of_work,
            mode: front_of_work.http.mode,
            address: None,
            resumed_call: call.as_ref(),
        };
        front_of_work.dispatcher.dispatch(&incoming).await
    });
    let events = match answer.await {
        // Its reader has a permit.
        Answer::Stream(events) => events.with_permit(None),
        refusal @ Answer::Challenge { .. } => return Ok(Anew::Refused(refusal)),
        // The client sees at once that its stream goes on.
        answer => stream::events(protocol.engine.ports(), |sink| async move {
            send_answer(answer, &sink).await;
        }),
    };
    begin_again(protocol, (identity, session), events, (stream, first)).await
}

async fn begin_again(
    protocol: &Arc<ProtocolServer>,
    (identity, session): (&Arc<Identity>, &Session),
    events: Events,
    (stream, first): (&str, u64),
) -> Result<Anew, RpcError> {
    let kind = StreamKind::Answer(identity.permissions().clone());
    let buffer = protocol
        .http
        .replay_buffers
        .begin_again(session, events, (stream, first), kind)
        .map_err(|TooManyStreams { busy, .. }| busy)?;
    end_if_ended(protocol, session).await;
    Ok(Anew::Going(buffer))
}

/// The responses to requests whose answers are lost.
fn lost(ids: &str) -> Vec<String> {
    let ids: Vec<Box<RawValue>> = serde_json::from_str(&format!("[{ids}]")).unwrap_or_default();
    let ids = ids.iter().filter_map(|id| RequestId::from_raw(id));
    ids.map(|id| {
        let mut text = String::new();
        answer_lost().write_response(&mut text, Some(id));
        text
    })
    .collect()
}

/// Not 404, which would mean that the session has ended.
fn not_kept() -> RpcError {
    RpcError::invalid_request(
        "Last-Event-ID names no event of this session that is still kept: ask again, or open a stream without it",
    )
}

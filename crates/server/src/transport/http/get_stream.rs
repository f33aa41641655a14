//! GET (legacy): a stream for messages that belong to no request (T-09), or the rest of one that broke off (T-11).

use super::{
    replay::{EventId, Kind, MOST_OF_ONE, NotKept, ReplayBuffer, TooMany},
    response::{event_stream, recorded},
};
use crate::{
    admission::{
        caller::Reach,
        limits::{Busy, Full, StreamPermit},
    },
    dispatch::Incoming,
    interaction::push::{session_stream, streams::Wire},
    response::{Answer, stream},
    session::Session,
    transport::front::Front,
};
use axum::response::Response;
use futures_util::StreamExt;
use longhaul_wire::{Headers, RpcError, Transport};
use std::sync::Arc;

/// Opens a stream for what is to be said to `session`.
pub(super) fn open(front: &Arc<Front>, session: &Session) -> Result<Response, RpcError> {
    let permit = front.admission.meter.stream(&session.principal)?;
    let events = session_stream::open(&front.interaction, session, Wire::Own);
    let recording = front
        .http
        .replay_buffers
        .begin(session, events, Kind::Push)
        .map_err(|TooMany(_)| too_many())?;
    read(front, &recording, 0, permit)
}

/// Goes on with the stream that `last_event` is of, after that event.
pub(super) async fn resume(front: &Arc<Front>, session: &Session, last_event: &[u8]) -> Result<Response, RpcError> {
    let permit = front.admission.meter.stream(&session.principal)?;
    let id = std::str::from_utf8(last_event).ok().and_then(EventId::parse);
    let EventId { stream, nth } = id.ok_or_else(not_kept)?;
    let recording = match front.http.replay_buffers.find(&session.key, stream) {
        Some(recording) => recording,
        None => ask_again(front, session, stream, nth + 1).await?,
    };
    read(front, &recording, nth + 1, permit)
}

fn read(front: &Front, recording: &Arc<ReplayBuffer>, next: u64, permit: StreamPermit) -> Result<Response, RpcError> {
    let reader = recording.read(next, &front.engine.ports().clock);
    let events = recorded(reader.map_err(|NotKept| not_kept())?);
    // The place is given back when the connection has what it reads, or leaves.
    Ok(event_stream(events.inspect(move |_| {
        let _held = &permit;
    })))
}

/// Finds the answer of a stream that an earlier process began, or that was dropped here, if its name says how.
async fn ask_again(
    front: &Arc<Front>,
    session: &Session,
    stream: &str,
    first: u64,
) -> Result<Arc<ReplayBuffer>, RpcError> {
    let request = front
        .http
        .replay_buffers
        .request_of(session, stream)
        .ok_or_else(not_kept)?;
    let incoming = Incoming {
        bytes: request.as_bytes(),
        peer: Transport::Http {
            headers: Headers::default(),
            session: longhaul_wire::SessionState::Live(session.version),
            sessionless: false,
        },
        session: Some(session.clone()),
        takes_stream: true,
        reach: Reach::Anyone,
    };
    let answer = front.dispatcher.dispatch(&incoming).await.settled().await;
    let events = match answer {
        Answer::Stream(events) => events,
        Answer::Message { text, .. } => stream::events(front.engine.ports(), |sink| async move {
            // Whoever has gone is told no more.
            let _ = sink.message(text).await;
        }),
        _ => return Err(not_kept()),
    };
    front
        .http
        .replay_buffers
        .begin_again(session, events, stream, first)
        .map_err(|TooMany(_)| too_many())
}

/// Not 404: that would tell the client that its session is gone (T-13).
fn not_kept() -> RpcError {
    RpcError::invalid_request(
        "Last-Event-ID names no event of this session that is still kept: ask again, or open a stream without it",
    )
}

fn too_many() -> RpcError {
    Busy::Streams(Full::OfOne(MOST_OF_ONE)).into()
}

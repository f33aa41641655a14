//! Answers as HTTP responses.

use super::connection::AcceptedRequest;
use crate::{
    admission::{
        access::AccessRefusal,
        authenticator::{Denied, ENDED},
        identity::Identity,
        limits::{ConnectionPermit, Reservation},
    },
    response::{
        Answer,
        stream::{Events, Frame, Text, held},
    },
    transport::protocol_server::ProtocolServer,
};
use axum::body::Body;
use bytes::Bytes;
use futures_util::{Stream, stream};
use http::{HeaderValue, StatusCode, header};
use longhaul_core::BoxFuture;
use longhaul_wire::{RpcError, sse};
use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// An HTTP response of the endpoint.
pub(super) type Response = http::Response<ResponseBody>;

const SESSION_ID: &str = "mcp-session-id";
/// Answers are about the present moment; no cache may keep one.
pub(super) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The response to a request whose sender is not known: it tells nothing else.
pub(super) fn denied(protocol: &ProtocolServer, refused: &AccessRefusal) -> Response {
    let denied = match refused {
        AccessRefusal::Busy(busy) => return refuse(protocol, &busy.clone().into()),
        AccessRefusal::Denied(denied) => denied,
    };
    let mut response = match denied {
        Denied::Unavailable { retry_after }
        | Denied::Undecided { retry_after }
        | Denied::PeerUnavailable { retry_after } => {
            let mut response = empty(StatusCode::SERVICE_UNAVAILABLE);
            let seconds = retry_after.as_millis().div_ceil(1000).max(1);
            let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            if let Denied::PeerUnavailable { .. } = denied {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            response
        }
        _ => {
            let mut response = empty(StatusCode::UNAUTHORIZED);
            let challenge = protocol.admission.access.challenge(denied);
            if let Ok(challenge) = HeaderValue::try_from(challenge) {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            }
            response
        }
    };
    response.headers_mut().insert(header::CACHE_CONTROL, NO_STORE);
    response
}

/// The response to a request whose sender's credentials have ended while its body was read, which may last 30 s.
pub(super) fn denied_by_now(protocol: &ProtocolServer, identity: &Identity) -> Option<Response> {
    let clock = &protocol.engine.ports().clock;
    identity.has_ended(clock.wall()).then(|| {
        let ended = Denied::ended_of(identity.principal(), ENDED);
        denied(protocol, &AccessRefusal::Denied(ended))
    })
}

/// The response with a settled answer.
pub(super) fn response(protocol: &ProtocolServer, answer: Answer) -> Response {
    match answer {
        Answer::Message {
            status,
            retry_after,
            text,
        } => {
            let mut response = json(status, text);
            if let Some(seconds) = retry_after {
                response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            }
            response
        }
        Answer::Session { text, session } => {
            let mut response = json(200, text.into());
            if protocol.http.mode.sessions
                && let Ok(id) = HeaderValue::try_from(session.to_id(&protocol.sessions.ids))
            {
                response.headers_mut().insert(SESSION_ID, id);
            }
            response
        }
        Answer::Challenge {
            status,
            challenge,
            text,
        } => {
            let mut response = json(status, text.into());
            if let Ok(challenge) = HeaderValue::try_from(&*challenge) {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            }
            response
        }
        Answer::Accepted => empty(StatusCode::ACCEPTED),
        Answer::Stream(events) => event_stream(frames(events)),
        Answer::Later(_) => unreachable!("it was waited for"),
    }
}

/// The response with an error that belongs to no message.
pub(super) fn refuse(protocol: &ProtocolServer, error: &RpcError) -> Response {
    response(protocol, Answer::error(None, error))
}

fn json(status: u16, text: Text) -> Response {
    let mut response = Response::new(ResponseBody::whole(text.into_bytes()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    response
}

pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(ResponseBody::whole(Bytes::new()));
    *response.status_mut() = status;
    response
}

pub(super) fn method_not_allowed(allowed: &'static str) -> Response {
    let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
    let allowed = HeaderValue::from_static(allowed);
    response.headers_mut().insert(header::ALLOW, allowed);
    response
}

/// A stream that ends for good with its connection.
pub(super) fn frames(events: Events) -> impl Stream<Item = Bytes> + Send + 'static {
    stream::unfold(events, |mut events| async move {
        let frame = events.next().await?;
        Some((event(frame), events))
    })
}

/// The response with a stream, which ends when its reader's credentials expire or are revoked.
pub(super) fn ended_with(protocol: &ProtocolServer, identity: &Arc<Identity>, mut response: Response) -> Response {
    if identity.can_end() {
        let (identity, clock) = (Arc::clone(identity), Arc::clone(&protocol.engine.ports().clock));
        response.body_mut().until = Some(Box::pin(async move { identity.ended(&*clock).await }));
    }
    response
}

/// The response with a stream that can be resumed, which disconnects its reader when the reader's credentials are revoked. When they expire it goes on:
/// what it answers was admitted.
pub(super) fn cut_when_revoked(identity: &Arc<Identity>, mut response: Response) -> Response {
    if identity.can_be_revoked() {
        let identity = Arc::clone(identity);
        response.body_mut().until = Some(Box::pin(async move { identity.revoked().await }));
    }
    response
}

/// The response, which releases the reservation when its body was sent or dropped.
pub(super) fn held_with(mut response: Response, reservation: Option<Reservation>) -> Response {
    response.body_mut().reservation = reservation;
    response
}

/// The response, which counts as a connection of its client, and as one to somebody known, until its body was sent or dropped.
pub(super) fn counted_with(
    mut response: Response,
    permit: Option<ConnectionPermit>,
    accepted: Option<AcceptedRequest>,
) -> Response {
    let body = response.body_mut();
    (body.permit, body.accepted) = (permit, accepted);
    response
}

/// The response of an application, which counts as one to somebody known until its body was sent or dropped.
pub(super) fn accepted_with(mut response: Response, accepted: AcceptedRequest) -> Response {
    response.body_mut().accepted = Some(accepted);
    response
}

/// The body of a response, and the memory reserved for its request.
pub(super) struct ResponseBody {
    content: Content,
    reservation: Option<Reservation>,
    permit: Option<ConnectionPermit>,
    accepted: Option<AcceptedRequest>,
    /// Ends a stream.
    until: Option<BoxFuture<'static, ()>>,
}

enum Content {
    /// What is left of bytes that are sent at once.
    Whole(Bytes),
    Streamed(Body),
}

impl ResponseBody {
    fn whole(bytes: Bytes) -> Self {
        Self {
            content: Content::Whole(bytes),
            reservation: None,
            permit: None,
            accepted: None,
            until: None,
        }
    }
}

impl From<Body> for ResponseBody {
    fn from(body: Body) -> Self {
        Self {
            content: Content::Streamed(body),
            reservation: None,
            permit: None,
            accepted: None,
            until: None,
        }
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        if let Some(until) = &mut self.until
            && until.as_mut().poll(cx).is_ready()
        {
            // Its reader is gone for whoever writes it.
            self.content = Content::Whole(Bytes::new());
        }
        match &mut self.content {
            Content::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(http_body::Frame::data(bytes))))
            }
            Content::Streamed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Streamed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match &self.content {
            Content::Whole(bytes) => http_body::SizeHint::with_exact(bytes.len() as u64),
            Content::Streamed(body) => body.size_hint(),
        }
    }
}

/// Proxies are asked to pass events on at once.
pub(super) fn event_stream(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    use futures_util::StreamExt;
    let mut response = Response::new(Body::from_stream(events.map(Ok::<Bytes, Infallible>)).into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A frame as a server-sent event.
fn event(frame: Frame) -> Bytes {
    match frame {
        Frame::Message(Text { text, reservation }) => {
            let mut event = String::with_capacity(text.len() + 16);
            sse::SseEvent {
                data: &text,
                ..sse::SseEvent::default()
            }
            .write(&mut event);
            held(event.into(), reservation)
        }
        Frame::KeepAlive | Frame::CloseStream => Bytes::from_static(sse::KEEP_ALIVE.as_bytes()),
    }
}

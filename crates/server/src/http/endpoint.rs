//! The endpoint: HTTP around [`dispatch`].

use super::{PATH, body, place};
use crate::{
    answer::{Answer, store_failed},
    dispatch::{Incoming, dispatch, refuse_message},
    front::Front,
    session::Session,
    stream::Events,
};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::Response,
    routing::any,
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use longhaul_wire::{Generation, Headers, Peer, RpcError, Version};
use std::{convert::Infallible, sync::Arc};

const SESSION_ID: &str = "mcp-session-id";

/// The endpoint at `/mcp`, to be served by [`Listener`](super::Listener) or mounted into an application of yours.
pub fn router(front: Arc<Front>) -> Router {
    Router::new().route(PATH, any(handle)).with_state(front)
}

async fn handle(State(front): State<Arc<Front>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if let Err(misplaced) = place::check(&parts.headers, &parts.uri) {
        return refuse(&RpcError::invalid_request(misplaced.to_string()).with_status(403));
    }
    let answered = match parts.method {
        Method::POST => post(&front, &parts, body).await,
        Method::DELETE => end_session(&front, &parts).await,
        // There is no stream to open here: notifications travel with the requests they belong to.
        _ => return method_not_allowed(),
    };
    answered.unwrap_or_else(|error| refuse(&error))
}

async fn post(front: &Arc<Front>, parts: &Parts, body: Body) -> Result<Response, RpcError> {
    check_content_type(&parts.headers)?;
    // The body comes first, since every later error carries the id that is in it.
    let bytes = body::read(body, front).await?;
    let mut answer = match message(front, parts, &bytes).await {
        Ok(incoming) => dispatch(front, &incoming).await,
        Err(error) => refuse_message(&bytes, &error),
    };
    drop(bytes);
    while let Answer::Later(later) = answer {
        answer = later.await;
    }
    Ok(response(answer))
}

/// The message in `bytes`, with what its headers say around it.
async fn message<'a>(front: &Front, parts: &'a Parts, bytes: &'a [u8]) -> Result<Incoming<'a>, RpcError> {
    let headers = mcp_headers(parts)?;
    let (session, state) = find_session(front, &headers).await?;
    Ok(Incoming {
        bytes,
        peer: Peer::Http {
            headers,
            session: state,
            sessionless: true,
        },
        session,
        takes_stream: takes_stream(&parts.headers),
    })
}

fn mcp_headers(parts: &Parts) -> Result<Headers<'_>, RpcError> {
    let all = parts.headers.iter();
    Headers::collect(all.map(|(name, value)| (name.as_str(), value.as_bytes())))
}

/// A form on a web page can post `text/plain` without asking anyone; JSON it cannot.
fn check_content_type(headers: &HeaderMap) -> Result<(), RpcError> {
    let named = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = named.map(|named| named.split(';').next().unwrap_or_default().trim());
    if kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    Err(RpcError::invalid_request("Content-Type must be application/json").with_status(415))
}

fn takes_stream(headers: &HeaderMap) -> bool {
    let accepts = |value: &HeaderValue| value.to_str().is_ok_and(|value| value.contains("text/event-stream"));
    headers.get_all(header::ACCEPT).iter().any(accepts)
}

/// What the session id comes to. A modern message has no session, so its id is not even looked at (T-20).
async fn find_session(
    front: &Front,
    headers: &Headers<'_>,
) -> Result<(Option<Session>, longhaul_wire::Session), RpcError> {
    let Some(id) = headers.session_id.filter(|_| !is_modern(headers)) else {
        return Ok((None, longhaul_wire::Session::None));
    };
    match live_session(front, id).await? {
        Some(session) => {
            let state = longhaul_wire::Session::Live(session.version);
            Ok((Some(session), state))
        }
        None => Ok((None, longhaul_wire::Session::Gone)),
    }
}

fn is_modern(headers: &Headers<'_>) -> bool {
    let named = headers
        .protocol_version
        .and_then(|named| std::str::from_utf8(named).ok());
    named
        .and_then(Version::parse)
        .is_some_and(|version| version.generation() == Generation::Modern)
}

async fn live_session(front: &Front, id: &[u8]) -> Result<Option<Session>, RpcError> {
    let now = front.engine.ports().clock.now();
    let session = std::str::from_utf8(id)
        .ok()
        .and_then(|id| Session::from_id(id, &front.sessions, now));
    let Some(session) = session.filter(|session| session.principal == front.principal) else {
        return Ok(None);
    };
    let ended = front
        .engine
        .store()
        .session_ended(&session.key)
        .await
        .map_err(store_failed)?;
    Ok(Some(session).filter(|_| !ended))
}

/// DELETE ends a legacy session (T-14); modern revisions have none (T-20). Its tasks go on (T-17).
async fn end_session(front: &Front, parts: &Parts) -> Result<Response, RpcError> {
    let headers = mcp_headers(parts)?;
    let Some(id) = headers.session_id.filter(|_| !is_modern(&headers)) else {
        return Ok(method_not_allowed());
    };
    let session = live_session(front, id).await?.ok_or_else(RpcError::session_not_found)?;
    front
        .engine
        .store()
        .end_session(&session.key, session.expires_at)
        .await
        .map_err(store_failed)?;
    Ok(empty(StatusCode::NO_CONTENT))
}

fn response(answer: Answer) -> Response {
    match answer {
        Answer::Message { status, text } => json(status, text),
        Answer::Session { text, id } => {
            let mut response = json(200, text);
            if let Ok(id) = HeaderValue::try_from(id) {
                response.headers_mut().insert(SESSION_ID, id);
            }
            response
        }
        Answer::Accepted => empty(StatusCode::ACCEPTED),
        Answer::Stream(events) => event_stream(events),
        Answer::Later(_) => unreachable!("it was waited for"),
    }
}

fn refuse(error: &RpcError) -> Response {
    response(Answer::error(None, error))
}

/// Answers are about the present moment; no cache may keep one (C-50).
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

fn json(status: u16, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    response
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn method_not_allowed() -> Response {
    let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static("POST, DELETE"));
    response
}

/// Proxies are asked to pass events on at once (T-33).
fn event_stream(events: Events) -> Response {
    let body = stream::unfold(events, |mut events| async move {
        let event = events.0.recv().await?;
        Some((Ok::<Bytes, Infallible>(event), events))
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

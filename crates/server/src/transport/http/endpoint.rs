//! The endpoint: HTTP around the dispatcher.

use super::{
    MESSAGES_PATH, METADATA_PATH, PATH, SSE_PATH,
    body::{self, ReceivedBody},
    connection::{Connection, RequestConnection},
    cors,
    legacy::{
        get_stream,
        replay::{StreamKind, TooManyStreams},
        sse_pair,
    },
    response::{
        Response, counted_with, cut_when_revoked, denied, denied_by_now, empty, ended_with, event_stream, held_with,
        method_not_allowed, refuse, response,
    },
};
use crate::{
    admission::{
        access::AccessRefusal,
        authenticator::{ENDED, Peer},
        caller::TransportMode,
        identity::Identity,
        limits::Source,
    },
    audit::{AuditOutcome, Auditor},
    dispatch::{IncomingMessage, refuse_message},
    response::{Answer, store_failed, stream::Events},
    session::Session,
    transport::{batch, protocol_server::ProtocolServer},
};
use axum::{
    Router,
    extract::{Request, State},
    response::IntoResponse as _,
    routing::any,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header, request::Parts};
use http_body::Body;
use longhaul_wire::{Generation, Headers, MessageTransport, RpcError, Version};
use std::{net::IpAddr, sync::Arc};

/// The methods of the endpoint.
fn methods(mode: TransportMode) -> &'static str {
    match (mode.sessions, mode.streams) {
        (true, true) => "POST, GET, DELETE",
        (true, false) => "POST, DELETE",
        (false, _) => "POST",
    }
}

/// The endpoint at `/mcp`, to be served by [`Listener`](super::Listener) or mounted into an application of yours; with
/// [`legacy_sse`](super::HttpOptions::legacy_sse) also the pair at `/sse` and `/messages`.
pub fn router(protocol: Arc<ProtocolServer>) -> Router {
    let mut router = Router::new().route(PATH, any(mcp));
    if protocol.http.legacy_sse {
        router = router.route(SSE_PATH, any(sse)).route(MESSAGES_PATH, any(messages));
    }
    if protocol.admission.access.metadata.is_some() {
        router = router
            .route(METADATA_PATH, any(metadata))
            .route(&format!("{METADATA_PATH}/{{*path}}"), any(metadata));
    }
    router.with_state(protocol)
}

/// The metadata as a protected resource. Clients read it before they have a token, web pages too.
async fn metadata(State(protocol): State<Arc<ProtocolServer>>, request: Request) -> axum::response::Response {
    let _ = connection(&request);
    let (parts, _) = request.into_parts();
    if !has_metadata(&protocol, parts.uri.path()) {
        return elsewhere().await.into_response();
    }
    let mut response = match (
        protocol.http.allowed_hosts.check(&parts.headers, &parts.uri),
        parts.method,
    ) {
        (Err(not_allowed), _) => {
            let error = RpcError::invalid_request(not_allowed.to_string()).with_status(403);
            return refuse(&protocol, &error).map(axum::body::Body::new);
        }
        (Ok(()), Method::OPTIONS) => cors::preflight(&parts.headers, "GET, HEAD"),
        (Ok(()), Method::GET | Method::HEAD) => {
            let text = protocol.admission.access.metadata.clone().unwrap_or_default();
            response(&protocol, Answer::response(text))
        }
        (Ok(()), _) => method_not_allowed("GET, HEAD"),
    };
    cors::expose(&mut response, parts.headers.get(header::ORIGIN).cloned());
    response.map(axum::body::Body::new)
}

/// Whether the metadata is at this path below [`METADATA_PATH`]: that of an endpoint, or the one that challenges name.
fn has_metadata(protocol: &ProtocolServer, path: &str) -> bool {
    let endpoint = path.strip_prefix(METADATA_PATH).unwrap_or(path).trim_end_matches('/');
    let is_named = || {
        let named = protocol
            .admission
            .access
            .metadata_url()
            .and_then(|url| url.parse::<Uri>().ok());
        named.is_some_and(|named| named.path() == path)
    };
    endpoint.is_empty() || endpoint == PATH || (protocol.http.legacy_sse && endpoint == SSE_PATH) || is_named()
}

/// The page for a person who opens the address in a browser, and a client that was given it without the path.
pub(super) async fn elsewhere() -> (StatusCode, String) {
    (
        StatusCode::NOT_FOUND,
        format!("There is nothing here. MCP is at {PATH}\n"),
    )
}

async fn mcp(State(protocol): State<Arc<ProtocolServer>>, request: Request) -> axum::response::Response {
    let connection = connection(&request);
    answer(&protocol, &connection, request).await.map(axum::body::Body::new)
}

/// The connection, if the request came through our listener.
fn connection(request: &Request) -> Arc<Connection> {
    let ours = request.extensions().get::<RequestConnection>();
    ours.map(RequestConnection::hand_to_endpoint)
        .unwrap_or_else(|| Arc::new(Connection::new(Peer::Unknown, None)))
}

/// Answers a request for the endpoint.
pub(super) async fn answer<B: Body<Data = Bytes> + Unpin>(
    protocol: &Arc<ProtocolServer>,
    connection: &Arc<Connection>,
    request: http::Request<B>,
) -> Response {
    let mode = protocol.http.mode;
    guarded(
        protocol,
        methods(mode),
        (connection, request),
        async |protocol, identity, parts, body| match parts.method {
            Method::POST => Some(post(protocol, identity, parts, body).await),
            Method::GET if mode.sessions && mode.streams => Some(get(protocol, identity, &parts).await),
            Method::DELETE if mode.sessions => Some(end_session(protocol, identity, &parts).await),
            _ => None,
        },
    )
    .await
}

async fn sse(State(protocol): State<Arc<ProtocolServer>>, request: Request) -> axum::response::Response {
    let connection = connection(&request);
    let answer = guarded(
        &protocol,
        "GET",
        (&connection, request),
        async |protocol, identity, parts, _| {
            let kind = StreamKind::push_for(identity.permissions());
            let opened = || match get_stream::refused(protocol, identity, &kind.needs()) {
                Some(refused) => Ok(refused),
                None => Ok(ended_with(
                    protocol,
                    identity,
                    sse_pair::open(protocol, identity, &parts)?,
                )),
            };
            (parts.method == Method::GET).then(opened)
        },
    );
    answer.await.map(axum::body::Body::new)
}

async fn messages(State(protocol): State<Arc<ProtocolServer>>, request: Request) -> axum::response::Response {
    let connection = connection(&request);
    let answer = guarded(
        &protocol,
        "POST",
        (&connection, request),
        async |protocol, identity, parts, body| match parts.method {
            Method::POST => Some(match check_content_type(&parts.headers) {
                Ok(()) => sse_pair::post(protocol, identity, &parts, body).await,
                Err(wrong) => Err(wrong),
            }),
            _ => None,
        },
    );
    answer.await.map(axum::body::Body::new)
}

/// Answers a request of a known sender, with an allowed host and origin, so that an allowed web page can read the answer. `None` means that there is no such
/// method.
async fn guarded<B: Body<Data = Bytes> + Unpin>(
    protocol: &Arc<ProtocolServer>,
    methods: &'static str,
    (connection, request): (&Arc<Connection>, http::Request<B>),
    answer: impl AsyncFnOnce(&Arc<ProtocolServer>, &Arc<Identity>, Parts, B) -> Option<Result<Response, RpcError>>,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let auditor = protocol.interaction.auditor.as_ref();
    let source = connection.source(&protocol.http.trusted_proxies, &parts.headers);
    if protocol.http.keeps_addresses
        && let Some(address) = source.and_then(Source::address)
    {
        parts.extensions.insert(ClientAddress(address));
    }
    let hosts = &protocol.http.allowed_hosts;
    let allowed = match connection.peer() {
        // No name leads there that a page could take over.
        Peer::Unix { .. } => hosts.check_origin(&parts.headers),
        _ => hosts.check(&parts.headers, &parts.uri),
    };
    if let Err(not_allowed) = allowed {
        let error = RpcError::invalid_request(not_allowed.to_string()).with_status(403);
        return refuse(protocol, &error);
    }
    let permit = match (connection.of_proxy, source) {
        (Some(in_all), Some(source)) => match protocol.admission.meter.connection(source, in_all) {
            Ok(permit) => Some(permit),
            Err(busy) => {
                if let Some(auditor) = auditor {
                    auditor.denied(None, address_of(&parts), (AuditOutcome::Limited, None));
                }
                body::drop_denied(body, protocol).await;
                return refuse(protocol, &busy.into());
            }
        },
        _ => None,
    };
    let origin = parts.headers.get(header::ORIGIN).cloned();
    let mut accepted = None;
    let mut response = if parts.method == Method::OPTIONS {
        // A browser sends this by itself, before there is a request, and the answer costs nothing.
        cors::preflight(&parts.headers, methods)
    } else {
        let access = &protocol.admission.access;
        let known;
        let identity = match access.everyone().filter(|_| !connection.peer().is_of_other_user()) {
            Some(everyone) => Ok(everyone),
            None => {
                let head = (&parts.headers, &parts.uri, connection.peer());
                let clock = &*protocol.engine.ports().clock;
                known = Box::pin(access.authenticate(head, source, &protocol.admission.meter, clock)).await;
                match known {
                    Ok(_) => accepted = connection.accept(),
                    Err(_) => connection.deny(),
                }
                known.as_ref()
            }
        };
        match identity {
            Err(refused) => {
                if let Some(auditor) = auditor {
                    record_refusal(auditor, refused, address_of(&parts));
                }
                // It is not needed any more, and the body may come slowly.
                parts.headers.clear();
                body::drop_denied(body, protocol).await;
                denied(protocol, refused)
            }
            Ok(identity) => match protocol.admission.meter.message(identity.principal()) {
                Err(busy) => {
                    if let Some(auditor) = auditor {
                        let principal = identity.principal().as_str().into();
                        auditor.denied(Some(principal), address_of(&parts), (AuditOutcome::Limited, None));
                    }
                    let bytes = body::read_or_drop(body, protocol, identity.principal()).await;
                    response(protocol, refuse_message(&bytes, &busy.into()))
                }
                Ok(()) => {
                    let (is_get, address) = (parts.method == Method::GET, address_of(&parts));
                    let response = match answer(protocol, identity, parts, body).await {
                        Some(answered) => answered.unwrap_or_else(|error| refuse(protocol, &error)),
                        None => method_not_allowed(methods),
                    };
                    if let Some(auditor) = auditor {
                        record_denied(auditor, identity, (is_get, response.status()), address);
                    }
                    response
                }
            },
        }
    };
    cors::expose(&mut response, origin);
    counted_with(response, permit, accepted)
}

/// Records a request whose sender was not let in.
fn record_refusal(auditor: &Auditor, refused: &AccessRefusal, address: Option<IpAddr>) {
    let (principal, why) = match refused {
        AccessRefusal::Busy(_) => (None, (AuditOutcome::Limited, None)),
        AccessRefusal::Denied(denied) => (denied.principal(), (AuditOutcome::Denied, Some(denied.to_string()))),
    };
    auditor.denied(principal, address, why);
}

/// Records a stream that was refused, or a sender whose credentials have ended meanwhile. Messages are recorded with their methods.
fn record_denied(
    auditor: &Auditor,
    identity: &Identity,
    (is_get, status): (bool, StatusCode),
    address: Option<IpAddr>,
) {
    let why = match status {
        StatusCode::FORBIDDEN if is_get => None,
        StatusCode::UNAUTHORIZED => Some(ENDED.to_owned()),
        _ => return,
    };
    let principal = identity.principal().as_str().into();
    auditor.denied(Some(principal), address, (AuditOutcome::Denied, why));
}

async fn post<B: Body<Data = Bytes> + Unpin>(
    protocol: &Arc<ProtocolServer>,
    identity: &Arc<Identity>,
    parts: Parts,
    body: B,
) -> Result<Response, RpcError> {
    check_content_type(&parts.headers)?;
    // The body comes first, since every later error carries the id that is in it.
    let ReceivedBody { bytes, reservation } = body::read(body, protocol, identity.principal()).await?;
    if let Some(denied) = denied_by_now(protocol, identity) {
        return Ok(denied);
    }
    let dispatched = dispatched(Arc::clone(protocol), Arc::clone(identity), parts, bytes);
    let (answer, session) = match protocol.interaction.auditor {
        // Its line is written whether or not the client waits for the answer.
        Some(_) => protocol.engine.ports().run_to_completion(dispatched).await,
        None => dispatched.await,
    };
    let response = match (answer.settled().await, session) {
        (Answer::Stream(events), Some(session)) => resumable(protocol, (identity, &session), events).await,
        (answer, _) => response(protocol, answer),
    };
    // What was read from the body may be in use until its request is answered.
    Ok(held_with(response, reservation))
}

/// The answer to a message, and its session.
async fn dispatched(
    protocol: Arc<ProtocolServer>,
    identity: Arc<Identity>,
    parts: Parts,
    bytes: Bytes,
) -> (Answer, Option<Session>) {
    let (answer, session) = match message(&protocol, &identity, &parts, &bytes).await {
        Ok(incoming) if batch::is_taken(&bytes, incoming.session.as_ref()) => {
            (batch::answer_batch(&protocol, &incoming).await, incoming.session)
        }
        Ok(incoming) => (protocol.dispatcher.dispatch(&incoming).await, incoming.session),
        Err(error) => (refuse_message(&bytes, &error), None),
    };
    let answer = answer.with_memory_reserved(&protocol.admission.memory, |error| refuse_message(&bytes, error));
    (answer, session)
}

/// A stream that outlives its connection, since a client with a session may resume it.
async fn resumable(
    protocol: &Arc<ProtocolServer>,
    (identity, session): (&Arc<Identity>, &Session),
    mut events: Events,
) -> Response {
    let clock = &protocol.engine.ports().clock;
    let kind = StreamKind::Answer(identity.permissions().clone());
    // What nobody reads counts as a kept stream only.
    let permit = events.take_permit();
    let begun = protocol.http.replay_buffers.begin(session, events, kind);
    get_stream::end_if_ended(protocol, session).await;
    match begun {
        Ok(buffer) => match buffer.read(0, clock) {
            Ok(reader) => cut_when_revoked(identity, event_stream(get_stream::counted(reader.events(), permit))),
            Err(_) => unreachable!("nothing of it has been dropped"),
        },
        Err(TooManyStreams { events, .. }) => {
            let events = events.with_permit(permit);
            cut_when_revoked(identity, response(protocol, Answer::Stream(events)))
        }
    }
}

/// A push stream of a legacy session; modern revisions have none.
async fn get(protocol: &Arc<ProtocolServer>, identity: &Arc<Identity>, parts: &Parts) -> Result<Response, RpcError> {
    let headers = mcp_headers(parts)?;
    let Some(id) = headers.session_id.filter(|_| !is_modern(&headers)) else {
        return Ok(method_not_allowed(methods(protocol.http.mode)));
    };
    let last_event = parts.headers.get("last-event-id");
    let kind = StreamKind::push_for(identity.permissions());
    // Before the session is looked for: it depends on the request alone.
    if last_event.is_none()
        && let Some(refused) = get_stream::refused(protocol, identity, &kind.needs())
    {
        return Ok(refused);
    }
    let session = live_session(protocol, identity, id)
        .await?
        .ok_or_else(RpcError::session_not_found)?;
    if !takes_stream(&parts.headers) {
        return Err(RpcError::invalid_request("Accept must list text/event-stream").with_status(406));
    }
    let stream = match last_event {
        Some(last_event) => get_stream::resume(protocol, (identity, &session), last_event.as_bytes()).await,
        None => get_stream::open(protocol, &session, kind).await,
    };
    Ok(ended_with(protocol, identity, stream?))
}

/// The message in `bytes`, with its headers.
async fn message<'a>(
    protocol: &ProtocolServer,
    identity: &'a Arc<Identity>,
    parts: &'a Parts,
    bytes: &'a [u8],
) -> Result<IncomingMessage<'a>, RpcError> {
    let (headers, takes_stream) = (mcp_headers(parts)?, takes_stream(&parts.headers));
    let incoming = incoming_message(protocol, identity, headers, takes_stream, bytes).await?;
    Ok(IncomingMessage {
        address: address_of(parts),
        ..incoming
    })
}

/// The address that a request came from, kept with it if it is asked for.
#[derive(Clone, Copy)]
struct ClientAddress(IpAddr);

fn address_of(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<ClientAddress>().map(|address| address.0)
}

/// The message in `bytes`, with these headers.
pub(crate) async fn incoming_message<'a>(
    protocol: &ProtocolServer,
    identity: &'a Arc<Identity>,
    headers: Headers<'a>,
    takes_stream: bool,
    bytes: &'a [u8],
) -> Result<IncomingMessage<'a>, RpcError> {
    let (session, state) = find_session(protocol, identity, &headers).await?;
    Ok(IncomingMessage {
        bytes,
        transport: MessageTransport::Http {
            headers,
            session: state,
            sessionless: true,
        },
        session,
        takes_stream: takes_stream && protocol.http.mode.streams,
        identity,
        mode: protocol.http.mode,
        address: None,
        resumed_call: None,
    })
}

fn mcp_headers(parts: &Parts) -> Result<Headers<'_>, RpcError> {
    let all = parts.headers.iter();
    Headers::collect(all.map(|(name, value)| (name.as_str(), value.as_bytes())))
}

/// A form on a web page can post `text/plain` without a preflight, but not JSON.
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

/// The session of an id. A modern message has none, so its id is ignored, as it is by a server without sessions.
async fn find_session(
    protocol: &ProtocolServer,
    identity: &Identity,
    headers: &Headers<'_>,
) -> Result<(Option<Session>, longhaul_wire::SessionState), RpcError> {
    let takes_id = protocol.http.mode.sessions && !is_modern(headers);
    let Some(id) = headers.session_id.filter(|_| takes_id) else {
        return Ok((None, longhaul_wire::SessionState::None));
    };
    match live_session(protocol, identity, id).await? {
        Some(session) => {
            let state = longhaul_wire::SessionState::Live(session.version);
            Ok((Some(session), state))
        }
        None => Ok((None, longhaul_wire::SessionState::Gone)),
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

async fn live_session(protocol: &ProtocolServer, identity: &Identity, id: &[u8]) -> Result<Option<Session>, RpcError> {
    let found = protocol.sessions.find(&protocol.engine, identity.principal(), id).await;
    found.map_err(store_failed)
}

/// DELETE ends a legacy session; modern revisions have none. Its tasks go on.
async fn end_session(protocol: &ProtocolServer, identity: &Identity, parts: &Parts) -> Result<Response, RpcError> {
    let headers = mcp_headers(parts)?;
    let Some(id) = headers.session_id.filter(|_| !is_modern(&headers)) else {
        return Ok(method_not_allowed(methods(protocol.http.mode)));
    };
    let session = live_session(protocol, identity, id)
        .await?
        .ok_or_else(RpcError::session_not_found)?;
    protocol
        .sessions
        .end(&protocol.engine, &session)
        .await
        .map_err(store_failed)?;
    protocol.http.replay_buffers.end_session(&session).await;
    Ok(empty(StatusCode::NO_CONTENT))
}

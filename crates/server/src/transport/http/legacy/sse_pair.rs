//! The two endpoints of 2024-11-05: a stream for all messages to the client, and one to post to.
//!
//! The stream is the connection. Its first event names the address to post to; whatever is posted there is answered on the stream.

use crate::{
    admission::{identity::Identity, limits::StreamPermit, permissions::Permission},
    response::stream::{KEEP_ALIVE, Text, held},
    transport::{
        duplex::Duplex,
        http::{
            MESSAGES_PATH, SSE_PATH,
            body::{self, ReceivedBody},
            response::{Response, denied_by_now, empty, event_stream},
        },
        protocol_server::ProtocolServer,
    },
};
use axum::extract::OriginalUri;
use bytes::Bytes;
use futures_util::stream;
use http::{StatusCode, request::Parts};
use http_body::Body;
use longhaul_core::{Entropy, Principal};
use longhaul_wire::{RpcError, sse};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::mpsc;

const NAME_BYTES: usize = 16;
const NAME: &str = "sessionId";

/// The open streams, by names that only their clients have, and whom they belong to.
#[derive(Clone, Default)]
pub(crate) struct LegacySseStreams(Arc<Mutex<HashMap<String, OwnedStream>>>);

type OwnedStream = (Principal, Arc<Duplex>);

/// One open stream; dropping it ends the connection.
struct Open {
    streams: LegacySseStreams,
    name: String,
    duplex: Arc<Duplex>,
    protocol: Arc<ProtocolServer>,
    outgoing: mpsc::Receiver<Text>,
    /// The first event.
    endpoint: Option<String>,
    _permit: StreamPermit,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.streams.0.lock().remove(&self.name);
        self.duplex.close();
    }
}

/// Opens a stream.
pub(crate) fn open(protocol: &Arc<ProtocolServer>, identity: &Identity, parts: &Parts) -> Result<Response, RpcError> {
    let principal = identity.principal();
    let permit = protocol.admission.meter.stream(principal)?;
    let (duplex, outgoing) = Duplex::open(protocol, identity.permissions().allows(Permission::ReadResources));
    let name = random_name(&*protocol.engine.ports().entropy);
    protocol
        .http
        .legacy_sse_streams
        .0
        .lock()
        .insert(name.clone(), (principal.clone(), Arc::clone(&duplex)));
    let open = Open {
        streams: protocol.http.legacy_sse_streams.clone(),
        endpoint: Some(endpoint(parts, &name)),
        name,
        duplex,
        protocol: Arc::clone(protocol),
        outgoing,
        _permit: permit,
    };
    Ok(event_stream(stream::unfold(open, |mut open| async move {
        let event = open.next().await?;
        Some((event, open))
    })))
}

/// Takes a message; its answer goes to the stream.
pub(crate) async fn post<B: Body<Data = Bytes> + Unpin>(
    protocol: &ProtocolServer,
    identity: &Arc<Identity>,
    parts: &Parts,
    body: B,
) -> Result<Response, RpcError> {
    let name = parts.uri.query().and_then(named);
    let found = name.and_then(|name| protocol.http.legacy_sse_streams.0.lock().get(name).cloned());
    // Who knows the name of a stream is not thereby its owner.
    let (_, duplex) = found
        .filter(|(owner, _)| owner == identity.principal())
        .ok_or_else(RpcError::session_not_found)?;
    let ReceivedBody { bytes, reservation } = body::read(body, protocol, identity.principal()).await?;
    if let Some(denied) = denied_by_now(protocol, identity) {
        return Ok(denied);
    }
    match duplex.take(identity, bytes, reservation).await {
        Ok(()) => Ok(empty(StatusCode::ACCEPTED)),
        Err(_) => Err(RpcError::session_not_found()),
    }
}

fn named(query: &str) -> Option<&str> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(key, _)| *key == NAME).map(|(_, name)| name)
}

/// Where to post to: beside the stream, wherever that is mounted.
fn endpoint(parts: &Parts, name: &str) -> String {
    let path = parts
        .extensions
        .get::<OriginalUri>()
        .map_or(parts.uri.path(), |original| original.path());
    let base = path.strip_suffix(SSE_PATH).unwrap_or_default();
    format!("{base}{MESSAGES_PATH}?{NAME}={name}")
}

fn random_name(entropy: &dyn Entropy) -> String {
    let mut bytes = [0u8; NAME_BYTES];
    entropy.fill(&mut bytes);
    format!("{:032x}", u128::from_be_bytes(bytes))
}

impl Open {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(endpoint) = self.endpoint.take() {
            return Some(format!("event: endpoint\ndata: {endpoint}\n\n").into());
        }
        let ending = async {
            self.protocol.shutdown.drained().await;
            tokio::select! {
                () = self.duplex.done() => {}
                () = self.protocol.shutdown.closed() => {}
            }
        };
        tokio::select! {
            biased;
            message = self.outgoing.recv() => message.map(|message| held(event(&message.text), message.reservation)),
            () = ending => None,
            () = self.protocol.engine.ports().clock.sleep(KEEP_ALIVE) => {
                Some(Bytes::from_static(sse::KEEP_ALIVE.as_bytes()))
            }
        }
    }
}

fn event(message: &str) -> Bytes {
    let mut event = String::with_capacity(message.len() + 32);
    sse::SseEvent {
        name: Some("message"),
        data: message,
        ..sse::SseEvent::default()
    }
    .write(&mut event);
    event.into()
}

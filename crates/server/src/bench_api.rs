//! Dispatch without HTTP, for the benchmarks that count instructions. Not part of the API.

use crate::{
    dispatch::refuse_message,
    response::Answer,
    transport::{http::incoming_message, protocol_server::ProtocolServer},
};
use longhaul_wire::Headers;
use std::sync::Arc;

/// The answer to a POST with these MCP headers and this body; nothing if it is a stream.
pub async fn answer(protocol: &Arc<ProtocolServer>, headers: Headers<'_>, body: &[u8]) -> String {
    match posted(protocol, headers, body).await {
        Answer::Message { text, .. } => text.text,
        Answer::Session { text, .. } | Answer::Challenge { text, .. } => text,
        Answer::Accepted | Answer::Stream(_) | Answer::Later(_) => String::new(),
    }
}

/// The id of the session that this handshake begins.
pub async fn session(protocol: &Arc<ProtocolServer>, body: &[u8]) -> Option<String> {
    match posted(protocol, Headers::default(), body).await {
        Answer::Session { session, .. } => Some(session.to_id(&protocol.sessions.ids)),
        _ => None,
    }
}

async fn posted(protocol: &Arc<ProtocolServer>, headers: Headers<'_>, body: &[u8]) -> Answer {
    let Some(identity) = protocol.admission.access.everyone() else {
        unreachable!("the benchmarks have no authenticators");
    };
    let answer = match incoming_message(protocol, identity, headers, false, body).await {
        Ok(incoming) => protocol.dispatcher.dispatch(&incoming).await,
        Err(error) => refuse_message(body, &error),
    };
    answer.settled().await
}

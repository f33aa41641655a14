//! Dispatch without HTTP, for the benchmarks that count instructions. Not part of the API.

use crate::{
    dispatch::refuse_message,
    response::Answer,
    transport::{front::Front, http::incoming_message},
};
use longhaul_wire::Headers;
use std::sync::Arc;

/// The answer to a POST with these MCP headers and this body; nothing if it is a stream.
pub async fn answer(front: &Arc<Front>, headers: Headers<'_>, body: &[u8]) -> String {
    match posted(front, headers, body).await {
        Answer::Message { text, .. } => text.text,
        Answer::Session { text, .. } | Answer::Challenge { text, .. } => text,
        Answer::Accepted | Answer::Stream(_) | Answer::Later(_) => String::new(),
    }
}

/// The id of the session that this handshake begins.
pub async fn session(front: &Arc<Front>, body: &[u8]) -> Option<String> {
    match posted(front, Headers::default(), body).await {
        Answer::Session { session, .. } => Some(session.to_id(&front.sessions.ids)),
        _ => None,
    }
}

async fn posted(front: &Arc<Front>, headers: Headers<'_>, body: &[u8]) -> Answer {
    let Some(identity) = front.admission.access.everyone() else {
        unreachable!("the benchmarks have no authenticators");
    };
    let answer = match incoming_message(front, identity, headers, false, body).await {
        Ok(incoming) => front.dispatcher.dispatch(&incoming).await,
        Err(error) => refuse_message(body, &error),
    };
    answer.settled().await
}

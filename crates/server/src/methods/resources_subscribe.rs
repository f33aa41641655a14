//! `resources/subscribe` and `resources/unsubscribe` (legacy): which resources' updates a session hears of, on its push stream.
//!
//! Without a session there is no stream to say so on.

use super::resources_read;
use crate::{dispatch::Call, response::Answer, transport::front::Front};
use longhaul_wire::RpcError;
use std::sync::Arc;

pub(super) async fn subscribe(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let uri = call.params.uri()?;
    let session = call.caller.session().ok_or_else(|| {
        RpcError::invalid_request(
            "resources/subscribe needs a session: send the Mcp-Session-Id that came with the answer to initialize",
        )
    })?;
    let held = resources_read::subscribe(front, &call.caller, &uri).await?;
    let watched = front.legacy.wishes.watch(session, &uri, held);
    watched.map_err(|why| RpcError::invalid_params(why.to_string()))?;
    Ok(empty(call))
}

pub(super) fn unsubscribe(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let uri = call.params.uri()?;
    if let Some(session) = call.caller.session() {
        front.legacy.wishes.unwatch(&session.key, &uri);
    }
    Ok(empty(call))
}

fn empty(call: &Call<'_>) -> Answer {
    Answer::result(call.id, |out| out.push_str("{}"))
}

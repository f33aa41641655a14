//! `resources/subscribe` (legacy): a session is notified of a resource's updates on its push stream. Without a session there is no such stream.

use super::Methods;
use crate::{admission::request::AdmittedRequest, catalog::resources, response::Answer};
use longhaul_wire::RpcError;

pub(crate) async fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let uri = request.params.uri()?;
    let session = request.caller.session().ok_or_else(|| {
        RpcError::invalid_request(
            "resources/subscribe needs a session: send the Mcp-Session-Id that came with the answer to initialize",
        )
    })?;
    let guard = resources::subscribe(&methods.interaction, &request.caller, &uri).await?;
    let preferences = &methods.interaction.sessions.preferences;
    let subscribed = preferences.subscribe(session, &uri, guard);
    subscribed.map_err(|why| RpcError::invalid_params(why.to_string()))?;
    Ok(Answer::empty(request.id))
}

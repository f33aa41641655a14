//! `resources/subscribe` (legacy): a session is notified of a resource's updates on its push stream. Without a session there is no such stream.

use crate::{
    admission::request::AdmittedRequest, catalog::resources, methods::Methods, response::Answer,
    session::preferences::SubscribeError,
};
use longhaul_wire::RpcError;

pub(crate) async fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let uri = request.params.uri()?;
    let no_session = || request.caller.no_session("resources/subscribe needs a session");
    let session = request.caller.session().ok_or_else(no_session)?;
    if !request.caller.mode.streams {
        return Err(request.caller.no_stream());
    }
    let preferences = &methods.interaction.sessions.preferences;
    let now = methods.engine.ports().clock.now();
    if preferences.subscribe_again(&session.key, &uri, now) {
        return Ok(Answer::empty(request.id));
    }
    let guard = resources::subscribe(&methods.interaction, request, &uri).await?;
    let subscribed = preferences.subscribe(session, &uri, (guard, now));
    subscribed.map_err(|why| match why {
        SubscribeError::NoRoom => RpcError::internal(format!("Cannot subscribe: {why}")).with_status(503),
        why => RpcError::invalid_params(why.to_string()),
    })?;
    Ok(Answer::empty(request.id))
}

//! `resources/unsubscribe` (legacy).

use super::Methods;
use crate::{admission::request::AdmittedRequest, response::Answer};
use longhaul_wire::RpcError;

pub(crate) fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let uri = request.params.uri()?;
    if let Some(session) = request.caller.session_key() {
        methods.interaction.sessions.preferences.unsubscribe(session, &uri);
    }
    Ok(Answer::empty(request.id))
}

//! `logging/setLevel` (legacy): the level from which on a session is sent log messages (U-08).

use super::Methods;
use crate::{admission::request::AdmittedRequest, response::Answer};
use longhaul_wire::RpcError;

pub(crate) fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let level = request.params.set_level()?;
    methods.engine.catalog().ask_for_logs(level);
    // Without a session there are no preferences to set.
    if let Some(session) = request.caller.session() {
        methods.interaction.sessions.preferences.set_level(session, level);
    }
    Ok(Answer::empty(request.id))
}

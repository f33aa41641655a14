//! `logging/setLevel` (legacy): the level from which on a session is sent log messages.

use crate::{
    admission::request::AdmittedRequest,
    methods::Methods,
    response::Answer,
    session::other_nodes::{self, SessionMessage},
};
use longhaul_wire::RpcError;

pub(crate) fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let level = request.params.set_level()?;
    let (engine, sessions) = (&methods.engine, &methods.interaction.sessions);
    // Without a session there are no preferences to set.
    match request.caller.session() {
        None => engine.catalog().ask_for_logs(level),
        Some(session) => {
            other_nodes::set_level(sessions, engine, session, level);
            let message = SessionMessage::Level {
                session: session.to_id(&sessions.ids),
                level: level.as_str().into(),
            };
            other_nodes::broadcast(engine, &message);
        }
    }
    Ok(Answer::empty(request.id))
}

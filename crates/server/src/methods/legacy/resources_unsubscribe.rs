//! `resources/unsubscribe` (legacy). The subscription may be at another node.

use crate::{
    admission::request::AdmittedRequest,
    methods::Methods,
    response::Answer,
    session::other_nodes::{self, SessionMessage},
};
use longhaul_wire::RpcError;

pub(crate) fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let uri = request.params.uri()?;
    if let Some(session) = request.caller.session_key() {
        methods.interaction.sessions.preferences.unsubscribe(session, &uri);
        let message = SessionMessage::Unsubscribed {
            session: session.as_str().into(),
            uri: (&*uri).into(),
            at: methods.engine.ports().clock.now().0,
        };
        other_nodes::broadcast(&methods.engine, &message);
    }
    Ok(Answer::empty(request.id))
}

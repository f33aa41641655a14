//! What other nodes say of legacy clients, and what is done about it.

use super::{
    Interaction,
    legacy::{client_response, push_stream},
};
use crate::session::{
    Session,
    other_nodes::{SessionMessage, set_level},
};
use longhaul_core::{Json, LogLevel, Principal, SessionKey, UnixMillis};
use longhaul_runtime::{Audience, ResourceUpdate, SessionChange, Versions};
use longhaul_wire::jsonrpc::Message;
use std::sync::Arc;
use tracing::debug;

/// Acts on what other nodes say, until this one stops. `end_streams` ends the streams of a session.
pub(crate) async fn receive<F: Future<Output = ()>>(interaction: Arc<Interaction>, end_streams: impl Fn(Session) -> F) {
    let Some(mut messages) = interaction.engine.server_messages() else {
        return;
    };
    while let Some(message) = messages.recv().await {
        match serde_json::from_str(message.as_str()) {
            Ok(SessionMessage::Ended { session }) => {
                if let Some(session) = session_of(&interaction, &session) {
                    interaction.sessions.has_ended(&interaction.engine, &session.key);
                    end_streams(session).await;
                }
            }
            Ok(message) => act_on(&interaction, message).await,
            Err(error) => debug!(%error, "a message of another server cannot be read: it has another release"),
        }
    }
}

async fn act_on(interaction: &Arc<Interaction>, message: SessionMessage<'_>) {
    let Interaction { engine, sessions, .. } = &**interaction;
    match message {
        SessionMessage::Response { session, response } => {
            let Some(session) = session_of(interaction, &session) else {
                return;
            };
            let Ok(Message::Response(response)) = Message::parse(response.get().as_bytes()) else {
                return;
            };
            if let Err(error) = client_response::accept(interaction, &session, &response).await {
                debug!(%error, "a response that another server has passed on was refused");
            }
        }
        SessionMessage::Cancelled { session, request } => {
            sessions.in_flight.cancel(&SessionKey::named(session), &request);
        }
        SessionMessage::Level { session, level } => {
            if let (Some(session), Some(level)) = (session_of(interaction, &session), LogLevel::parse(&level)) {
                set_level(sessions, engine, &session, level);
            }
        }
        SessionMessage::ToClient { session, request } => {
            let (interaction, session) = (Arc::clone(interaction), SessionKey::named(session));
            let spawner = Arc::clone(&engine.ports().spawner);
            // A client that does not read holds up no other message.
            spawner.spawn(Box::pin(async move {
                interaction.push.streams.send(&session, request.get().to_owned()).await;
            }));
        }
        SessionMessage::Created { session, task } => {
            if let Ok(task) = task.parse() {
                push_stream::follow_created_elsewhere(interaction, &SessionKey::named(session), task);
            }
        }
        SessionMessage::Roots { session } => {
            let changed = SessionChange::Roots(SessionKey::named(session));
            engine.catalog().session_changed(changed);
        }
        SessionMessage::Unsubscribed { session, uri, at } => {
            let session = SessionKey::named(session);
            sessions.preferences.unsubscribe_before(&session, &uri, UnixMillis(at));
        }
        SessionMessage::ResourceUpdated { uri, principal } => engine.catalog().report(ResourceUpdate {
            uri: uri.into(),
            principal: principal.map(|principal| Principal::named(&*principal)),
            relayed: None,
            audience: Audience::Node,
        }),
        SessionMessage::SubscribedUpdated { uri, sessions, relayed } => engine.catalog().report(ResourceUpdate {
            uri: uri.into(),
            principal: None,
            relayed: relayed.map(|relayed| Json::from(&*relayed)),
            audience: Audience::Sessions(sessions.into_iter().map(SessionKey::named).collect()),
        }),
        SessionMessage::ListsChanged {
            tools,
            prompts,
            resources,
        } => engine.catalog().changed_elsewhere(Versions {
            tools: tools.into(),
            prompts: prompts.into(),
            resources: resources.into(),
        }),
        // Its streams are the transport's.
        SessionMessage::Ended { .. } => {}
    }
}

fn session_of(interaction: &Interaction, id: &str) -> Option<Session> {
    Session::from_id(id, &interaction.sessions.ids, interaction.engine.ports().clock.now())
}

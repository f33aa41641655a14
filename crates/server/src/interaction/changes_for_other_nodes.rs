//! Changes of this node's lists and resources that clients at other nodes need.
//!
//! A client may be told on a push stream here that a list has changed, and read it at a node that has not changed yet. So each node says when it has.
//!
//! A subscription of a legacy session stays at the node that its client has sent it to, and what follows the resource, too. If the session has no push stream there that is
//! read, each update is sent to the other nodes, of which one may have it. So nothing has to be known of a session where a push stream opens.
//!
//! An author reports an update at the node where it happens, and others have subscribers, too.

use crate::{
    interaction::Interaction,
    response::stream::Sink,
    session::other_nodes::{self, SessionMessage},
};
use longhaul_core::{Principal, SessionKey};
use longhaul_runtime::{Audience, Completeness, ResourceUpdate, Versions};
use serde_json::value::RawValue;
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tracing::debug;

/// Changes within this time are sent once.
const WINDOW: Duration = Duration::from_millis(50);
/// Updates of so many resources are sent at once.
const MOST: usize = 1_000;

/// The updates of some resources: the last one of each, and of each principal.
type Updates = HashMap<(Arc<str>, Option<Principal>), ResourceUpdate>;

/// Tells other nodes, until this one stops.
pub(crate) fn tell(interaction: Arc<Interaction>) -> impl Future<Output = ()> {
    // Subscribed at once: what is updated before the first poll is not missed.
    let updates = interaction.engine.catalog().updates();
    async move {
        tokio::select! {
            () = tell_of_updates(&interaction, updates) => {}
            () = tell_of_lists(&interaction) => {}
            () = interaction.shutdown.drained() => {}
        }
    }
}

/// Once all that is offered is known: that more and more becomes known after a start is no change.
async fn tell_of_lists(interaction: &Interaction) {
    let engine = &interaction.engine;
    if !engine.accepts_requests() {
        return std::future::pending().await;
    }
    engine.catalog().known(Completeness::Complete).await;
    let mut changes = engine.catalog().changes();
    let mut told = engine.catalog().snapshot().versions;
    // The sender lives as long as the engine.
    while changes.changed().await.is_ok() {
        engine.ports().clock.sleep(WINDOW).await;
        changes.mark_unchanged();
        let now = engine.catalog().snapshot().versions;
        let new = now.since(std::mem::replace(&mut told, now));
        // Else another node has told of a change.
        if new != Versions::default() {
            let message = SessionMessage::ListsChanged {
                tools: new.tools > 0,
                prompts: new.prompts > 0,
                resources: new.resources > 0,
            };
            other_nodes::broadcast(engine, &message);
        }
    }
}

async fn tell_of_updates(interaction: &Interaction, mut updates: Receiver<ResourceUpdate>) {
    loop {
        for update in collect(interaction, &mut updates).await.into_values() {
            tell_of(interaction, update).await;
        }
    }
}

/// The next updates. The sender lives as long as the engine.
async fn collect(interaction: &Interaction, updates: &mut Receiver<ResourceUpdate>) -> Updates {
    let mut collected = Updates::new();
    while collected.is_empty() {
        let update = updates.recv().await;
        add(&mut collected, update);
    }
    let window = interaction.engine.ports().clock.sleep(WINDOW);
    tokio::pin!(window);
    while collected.len() < MOST {
        tokio::select! {
            () = &mut window => break,
            update = updates.recv() => add(&mut collected, update),
        }
    }
    collected
}

fn add(collected: &mut Updates, update: Result<ResourceUpdate, RecvError>) {
    let update = match update {
        Ok(ResourceUpdate {
            audience: Audience::Sessions(_),
            ..
        }) => return,
        Ok(update) => update,
        Err(error) => {
            debug!(%error, "updates of resources were not passed on to other servers");
            return;
        }
    };
    match collected.entry((Arc::clone(&update.uri), update.principal.clone())) {
        Entry::Vacant(entry) => drop(entry.insert(update)),
        Entry::Occupied(mut entry) => {
            let last = entry.get_mut();
            last.relayed = update.relayed;
            if update.audience == Audience::AllNodes {
                last.audience = Audience::AllNodes;
            }
        }
    }
}

async fn tell_of(interaction: &Interaction, update: ResourceUpdate) {
    let Interaction { engine, sessions, .. } = interaction;
    if update.audience == Audience::AllNodes {
        let principal = update.principal.as_ref().map(|principal| principal.as_str().into());
        let uri = (&*update.uri).into();
        other_nodes::broadcast(engine, &SessionMessage::ResourceUpdated { uri, principal });
    }
    let mut unreached = Vec::new();
    for (session, principal) in sessions.preferences.subscribers(&update.uri) {
        if !update.concerns(&principal) || is_reached(interaction, &session) {
            continue;
        }
        // Another node may have ended it, and its message been lost.
        match engine.store().session_ended(&session).await {
            Ok(true) => sessions.has_ended(engine, &session),
            Ok(false) | Err(_) => unreached.push(session),
        }
    }
    if !unreached.is_empty() {
        let relayed = update.relayed.as_ref();
        let message = SessionMessage::SubscribedUpdated {
            uri: (&*update.uri).into(),
            sessions: unreached.iter().map(|session| session.as_str().into()).collect(),
            relayed: relayed.and_then(|relayed| RawValue::from_string(relayed.as_str().to_owned()).ok()),
        };
        other_nodes::broadcast(engine, &message);
    }
}

/// Whether a push stream of this node reaches the session's client.
fn is_reached(interaction: &Interaction, session: &SessionKey) -> bool {
    let newest = interaction.push.streams.newest(session);
    newest.as_ref().is_some_and(Sink::has_reader)
}

//! What the connection of a client to an upstream offers. A call may add tools in the process or session of its client, of which the gateway's own connection knows
//! nothing. So the lists of a client come from its connection, if it has one; else from the gateway's own.

use super::{
    offering::{Offering, offering},
    tools::offer_tools,
};
use crate::{
    lists::{LONGEST_SUBSCRIBING, ListChanges, UpstreamLists},
    upstream::{ListEvent, Upstream, UpstreamConnection, Upstreams},
};
use futures_util::future::join_all;
use longhaul_core::{BoxFuture, Json, ParsedJson};
use longhaul_runtime::{Engine, ListClient, NotificationHandler, RequestContext, ToolVisibility};
use longhaul_wire::relayed;
use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// How long a list waits for an upstream. One that does one thing at a time answers after its call; then its last known lists count.
const LONGEST_READ: Duration = Duration::from_secs(3);
/// The same of one that was not read before: its server may have to be started.
const LONGEST_FIRST_READ: Duration = Duration::from_secs(30);

impl UpstreamConnection {
    /// Whether its lists are to be read again before they are shown.
    fn lists_are_stale(&self) -> bool {
        // What runs may change them at any time.
        self.connection.handshakes() > 0 && (self.lists.is_stale.load(Ordering::Relaxed) || !self.is_idle())
    }

    /// Whether lists have waited in vain for what it was asked. It answers after its call, so no other list waits for that.
    fn has_been_asked_for_long(&self, upstream: &Upstream) -> bool {
        let now = upstream.ports.clock.monotonic();
        let since = *self.lists.read_since.read();
        since.is_some_and(|since| now.saturating_sub(since) >= LONGEST_READ)
    }

    /// Follows the changes of its lists, if it does not yet. Call it before a call is sent, which may change them.
    pub(crate) async fn watch_lists(self: &Arc<Self>, upstream: &Upstream) {
        if self.lists.watching.read().is_some() || upstream.connections.is_own(self) {
            return;
        }
        let Ok(server) = self.connection.server().await else {
            return;
        };
        let until = CancellationToken::new();
        {
            let mut watching = self.lists.watching.write();
            if watching.is_some() {
                return;
            }
            *watching = Some(until.clone().drop_guard());
        }
        let mut changes = ListChanges::of(&self.connection, ListChanges::filter(&server));
        // Of one that does not answer the subscription changes are not known.
        let _ = upstream.ports.within(LONGEST_SUBSCRIBING, changes.subscribed()).await;
        let (watched, events) = (Arc::downgrade(self), upstream.connections.list_events());
        let following = async move {
            while changes.next().await.is_ok() {
                let (Some(connection), Some(events)) = (watched.upgrade(), &events) else {
                    return;
                };
                connection.lists.doubt();
                let _ = events.send(ListEvent::Read(connection, None));
            }
        };
        upstream.ports.spawner.spawn(Box::pin(async move {
            until.run_until_cancelled_owned(following).await;
        }));
    }
}

impl Upstream {
    /// What it offers to this client.
    pub(crate) fn lists_for(&self, client: ListClient<'_>) -> Option<Arc<UpstreamLists>> {
        let shared = self.lists()?;
        let own = self.connections.open_for(client);
        Some(own.and_then(|connection| connection.lists.known()).unwrap_or(shared))
    }
}

/// Whether it may send notifications of its own at any time: a client has a connection for them from its first list on.
fn notifies(upstream: &Upstream) -> bool {
    let is_relayed = upstream.connections.is_only() && !upstream.options().shared;
    let lists = upstream.lists().filter(|_| is_relayed);
    let relayed = lists.and_then(|lists| relayed::capabilities(lists.capabilities.as_json().as_str()));
    relayed.is_some_and(|relayed| ParsedJson::from(relayed).get("experimental").is_some())
}

/// Passes notifications of clients on that MCP does not define, to the only upstream.
pub(crate) struct ClientNotifications(pub(crate) Arc<Upstreams>);

impl NotificationHandler for ClientNotifications {
    fn handle(self: Arc<Self>, method: String, params: Json, cx: RequestContext) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let all = self.0.all();
            let Some(upstream) = all.first().filter(|upstream| upstream.connections.is_only()) else {
                return;
            };
            let connection = upstream
                .connections
                .of_client(cx.principal(), cx.session(), cx.requestor());
            let sent = match connection {
                Ok(connection) => {
                    (connection.connection.notify(&method, params).await).map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = sent {
                tracing::debug!(
                    upstream = upstream.name(),
                    method,
                    error,
                    "a notification was not passed on"
                );
            }
        })
    }
}

/// Completes when what this client has is known, if something has to be asked for that.
pub(crate) fn until_known(upstreams: &Upstreams, client: ListClient<'_>) -> Option<BoxFuture<'static, ()>> {
    let mut asked = Vec::new();
    for upstream in upstreams.all() {
        let connections = &upstream.connections;
        // What is offered may depend on what the client declares.
        let is_special = connections.relayed(client.requestor).is_some() || notifies(&upstream);
        let connection = match connections.open_for(client) {
            None if is_special => connections
                .of_client(client.principal, client.session, client.requestor)
                .ok(),
            open => open,
        };
        let Some(connection) = connection else { continue };
        let is_unread = is_special && connection.lists.known().is_none();
        let is_asked = is_unread || connection.lists_are_stale() && !connection.has_been_asked_for_long(&upstream);
        let Some(events) = connections.list_events().filter(|_| is_asked) else {
            continue;
        };
        let longest = if is_unread { LONGEST_FIRST_READ } else { LONGEST_READ };
        let (done, read) = oneshot::channel();
        if events.send(ListEvent::Read(connection, Some(done))).is_ok() {
            let ports = upstream.ports.clone();
            asked.push(async move {
                let _ = ports.within(longest, read).await;
            });
        }
    }
    (!asked.is_empty()).then(|| {
        Box::pin(async move {
            join_all(asked).await;
        }) as _
    })
}

/// Shows each client the tools of its own connections.
pub(crate) struct ClientTools(pub(crate) Arc<Upstreams>);

impl ToolVisibility for ClientTools {
    fn until_known(&self, client: ListClient<'_>) -> Option<BoxFuture<'static, ()>> {
        until_known(&self.0, client)
    }

    fn hidden(&self, client: ListClient<'_>) -> HashSet<String> {
        let mut hidden = HashSet::new();
        for upstream in self.0.all() {
            let (Some(shared), Some(own)) = (upstream.lists(), upstream.lists_for(client)) else {
                continue;
            };
            let of_clients = upstream.connections.client_lists();
            let lists = of_clients.iter().map(|(_, lists)| lists).chain([&shared]);
            let lists = lists.filter(|lists| !Arc::ptr_eq(lists, &own));
            let names = lists.flat_map(|lists| &lists.index().tools);
            let others = names.filter(|name| !own.index().tools.contains(*name));
            hidden.extend(others.filter_map(|name| match offering(&upstream, name) {
                Offering::Tool { shown, .. } => Some(shown),
                Offering::LeftOut | Offering::Bound => None,
            }));
        }
        hidden
    }
}

/// Reads the lists of clients when they may have changed, and offers what they have.
pub(crate) async fn follow(
    upstreams: Arc<Upstreams>,
    engine: Engine,
    upstream: Arc<Upstream>,
    mut events: mpsc::UnboundedReceiver<ListEvent>,
) {
    let spawner = Arc::clone(&upstream.ports.spawner);
    while let Some(event) = events.recv().await {
        match event {
            ListEvent::Closed => offer(&upstreams, &engine, &upstream).await,
            ListEvent::Read(connection, done) => {
                let (upstreams, engine, upstream) = (Arc::clone(&upstreams), engine.clone(), Arc::clone(&upstream));
                let reading = async move {
                    read(&upstreams, &engine, &upstream, &connection).await;
                    drop(connection);
                    if let Some(done) = done {
                        let _ = done.send(());
                    }
                };
                // A hanging child delays no other.
                spawner.spawn(Box::pin(reading));
            }
        }
    }
}

async fn read(upstreams: &Upstreams, engine: &Engine, upstream: &Arc<Upstream>, connection: &Arc<UpstreamConnection>) {
    connection.watch_lists(upstream).await;
    let _one_at_a_time = connection.lists.reading.lock().await;
    // What comes while they are read makes them stale again.
    connection.lists.is_stale.store(false, Ordering::Relaxed);
    let before = connection.lists.known().or_else(|| upstream.lists());
    *connection.lists.read_since.write() = Some(upstream.ports.clock.monotonic());
    let read = UpstreamLists::read(&connection.connection, &upstream.ports, before.as_deref()).await;
    *connection.lists.read_since.write() = None;
    let lists = match read {
        Ok(lists) => Arc::new(lists),
        Err(error) => {
            tracing::debug!(upstream = upstream.name(), %error, "the lists of a client were not read");
            return connection.lists.doubt();
        }
    };
    *connection.lists.known.write() = Some(Arc::clone(&lists));
    let before = before.unwrap_or_default();
    let catalog = engine.catalog();
    if before.tools != lists.tools {
        let version = catalog.snapshot().versions.tools;
        offer(upstreams, engine, upstream).await;
        if catalog.snapshot().versions.tools == version {
            catalog.tool_list_changed();
        }
    }
    if before.prompts != lists.prompts {
        catalog.prompt_list_changed();
    }
    if before.resources != lists.resources || before.templates != lists.templates {
        catalog.resource_list_changed();
    }
}

async fn offer(upstreams: &Upstreams, engine: &Engine, upstream: &Arc<Upstream>) {
    if let Some(lists) = upstream.lists() {
        offer_tools(engine, upstreams, upstream, Some(&lists)).await;
    }
}

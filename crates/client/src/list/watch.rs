//! Watching what a server offers for changes.

use crate::{
    Connection, RequestError, ServerChange, error::rpc_failure::read_failure, list::subscription::OpenSubscription,
    transport::polling,
};
use longhaul_core::Millis;
use longhaul_wire::{Message, Method};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use tokio::{
    sync::broadcast::{self, error::RecvError},
    task::AbortHandle,
};
use tokio_util::sync::CancellationToken;

/// Changes within this time after the first one are reported together, each once. In milliseconds.
const DEBOUNCE: Millis = 100;

/// What is watched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchFilter {
    /// The list of tools.
    pub tools: bool,
    /// The list of prompts.
    pub prompts: bool,
    /// The list of resources.
    pub resources: bool,
    /// The resources with these URIs.
    pub uris: Vec<String>,
}

impl WatchFilter {
    fn includes(&self, change: &ServerChange) -> bool {
        match change {
            ServerChange::Tools => self.tools,
            ServerChange::Prompts => self.prompts,
            ServerChange::Resources => self.resources,
            ServerChange::Resource { uri, .. } => self.uris.contains(uri),
        }
    }

    /// Everything that is watched.
    fn all(&self) -> Vec<ServerChange> {
        let lists = [ServerChange::Tools, ServerChange::Prompts, ServerChange::Resources];
        let uris = (self.uris.iter().cloned()).map(|uri| ServerChange::Resource { uri, params: None });
        lists
            .into_iter()
            .filter(|list| self.includes(list))
            .chain(uris)
            .collect()
    }

    /// As `subscriptions/listen` takes it.
    fn to_params(&self) -> Map<String, Value> {
        let mut wanted = Map::new();
        for (member, is_wanted) in [
            ("toolsListChanged", self.tools),
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resources),
        ] {
            if is_wanted {
                wanted.insert(member.to_owned(), true.into());
            }
        }
        if !self.uris.is_empty() {
            wanted.insert("resourceSubscriptions".to_owned(), json!(self.uris));
        }
        Map::from_iter([("notifications".to_owned(), wanted.into())])
    }
}

/// The changes of what a server offers: see [`Connection::watch`]. Dropping it ends the subscription.
pub struct Watch {
    connection: Connection,
    filter: WatchFilter,
    changes: broadcast::Receiver<ServerChange>,
    gathered: Vec<ServerChange>,
    ready: VecDeque<ServerChange>,
    /// Nothing more will come.
    ended: CancellationToken,
    /// Reads a modern subscription.
    following: Option<AbortHandle>,
    /// Whether its resources are subscribed to at a legacy server.
    is_legacy: bool,
}

impl Connection {
    /// Watches what the server offers. A change also makes the next request for it reach the server, where the server allowed an answer to be reused.
    ///
    /// A modern subscription that breaks is opened again, and then everything watched counts as changed. Changes of lists on legacy servers come if the server
    /// sends them; its subscriptions to resources end with its session.
    ///
    /// ```no_run
    /// # async fn example(connection: longhaul_client::Connection) -> Result<(), longhaul_client::RequestError> {
    /// use longhaul_client::WatchFilter;
    /// let filter = WatchFilter { tools: true, ..WatchFilter::default() };
    /// let mut watch = connection.watch(filter).await?;
    /// while watch.next().await.is_some() {
    ///     println!("{} tools", connection.list_tools().await?.len());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Rpc`] if the server has no subscriptions.
    pub async fn watch(&self, filter: WatchFilter) -> Result<Watch, RequestError> {
        let era = self.era().await?;
        let mut watch = Watch {
            connection: self.clone(),
            changes: self.changes().receive(),
            filter,
            gathered: Vec::new(),
            ready: VecDeque::new(),
            ended: CancellationToken::new(),
            following: None,
            is_legacy: era.legacy().is_some(),
        };
        if era.legacy().is_none() {
            let subscription = self.subscribe(&watch.filter).await?;
            watch.follow(subscription);
            return Ok(watch);
        }
        self.listening().want();
        self.listen();
        self.changes().add_watch(&watch.filter.uris);
        for uri in &watch.filter.uris {
            let _turn = self.changes().turn().await;
            let params = Map::from_iter([("uri".to_owned(), uri.as_str().into())]);
            self.request(Method::ResourcesSubscribe, params).await?;
        }
        Ok(watch)
    }

    /// Opens a modern subscription, and waits until the server has accepted it.
    async fn subscribe(&self, filter: &WatchFilter) -> Result<OpenSubscription, RequestError> {
        let era = self.era().await?;
        let mut subscription = self.open_subscription(&era, filter.to_params()).await?;
        let refused = |reason: &str| RequestError::Invalid(format!("its subscription {reason}"));
        let first = subscription
            .reply
            .next()
            .await?
            .ok_or_else(|| refused("ended at once"))?;
        match Message::parse(&first) {
            Ok(Message::Notification(first)) if first.method == Method::SubscriptionsAcknowledged.as_str() => {
                Ok(subscription)
            }
            Ok(Message::Response(response)) => match response.outcome {
                Err(failure) => Err(RequestError::Rpc(read_failure(failure)?)),
                Ok(_) => Err(refused("ended at once")),
            },
            _ => Err(refused("does not begin with an acknowledgement")),
        }
    }
}

impl Watch {
    /// The next change; `None` once the server ends the subscription and refuses another one. Changes within a tenth of a second are reported once.
    ///
    /// No change is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<ServerChange> {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return Some(change);
            }
            if self.gathered.is_empty() {
                let ended = self.ended.clone();
                tokio::select! {
                    biased;
                    received = self.changes.recv() => self.gather(received)?,
                    () = ended.cancelled() => return None,
                }
                continue;
            }
            let connection = self.connection.clone();
            let mut pause = std::pin::pin!(connection.sleep(DEBOUNCE));
            loop {
                tokio::select! {
                    biased;
                    received = self.changes.recv() => self.gather(received)?,
                    () = &mut pause => break,
                }
            }
            self.ready.extend(self.gathered.drain(..));
        }
    }

    fn gather(&mut self, received: Result<ServerChange, RecvError>) -> Option<()> {
        let changes = match received {
            Ok(change) => vec![change],
            Err(RecvError::Lagged(_)) => self.filter.all(),
            Err(RecvError::Closed) => return None,
        };
        for change in changes {
            if self.filter.includes(&change) && !self.gathered.contains(&change) {
                self.gathered.push(change);
            }
        }
        Some(())
    }

    /// Reads a modern subscription in the background.
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    fn follow(&mut self, subscription: OpenSubscription) {
        let following = follow(self.connection.clone(), self.filter.clone(), subscription);
        let ended = self.ended.clone();
        let following = tokio::spawn(async move {
            following.await;
            ended.cancel();
        });
        self.following = Some(following.abort_handle());
    }
}

/// Reads a subscription and opens it again when it ends, until the server refuses.
async fn follow(connection: Connection, filter: WatchFilter, mut subscription: OpenSubscription) {
    let mut failures = 0;
    loop {
        while let Ok(Some(message)) = subscription.reply.next().await {
            match Message::parse(&message) {
                Ok(Message::Notification(notification)) => {
                    failures = 0;
                    connection.notified(&notification, None);
                }
                // The server has ended it.
                Ok(Message::Response(_)) => break,
                _ => {}
            }
        }
        subscription = loop {
            failures += 1;
            connection
                .sleep(polling::next_retry(failures, None, connection.jitter()))
                .await;
            match connection.subscribe(&filter).await {
                Ok(opened) => break opened,
                Err(error) if error.is_transient() => {}
                Err(error) => {
                    tracing::debug!(%error, "the server refuses another subscription");
                    return;
                }
            }
        };
        for change in filter.all() {
            connection.changed(change);
        }
    }
}

impl Drop for Watch {
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    fn drop(&mut self) {
        if let Some(following) = self.following.take() {
            following.abort();
            return;
        }
        if !self.is_legacy || self.filter.uris.is_empty() {
            return;
        }
        self.connection.changes().remove_watch(&self.filter.uris);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (connection, uris) = (self.connection.clone(), std::mem::take(&mut self.filter.uris));
        runtime.spawn(async move {
            for uri in uris {
                let _turn = connection.changes().turn().await;
                // Another watch needs it, perhaps one that has begun meanwhile.
                if connection.changes().is_watched(&uri) {
                    continue;
                }
                let params = Map::from_iter([("uri".to_owned(), uri.into())]);
                if let Err(error) = connection.request(Method::ResourcesUnsubscribe, params).await {
                    tracing::debug!(%error, "a subscription to a resource was not ended");
                }
            }
        });
    }
}

//! Events between nodes: each sends its own with `NOTIFY`, after their commits, and hears of those of others with `LISTEN`.
//!
//! They have a connection of their own. In the transaction of a change, `NOTIFY` would make all nodes wait for each other until that is on the disk, and fail
//! the change when the server's queue is full. What is lost costs nothing but time: every reader of events also looks by itself.

use crate::{
    connections,
    effects::{CommittedEvents, Published},
    executor::{pause, spawn},
    fault::Fault,
};
use futures_util::future::poll_fn;
use longhaul_core::{
    NodeId, UnixMillis,
    store::{Hint, StoreEvent},
};
use longhaul_store::code::{self, STOP_REASONS};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Weak,
    time::Duration,
};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, unbounded_channel};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};

/// Events of so many milliseconds are sent together.
const COALESCED_FOR: Duration = Duration::from_millis(5);
/// PostgreSQL takes payloads of fewer than 8,000 bytes.
const MOST_BYTES: usize = 7_900;
const RECONNECT_AFTER: Duration = Duration::from_millis(500);

/// The connection for events of one store.
pub(crate) struct Notifications {
    pub(crate) config: Config,
    pub(crate) schema: String,
    pub(crate) published: Weak<Published>,
    /// What this process has committed.
    pub(crate) outgoing: Receiver<CommittedEvents>,
    /// Tells this process's notifications from those of others.
    pub(crate) me: u64,
}

impl Notifications {
    /// Runs until the store is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            match self.connected().await {
                Ok(()) => return,
                Err(why) => tracing::debug!(%why, "events of other nodes cannot be heard; connecting again"),
            }
            pause(RECONNECT_AFTER).await;
            if self.published.strong_count() == 0 {
                return;
            }
        }
    }

    /// Returns when the store was dropped.
    async fn connected(&mut self) -> Result<(), Fault> {
        let (client, mut heard) = self.connect().await?;
        let channel = client
            .query_one(
                "SELECT 'longhaul_' || oid FROM pg_namespace WHERE nspname = $1",
                &[&self.schema],
            )
            .await?;
        let channel: String = channel.try_get(0)?;
        // Listening comes first: what happens before the listeners have read again is then heard. What was being sent when the connection before was lost may
        // not have come to the others, so they are told, too.
        let nothing = self.nothing_in_particular();
        client
            .batch_execute(&format!(
                "SET synchronous_commit = off; LISTEN {channel}; NOTIFY {channel}, '{nothing}'"
            ))
            .await?;
        self.tell(&[StoreEvent::Resync]);
        loop {
            tokio::select! {
                payload = heard.recv() => match payload {
                    Some(payload) => self.hear(&payload),
                    None => return Err(Fault::Outage("the connection was lost".to_owned())),
                },
                events = self.outgoing.recv() => {
                    let Some(events) = events else { return Ok(()) };
                    pause(COALESCED_FOR).await;
                    let payload = self.payload(events);
                    client.execute("SELECT pg_notify($1, $2)", &[&channel, &payload]).await?;
                }
            }
        }
    }

    /// A connection, and what is heard on it.
    async fn connect(&self) -> Result<(Client, UnboundedReceiver<String>), Fault> {
        let (client, mut connection) = self.config.connect(NoTls).await?;
        let (tell, heard) = unbounded_channel();
        spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    let _ = tell.send(notification.payload().to_owned());
                }
            }
        });
        Ok((client, heard))
    }

    /// What was committed by now, each task once.
    fn payload(&mut self, first: CommittedEvents) -> String {
        let mut tasks: BTreeMap<String, (u64, Option<i64>)> = BTreeMap::new();
        let (mut queues, mut permits) = (BTreeSet::new(), BTreeSet::new());
        let mut pauses = false;
        let mut events = Some(first);
        while let Some(part) = events {
            for event in part.iter() {
                match event {
                    StoreEvent::TaskChanged(hint) => {
                        let stop = hint.stop.map(|reason| code::of(&STOP_REASONS, reason));
                        let known = tasks.entry(hint.task.to_string()).or_default();
                        *known = (known.0.max(hint.version), known.1.or(stop));
                    }
                    StoreEvent::QueueReady { tool, ready_at } => {
                        queues.insert((tool.to_string(), ready_at.0));
                    }
                    StoreEvent::PermitsChanged { tool, by } => {
                        permits.insert((tool.to_string(), by.0));
                    }
                    StoreEvent::PausesChanged => pauses = true,
                    StoreEvent::Resync => {}
                }
            }
            events = self.outgoing.try_recv().ok();
        }
        let is_whole = self
            .published
            .upgrade()
            .is_some_and(|published| !published.take_overflow());
        let all = json!({ "from": self.me, "tasks": tasks, "queues": queues, "permits": permits, "pauses": pauses })
            .to_string();
        match is_whole && all.len() <= MOST_BYTES {
            true => all,
            false => self.nothing_in_particular(),
        }
    }

    /// A payload that says that anything may have changed.
    fn nothing_in_particular(&self) -> String {
        json!({ "from": self.me }).to_string()
    }

    fn hear(&self, payload: &str) {
        let Ok(said) = serde_json::from_str::<Value>(payload) else {
            return self.tell(&[StoreEvent::Resync]);
        };
        if said["from"].as_u64() != Some(self.me) {
            self.tell(&events(&said).unwrap_or_else(|| vec![StoreEvent::Resync]));
        }
    }

    fn tell(&self, events: &[StoreEvent]) {
        if let Some(published) = self.published.upgrade() {
            published.tell(events);
        }
    }
}

/// The events of a payload; `None` if it has none, or if a later release has written it.
fn events(said: &Value) -> Option<Vec<StoreEvent>> {
    let mut events = Vec::new();
    for (task, said) in said["tasks"].as_object()? {
        events.push(StoreEvent::TaskChanged(Hint {
            task: task.parse().ok()?,
            version: said[0].as_u64()?,
            stop: said[1].as_i64().and_then(|number| code::word(&STOP_REASONS, number)),
            ended: None,
        }));
    }
    for said in said["queues"].as_array()? {
        let (tool, ready_at) = (said[0].as_str()?.into(), UnixMillis(said[1].as_i64()?));
        events.push(StoreEvent::QueueReady { tool, ready_at });
    }
    for said in said["permits"].as_array()? {
        let (tool, by) = (said[0].as_str()?.into(), NodeId(said[1].as_i64()?));
        events.push(StoreEvent::PermitsChanged { tool, by });
    }
    // An earlier release says nothing of it.
    if said["pauses"] == true {
        events.push(StoreEvent::PausesChanged);
    }
    Some(events)
}

/// The settings of the connection, which the pools have too.
pub(crate) fn config(address: &str) -> Result<Config, crate::OpenError> {
    let mut config = connections::config(address)?;
    config.application_name("longhaul events");
    Ok(config)
}

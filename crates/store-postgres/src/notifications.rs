//! Events between nodes: each sends its own with `NOTIFY`, after their commits, and hears of those of others with `LISTEN`.
//!
//! They have a connection of their own. In the transaction of a change, `NOTIFY` would make all nodes wait for each other until that is on the disk, and fail
//! the change when the server's queue is full. What is lost costs nothing but time: every reader of events also looks by itself.
//!
//! A process also hears itself, once a second at least. While it does not, or has no connection, its readers look twice a second.

use crate::{
    address::Address,
    connections,
    effects::{Outgoing, Published},
    executor::{pause, spawn},
    fault::Fault,
    messages,
};
use futures_util::future::poll_fn;
use longhaul_core::{
    NodeId, UnixMillis,
    store::{Hint, StoreError, StoreEvent},
};
use longhaul_store::code::{self, STOP_REASONS};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Weak,
    time::Duration,
};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, unbounded_channel};
use tokio_postgres::{AsyncMessage, Client};

/// Events of so many milliseconds are sent together.
const COALESCED_FOR: Duration = Duration::from_millis(5);
/// PostgreSQL takes payloads of fewer than 8,000 bytes.
const MOST_BYTES: usize = 7_900;
/// What is left of that for messages.
const MOST_BYTES_OF_MESSAGES: usize = MOST_BYTES - 120;
const RECONNECT_AFTER: Duration = Duration::from_millis(500);
/// While no events of others are heard, this process reads again so often what it waits for.
const POLL_EVERY: Duration = Duration::from_millis(500);
/// After so many polls without an answer the connection is made anew.
const MOST_POLLS: u32 = 60;

/// The connection for events of one store.
pub(crate) struct Notifications {
    pub(crate) address: Address,
    pub(crate) schema: String,
    pub(crate) published: Weak<Published>,
    /// What this process has committed.
    pub(crate) outgoing: Receiver<Outgoing>,
    /// Tells this process's notifications from those of others.
    pub(crate) me: u64,
}

impl Notifications {
    /// Runs until the store is dropped.
    pub(crate) async fn run(mut self) {
        let mut failures = 0_u32;
        loop {
            match self.connected(&mut failures).await {
                Ok(()) => return,
                Err(why) => {
                    failures = failures.saturating_add(1);
                    // A connection that was lost is mostly there again at once.
                    if failures == 2 {
                        let address = self.address.shown();
                        tracing::warn!(address, %why, "events of other servers cannot be heard, so the database is polled; connecting again");
                    }
                }
            }
            pause(RECONNECT_AFTER).await;
            self.tell(&[StoreEvent::Resync]);
            if self.published.strong_count() == 0 {
                return;
            }
        }
    }

    /// Returns when the store was dropped. `failures` are those since it was last connected.
    async fn connected(&mut self, failures: &mut u32) -> Result<(), Fault> {
        let (client, mut heard) = self.answered(self.connect()).await?;
        let channel = async {
            let sql = "SELECT 'longhaul_' || oid FROM pg_namespace WHERE nspname = $1";
            Ok(client.query_one(sql, &[&self.schema]).await?)
        };
        let channel: String = self.answered(channel).await?.try_get(0)?;
        // Listening comes first: what happens before the listeners have read again is then heard. What was being sent when the connection before was lost may
        // not have come to the others, so they are told, too.
        let nothing = self.nothing_in_particular();
        let listen = format!("SET synchronous_commit = off; LISTEN {channel}; NOTIFY {channel}, '{nothing}'");
        self.answered(async { Ok(client.batch_execute(&listen).await?) })
            .await?;
        self.tell(&[StoreEvent::Resync]);
        if std::mem::take(failures) > 1 {
            tracing::warn!("events of other servers are heard again");
        }
        let mut own = OwnEvent::Heard;
        let mut look = Box::pin(pause(POLL_EVERY));
        loop {
            tokio::select! {
                payload = heard.recv() => match payload {
                    Some(payload) => {
                        if self.answered(self.hear(&client, &payload)).await? {
                            own = OwnEvent::Heard;
                        }
                    }
                    None => return Err(Fault::Outage("the connection was lost".to_owned())),
                },
                first = self.outgoing.recv() => {
                    let Some(first) = first else { return Ok(()) };
                    pause(COALESCED_FOR).await;
                    let payloads = self.payloads(first);
                    self.answered(send(&client, &channel, &payloads)).await?;
                }
                () = &mut look => {
                    own = match own {
                        OwnEvent::Heard => OwnEvent::Due,
                        OwnEvent::Due | OwnEvent::Sent => {
                            if own == OwnEvent::Sent {
                                self.tell(&[StoreEvent::Resync]);
                            }
                            let nothing = [ToldEvents::default().payload(self.me)];
                            self.answered(send(&client, &channel, &nothing)).await?;
                            OwnEvent::Sent
                        }
                    };
                    look = Box::pin(pause(POLL_EVERY));
                }
            }
        }
    }

    /// What the database answers. As long as it answers nothing, no event is heard either.
    async fn answered<T>(&self, answer: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let mut answer = pin!(answer);
        for _ in 0..MOST_POLLS {
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                () = pause(POLL_EVERY) => self.tell(&[StoreEvent::Resync]),
            }
        }
        Err(Fault::NoAnswer)
    }

    /// A connection, and what is heard on it.
    async fn connect(&self) -> Result<(Client, UnboundedReceiver<String>), Fault> {
        // It was tried with the first connection.
        let (mut config, tls) = self
            .address
            .connector()
            .map_err(|error| StoreError::Failed(error.to_string()))?;
        config.application_name("longhaul events");
        connections::set_up(&mut config);
        let (client, mut connection) = config.connect(tls).await?;
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

    /// What was committed by now, each task once, and what was sent.
    fn payloads(&mut self, first: Outgoing) -> Vec<String> {
        let (mut events, mut messages) = (ToldEvents::default(), Vec::new());
        let mut next = Some(first);
        while let Some(part) = next {
            match part {
                Outgoing::Committed(part) => part.iter().for_each(|event| events.add(event)),
                Outgoing::Message { to, text } => messages.push(json!([number(to), &*text])),
                Outgoing::Kept { to, id } => messages.push(json!([number(to), id])),
            }
            next = self.outgoing.try_recv().ok();
        }
        let is_whole = self
            .published
            .upgrade()
            .is_some_and(|published| !published.take_overflow());
        let mut payloads = Vec::new();
        let of_events = events.payload(self.me);
        match is_whole && of_events.len() <= MOST_BYTES {
            true if events.is_empty() => {}
            true => payloads.push(of_events),
            false => payloads.push(self.nothing_in_particular()),
        }
        let mut together: Vec<Value> = Vec::new();
        let mut bytes = 0;
        for message in messages {
            let length = message.to_string().len() + 1;
            if bytes + length > MOST_BYTES_OF_MESSAGES {
                payloads.push(of_messages(self.me, &std::mem::take(&mut together)));
                bytes = 0;
            }
            bytes += length;
            together.push(message);
        }
        if !together.is_empty() {
            payloads.push(of_messages(self.me, &together));
        }
        payloads
    }

    /// A payload that says that anything may have changed.
    fn nothing_in_particular(&self) -> String {
        json!({ "from": self.me }).to_string()
    }

    /// Returns whether it is this process's own.
    async fn hear(&self, client: &Client, payload: &str) -> Result<bool, Fault> {
        let Ok(said) = serde_json::from_str::<Value>(payload) else {
            self.tell(&[StoreEvent::Resync]);
            return Ok(false);
        };
        if said["from"].as_u64() == Some(self.me) {
            return Ok(true);
        }
        let events = events(&said).unwrap_or_else(|| vec![StoreEvent::Resync]);
        if !events.is_empty() {
            self.tell(&events);
        }
        // An earlier release says nothing of messages.
        for message in said["messages"].as_array().into_iter().flatten() {
            let to = message[0].as_i64().map(NodeId);
            let is_for_us = to.map_or(message[0].is_null(), |to| self.is_here(to));
            if !is_for_us {
                continue;
            }
            let text = match (&message[1], message[1].as_i64()) {
                (Value::String(text), _) => Some(text.as_str().into()),
                (_, Some(id)) if to.is_none() => messages::read(client, &self.schema, id).await?,
                (_, Some(id)) => messages::take(client, &self.schema, id).await?,
                _ => None,
            };
            if let Some(text) = text {
                self.tell(&[StoreEvent::Message { to, text }]);
            }
        }
        Ok(false)
    }

    /// Whether a node is one of this process.
    fn is_here(&self, node: NodeId) -> bool {
        self.published
            .upgrade()
            .is_some_and(|published| published.has_opened(node))
    }

    fn tell(&self, events: &[StoreEvent]) {
        if let Some(published) = self.published.upgrade() {
            published.tell(events);
        }
    }
}

/// The event by which a process finds out that it hears events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnEvent {
    Heard,
    /// It is sent with the next look.
    Due,
    /// It is not heard yet.
    Sent,
}

async fn send(client: &Client, channel: &str, payloads: &[String]) -> Result<(), Fault> {
    let statement = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload";
    client.execute(statement, &[&channel, &payloads]).await?;
    Ok(())
}

/// What was committed within a few milliseconds.
#[derive(Default)]
struct ToldEvents {
    tasks: BTreeMap<String, (u64, Option<i64>)>,
    queues: BTreeSet<(String, i64)>,
    permits: BTreeSet<(String, i64)>,
    pauses: bool,
}

impl ToldEvents {
    fn add(&mut self, event: &StoreEvent) {
        match event {
            StoreEvent::TaskChanged(hint) => {
                let stop = hint.stop.map(|reason| code::of(&STOP_REASONS, reason));
                let known = self.tasks.entry(hint.task.to_string()).or_default();
                *known = (known.0.max(hint.version), known.1.or(stop));
            }
            StoreEvent::QueueReady { tool, ready_at } => {
                self.queues.insert((tool.to_string(), ready_at.0));
            }
            StoreEvent::PermitsChanged { tool, by } => {
                self.permits.insert((tool.to_string(), by.0));
            }
            StoreEvent::PausesChanged => self.pauses = true,
            StoreEvent::Message { .. } | StoreEvent::Resync => {}
        }
    }

    fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.queues.is_empty() && self.permits.is_empty() && !self.pauses
    }

    fn payload(&self, me: u64) -> String {
        let Self {
            tasks,
            queues,
            permits,
            pauses,
        } = self;
        json!({ "from": me, "tasks": tasks, "queues": queues, "permits": permits, "pauses": pauses }).to_string()
    }
}

/// The node that a message is for; `null` for all. An earlier release ignores what is for all.
fn number(to: Option<NodeId>) -> Option<i64> {
    to.map(|node| node.0)
}

/// An earlier release takes it for a payload without events.
fn of_messages(me: u64, messages: &[Value]) -> String {
    json!({ "from": me, "tasks": {}, "queues": [], "permits": [], "messages": messages }).to_string()
}

/// Whether a message is short enough to be sent in a payload.
pub(crate) fn fits(text: &str) -> bool {
    // As JSON it has its quotes and backslashes escaped.
    text.len() <= MOST_BYTES_OF_MESSAGES && json!([i64::MIN, text]).to_string().len() < MOST_BYTES_OF_MESSAGES
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

//! Events between nodes: each sends its own with `NOTIFY`, after their commits, and hears of those of others with `LISTEN`.
//!
//! They have a connection of their own. In the transaction of a change, `NOTIFY` would make all nodes wait for each other until that is on the disk, and fail
//! the change when the server's queue is full. What is lost costs nothing but time: every reader of events also looks by itself.
//!
//! A process also hears itself, once a second at least. While it does not, or has no connection, its readers look twice a second, and it sends on one of the
//! store's other connections, too: what comes that way is sent that way from then on. What others have sent and was not heard here is noticed by its number
//! (`traffic`).

use super::{OutgoingNotification, PublishedState, messages};
use crate::{
    connection::{Address, Connections, connections},
    executor::{pause, spawn},
    statement::{Execute, Fault},
};
use futures_util::future::poll_fn;
use longhaul_core::{
    NodeId, Priority, UnixMillis,
    store::{EventDelivery, Hint, QueuePlace, StoreError, StoreEvent},
};
use longhaul_store::code::{self, STOP_REASONS};
use serde_json::{Map, Value, json};
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
const MOST_BYTES_OF_MESSAGES: usize = MOST_BYTES - 160;
const RECONNECT_AFTER: Duration = Duration::from_millis(500);
/// While no events of others are heard, this process reads again so often what it waits for.
const POLL_EVERY: Duration = Duration::from_millis(500);
/// After so many looks without its own event a process says so.
const MOST_MISSED: u32 = 4;
/// While events go through another connection, its own is tried with every nth look.
const TRY_OWN_EVERY: u32 = 20;
const NOTIFY: &str = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload";
/// After so many polls without an answer the connection is made anew.
const MOST_POLLS: u32 = 60;

/// The connection for events of one store.
pub(crate) struct Notifications {
    pub(crate) address: Address,
    pub(crate) schema: String,
    pub(crate) published: Weak<PublishedState>,
    /// What this process has committed.
    pub(crate) outgoing: Receiver<OutgoingNotification>,
    /// Those of the store, for when what is sent on the connection for events is lost.
    pub(crate) connections: Connections,
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
                    self.with(|published| published.traffic.set_delivery(EventDelivery::Lost));
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
        let (number, nothing) = self.nothing_in_particular();
        let listen = format!("SET synchronous_commit = off; LISTEN {channel}; NOTIFY {channel}, '{nothing}'");
        self.answered(async { Ok(client.batch_execute(&listen).await?) })
            .await?;
        self.with(|published| {
            published.traffic.was_sent(number);
            published.traffic.set_delivery(EventDelivery::Own);
        });
        self.tell(&[StoreEvent::Resync]);
        if std::mem::take(failures) > 1 {
            tracing::warn!("events of other servers are heard again");
        }
        let mut way = Way::new(channel);
        let mut look = Box::pin(pause(POLL_EVERY));
        loop {
            tokio::select! {
                payload = heard.recv() => match payload {
                    Some(payload) => match self.answered(self.hear(&client, &payload)).await? {
                        NotificationSource::Own { by_other } => way.heard(by_other),
                        NotificationSource::Another => {}
                    }
                    None => return Err(Fault::Outage("the connection was lost".to_owned())),
                },
                first = self.outgoing.recv() => {
                    let Some(first) = first else { return Ok(()) };
                    pause(COALESCED_FOR).await;
                    let payloads = self.payloads(first);
                    self.send(&client, &way, payloads).await?;
                }
                () = &mut look => {
                    self.look(&client, &mut way).await?;
                    look = Box::pin(pause(POLL_EVERY));
                }
            }
        }
    }

    /// Finds out whether this process hears itself, and polls if it does not, or not others.
    async fn look(&self, client: &Client, way: &mut Way) -> Result<(), Fault> {
        let was_other = way.by_other;
        if way.look() || self.with(|published| published.traffic.is_any_silent()) == Some(true) {
            self.tell(&[StoreEvent::Resync]);
        }
        self.say_delivery(way);
        if way.by_other && !was_other {
            // What was sent on its own connection has not come to the others.
            let (number, nothing) = self.nothing_in_particular();
            self.send(client, way, vec![(number, nothing)]).await?;
        }
        if way.awaits_own {
            self.send(client, way, vec![self.numbered(ToldEvents::default().members())])
                .await?;
        }
        if way.tries_own() {
            // Without a number, since others may not get it.
            let payload = json!({ "from": self.me(), "tasks": {}, "queues": [], "permits": [] }).to_string();
            self.answered(send(client, &way.channel, &[payload])).await?;
        }
        Ok(())
    }

    /// Logs how events reach others once that has changed.
    fn say_delivery(&self, way: &Way) {
        let now = match (way.missed >= MOST_MISSED, way.by_other) {
            (true, _) => EventDelivery::Lost,
            (false, true) => EventDelivery::Other,
            // It is not known yet.
            (false, false) if way.missed > 0 => return,
            (false, false) => EventDelivery::Own,
        };
        let before = self.with(|published| published.traffic.set_delivery(now));
        if before.is_none_or(|before| before == now) {
            return;
        }
        match now {
            EventDelivery::Own => tracing::warn!("the events of this server arrive again"),
            EventDelivery::Other => tracing::warn!(
                address = self.address.shown(),
                "events that this server sends on its connection for events are lost, so it sends them on those of `store`; is there a pooler at this address? \
                 `store_direct` must name the database itself"
            ),
            EventDelivery::Lost => tracing::warn!(
                address = self.address.shown(),
                "this server does not hear its own events, so others may not hear them either: the database is polled. `store_direct`, or else `store`, must name the \
                 database itself"
            ),
        }
    }

    /// Sends payloads on the connection that others hear, or on both if that is not known.
    async fn send(&self, client: &Client, way: &Way, numbered: Vec<(u64, String)>) -> Result<(), Fault> {
        let Some(last) = numbered.iter().map(|(number, _)| *number).max() else {
            return Ok(());
        };
        let payloads: Vec<String> = numbered.into_iter().map(|(_, payload)| payload).collect();
        if way.by_other || way.missed > 0 {
            let marked: Vec<String> = payloads.iter().map(|payload| by_other(payload)).collect();
            let sent = async {
                let connection = self.connections.get().await?;
                let sent = connection.execute(NOTIFY, &[&way.channel, &marked]).await;
                connection.settle(sent)
            };
            match self.answered(sent).await {
                Ok(_) => {}
                Err(fault) if way.by_other => return Err(fault),
                Err(why) => tracing::debug!(%why, "events were not sent on another connection"),
            }
        }
        if !way.by_other {
            self.answered(send(client, &way.channel, &payloads)).await?;
        }
        self.with(|published| published.traffic.was_sent(last));
        Ok(())
    }

    fn me(&self) -> u64 {
        self.with(|published| published.traffic.me).unwrap_or_default()
    }

    fn with<T>(&self, read: impl FnOnce(&PublishedState) -> T) -> Option<T> {
        Some(read(&*self.published.upgrade()?))
    }

    /// A payload with the next number. It is told of as sent once the database has taken it.
    fn numbered(&self, members: Map<String, Value>) -> (u64, String) {
        let (me, number) = self
            .with(|published| (published.traffic.me, published.traffic.next_number()))
            .unwrap_or_default();
        let mut payload = Map::new();
        payload.insert("from".to_owned(), me.into());
        payload.insert("number".to_owned(), number.into());
        payload.extend(members);
        (number, Value::Object(payload).to_string())
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
    fn payloads(&mut self, first: OutgoingNotification) -> Vec<(u64, String)> {
        let (mut events, mut messages) = (ToldEvents::default(), Vec::new());
        let mut next = Some(first);
        while let Some(part) = next {
            match part {
                OutgoingNotification::Committed(part) => part.iter().for_each(|event| events.add(event)),
                OutgoingNotification::Message { to, text } => messages.push(json!([number(to), &*text])),
                OutgoingNotification::Kept { to, id } => messages.push(json!([number(to), id])),
            }
            next = self.outgoing.try_recv().ok();
        }
        let is_whole = self
            .published
            .upgrade()
            .is_some_and(|published| !published.take_overflow());
        let mut payloads = Vec::new();
        if !is_whole || !events.is_empty() {
            let (number, of_events) = self.numbered(events.members());
            payloads.push(match is_whole && of_events.len() <= MOST_BYTES {
                true => (number, of_events),
                false => self.nothing_in_particular(),
            });
        }
        let mut together: Vec<Value> = Vec::new();
        let mut bytes = 0;
        for message in messages {
            let length = message.to_string().len() + 1;
            if bytes + length > MOST_BYTES_OF_MESSAGES {
                payloads.push(self.numbered(of_messages(std::mem::take(&mut together))));
                bytes = 0;
            }
            bytes += length;
            together.push(message);
        }
        if !together.is_empty() {
            payloads.push(self.numbered(of_messages(together)));
        }
        payloads
    }

    /// A payload that says that anything may have changed.
    fn nothing_in_particular(&self) -> (u64, String) {
        self.numbered(Map::new())
    }

    async fn hear(&self, client: &Client, payload: &str) -> Result<NotificationSource, Fault> {
        let Ok(said) = serde_json::from_str::<Value>(payload) else {
            self.tell(&[StoreEvent::Resync]);
            return Ok(NotificationSource::Another);
        };
        let from = said["from"].as_u64();
        if from == Some(self.me()) {
            let by_other = said["by_other"] == true;
            return Ok(NotificationSource::Own { by_other });
        }
        let number = said["number"].as_u64();
        if from.and_then(|from| self.with(|published| published.traffic.was_heard(from, number))) == Some(true) {
            // Some before it were lost.
            self.tell(&[StoreEvent::Resync]);
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
        Ok(NotificationSource::Another)
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

/// Whose a notification is.
enum NotificationSource {
    /// This process's own. `by_other`: it was sent on another connection than that for events.
    Own {
        by_other: bool,
    },
    Another,
}

/// How events are sent, and whether this process hears its own.
struct Way {
    channel: String,
    /// An event of this process was sent, to be heard.
    awaits_own: bool,
    /// For so many looks none was heard.
    missed: u32,
    /// One was heard since the last look that was sent on the connection for events, and one that was sent on another one.
    heard_own: bool,
    heard_other: bool,
    /// What is sent on the connection for events is lost.
    by_other: bool,
    looks: u32,
}

impl Way {
    fn new(channel: String) -> Self {
        Self {
            channel,
            awaits_own: false,
            missed: 0,
            heard_own: false,
            heard_other: false,
            by_other: false,
            looks: 0,
        }
    }

    fn heard(&mut self, by_other: bool) {
        match by_other {
            true => self.heard_other = true,
            false => self.heard_own = true,
        }
    }

    /// Looks what was heard since the last look. Returns whether that was too little.
    fn look(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        let (own, other) = (
            std::mem::take(&mut self.heard_own),
            std::mem::take(&mut self.heard_other),
        );
        // While it is tried which of the two arrives, both are sent at once.
        match (own, other) {
            (true, _) => self.by_other = false,
            (false, true) if self.missed > 0 => self.by_other = true,
            _ => {}
        }
        if own || other {
            (self.missed, self.awaits_own) = (0, false);
            return false;
        }
        let is_missing = std::mem::replace(&mut self.awaits_own, true);
        self.missed = self.missed.saturating_add(u32::from(is_missing));
        is_missing
    }

    fn tries_own(&self) -> bool {
        self.by_other && self.looks.is_multiple_of(TRY_OWN_EVERY)
    }
}

/// A payload as it is sent on another connection than that for events.
fn by_other(payload: &str) -> String {
    payload.replacen('{', r#"{"by_other":true,"#, 1)
}

async fn send(client: &Client, channel: &str, payloads: &[String]) -> Result<(), Fault> {
    client.execute(NOTIFY, &[&channel, &payloads]).await?;
    Ok(())
}

/// What was committed within a few milliseconds.
#[derive(Default)]
struct ToldEvents {
    tasks: BTreeMap<String, (u64, Option<i64>)>,
    queues: BTreeSet<(String, i64, u8)>,
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
            StoreEvent::QueueReady { tool, place } => {
                (self.queues).insert((tool.to_string(), place.ready_at.0, place.priority.get()));
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

    fn members(&self) -> Map<String, Value> {
        let Self {
            tasks,
            queues,
            permits,
            pauses,
        } = self;
        object(json!({ "tasks": tasks, "queues": queues, "permits": permits, "pauses": pauses }))
    }
}

/// The node that a message is for; `null` for all. An earlier release ignores what is for all.
fn number(to: Option<NodeId>) -> Option<i64> {
    to.map(|node| node.0)
}

/// An earlier release takes it for a payload without events.
fn of_messages(messages: Vec<Value>) -> Map<String, Value> {
    object(json!({ "tasks": {}, "queues": [], "permits": [], "messages": messages }))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
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
        // An earlier release names no priority.
        let priority = said[2]
            .as_u64()
            .and_then(|number| Priority::new(number.try_into().ok()?));
        let (tool, ready_at) = (said[0].as_str()?.into(), UnixMillis(said[1].as_i64()?));
        let place = QueuePlace {
            priority: priority.unwrap_or_default(),
            ready_at,
        };
        events.push(StoreEvent::QueueReady { tool, place });
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

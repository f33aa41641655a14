//! What takes effect with a commit: events for listeners, and the set of ended sessions.

use super::{pauses::KnownPauses, traffic::EventTraffic};
use longhaul_core::{
    NodeId, Outcome, SessionKey, Task, UnixMillis,
    store::{CommitCounter, QueuePlace, StoreEvent, StoreListener},
};
use longhaul_store::EndedSessions;
use parking_lot::{Mutex, RwLock};
use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::mpsc::Sender;

/// What takes effect once a transaction is committed, collected while it runs.
#[derive(Default)]
pub(crate) struct Effects {
    events: Vec<StoreEvent>,
}

impl Effects {
    /// A task was created or changed. With the outcome, if it has just ended.
    pub(crate) fn changed(&mut self, task: &Task, outcome: Option<&Outcome>) {
        self.events.push(StoreEvent::of_change(task, outcome));
        self.events.extend(StoreEvent::queue_ready(task));
    }

    /// A tool has a task in its queue that was not there before.
    pub(crate) fn queue_ready(&mut self, tool: Arc<str>, place: QueuePlace) {
        self.events.push(StoreEvent::QueueReady { tool, place });
    }

    /// Tools were paused, or resumed.
    pub(crate) fn pauses_changed() -> Self {
        Self {
            events: vec![StoreEvent::PausesChanged],
        }
    }

    /// What a node holds of a tool's permits has changed.
    pub(crate) fn permits_changed(&mut self, tool: Arc<str>, by: NodeId) {
        self.events.push(StoreEvent::PermitsChanged { tool, by });
    }
}

/// What other processes are told.
#[derive(Debug, Clone)]
pub(crate) enum OutgoingNotification {
    /// The events of one commit.
    Committed(Arc<[StoreEvent]>),
    /// A message to a node, or to all.
    Message { to: Option<NodeId>, text: Arc<str> },
    /// The same, with this number in the table `messages`.
    Kept { to: Option<NodeId>, id: i64 },
}

/// What this process knows of what is committed: the listeners, and the ended sessions, which every legacy request reads.
pub(crate) struct PublishedState {
    listeners: Mutex<Vec<StoreListener>>,
    /// What other nodes are to be told.
    outgoing: Sender<OutgoingNotification>,
    /// The nodes that this process has opened.
    nodes: RwLock<HashSet<NodeId>>,
    /// Whether something did not fit there.
    overflow: AtomicBool,
    ended_sessions: RwLock<EndedSessions>,
    pub(crate) traffic: EventTraffic,
    pub(crate) pauses: KnownPauses,
    pub(crate) commits: CommitCounter,
}

impl PublishedState {
    pub(crate) fn new(outgoing: Sender<OutgoingNotification>) -> Self {
        Self {
            listeners: Mutex::default(),
            outgoing,
            nodes: RwLock::default(),
            overflow: AtomicBool::new(false),
            ended_sessions: RwLock::default(),
            traffic: EventTraffic::new(),
            pauses: KnownPauses::default(),
            commits: CommitCounter::default(),
        }
    }

    pub(crate) fn listen(&self, listener: StoreListener) {
        self.listeners.lock().push(listener);
    }

    /// Call it after the commit, and after its acknowledgements. This process learns all of its own events here; other nodes learn of them a little later.
    pub(crate) fn committed(&self, effects: Effects) {
        if effects.events.is_empty() {
            return;
        }
        let events: Arc<[StoreEvent]> = effects.events.into();
        self.tell(&events);
        if self.outgoing.try_send(OutgoingNotification::Committed(events)).is_err() {
            self.overflow.store(true, Ordering::Relaxed);
        }
    }

    /// Tells other processes. If too much waits already, it is lost.
    pub(crate) fn send(&self, message: OutgoingNotification) {
        let _ = self.outgoing.try_send(message);
    }

    pub(crate) fn node_opened(&self, node: NodeId) {
        self.nodes.write().insert(node);
    }

    /// Whether this process has opened a node.
    pub(crate) fn has_opened(&self, node: NodeId) -> bool {
        self.nodes.read().contains(&node)
    }

    /// Whether events were left out since this was asked last: others are then told that anything may have changed.
    pub(crate) fn take_overflow(&self) -> bool {
        self.overflow.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn tell(&self, events: &[StoreEvent]) {
        let listeners = self.listeners.lock().clone();
        for listener in listeners {
            listener(events);
        }
    }

    pub(crate) fn session_ended(&self, session: &SessionKey) -> bool {
        self.ended_sessions.read().contains(session)
    }

    /// Whether the limit of ended sessions allows another one. Those that are being written are not counted.
    pub(crate) fn may_end(&self, session: &SessionKey) -> bool {
        self.ended_sessions.read().may_add(session)
    }

    /// Of several times the latest counts.
    pub(crate) fn sessions_ended(&self, sessions: impl IntoIterator<Item = (SessionKey, UnixMillis)>) {
        let mut ended = self.ended_sessions.write();
        for (session, until) in sessions {
            ended.add(session, until);
        }
    }

    pub(crate) fn forget_sessions(&self, at: UnixMillis) {
        self.ended_sessions.write().remove_expired(at);
    }
}

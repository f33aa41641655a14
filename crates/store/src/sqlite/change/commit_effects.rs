//! What takes effect with a commit: events for listeners, the set of ended sessions, the cache of ended tasks.

use super::ended::EndedRecords;
use crate::ended_sessions::EndedSessions;
use longhaul_core::{
    Outcome, SessionKey, Task, TaskId, UnixMillis,
    store::{CommitCounter, QueuePlace, StoreEvent, StoreListener},
};
use parking_lot::{Mutex, RwLock};
use rusqlite::Connection;
use std::sync::Arc;

/// What takes effect once a transaction is committed, collected while it runs.
#[derive(Default)]
pub(crate) struct CommitEffects {
    events: Vec<StoreEvent>,
    sessions: Vec<SessionEffect>,
    deleted: Vec<TaskId>,
    /// The log has values that its owner had deleted.
    pub(crate) truncates_log: bool,
}

enum SessionEffect {
    Ended(SessionKey, UnixMillis),
    Forgotten(UnixMillis),
}

impl CommitEffects {
    /// A task was created or changed. With the outcome, if it has just ended.
    pub(crate) fn changed(&mut self, task: &Task, outcome: Option<&Outcome>) {
        self.events.push(StoreEvent::of_change(task, outcome));
        self.events.extend(StoreEvent::queue_ready(task));
    }

    /// A tool has a task in its queue that was not there before.
    pub(crate) fn queue_ready(&mut self, tool: &Arc<str>, place: QueuePlace) {
        let tool = Arc::clone(tool);
        self.events.push(StoreEvent::QueueReady { tool, place });
    }

    pub(crate) fn deleted(&mut self, id: &TaskId) {
        self.deleted.push(id.clone());
    }

    pub(crate) fn session_ended(&mut self, session: &SessionKey, until: UnixMillis) {
        self.sessions.push(SessionEffect::Ended(session.clone(), until));
    }

    pub(crate) fn sessions_forgotten(&mut self, at: UnixMillis) {
        self.sessions.push(SessionEffect::Forgotten(at));
    }
}

/// Committed state that is kept in memory: the listeners, the set of ended sessions, which every legacy request reads, and cached records
/// of ended tasks.
#[derive(Default)]
pub(crate) struct PublishedState {
    listeners: Mutex<Vec<StoreListener>>,
    ended_sessions: RwLock<EndedSessions>,
    pub(crate) ended: EndedRecords,
    pub(crate) commits: CommitCounter,
}

impl PublishedState {
    /// Loads the ended sessions from the file.
    pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare("SELECT session, until FROM ended_sessions")?;
        let session = |row: &rusqlite::Row<'_>| {
            let name: String = row.get(0)?;
            Ok((SessionKey::named(name), UnixMillis(row.get(1)?)))
        };
        let mut ended = EndedSessions::default();
        for row in statement.query_map([], session)? {
            let (session, until) = row?;
            ended.add(session, until);
        }
        Ok(Self {
            listeners: Mutex::default(),
            ended_sessions: RwLock::new(ended),
            ended: EndedRecords::default(),
            commits: CommitCounter::default(),
        })
    }

    pub(crate) fn listen(&self, listener: StoreListener) {
        self.listeners.lock().push(listener);
    }

    pub(crate) fn session_ended(&self, session: &SessionKey) -> bool {
        self.ended_sessions.read().contains(session)
    }

    /// Whether the limit of ended sessions allows another one. Those that are being written are not counted.
    pub(crate) fn may_end(&self, session: &SessionKey) -> bool {
        self.ended_sessions.read().may_add(session)
    }

    /// Call it before the acknowledgement: a caller that ended a session or deleted a task then sees that.
    pub(crate) fn publish_ends(&self, effects: &mut CommitEffects) {
        self.ended.deleted(&effects.deleted);
        if effects.sessions.is_empty() {
            return;
        }
        let mut ended = self.ended_sessions.write();
        for item in effects.sessions.drain(..) {
            match item {
                SessionEffect::Ended(session, until) => ended.add(session, until),
                SessionEffect::Forgotten(at) => ended.remove_expired(at),
            }
        }
    }

    pub(crate) fn publish_events(&self, effects: &CommitEffects) {
        if effects.events.is_empty() {
            return;
        }
        let listeners = self.listeners.lock().clone();
        for listener in listeners {
            listener(&effects.events);
        }
    }
}

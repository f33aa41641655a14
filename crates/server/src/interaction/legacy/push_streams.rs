//! The table of the open push streams of legacy sessions on this node: GET streams and stdio connections.

use crate::{
    response::stream::{self, Events, Sink},
    session::Session,
};
use longhaul_core::{SessionKey, TaskId};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The open push streams, by session.
#[derive(Clone, Default)]
pub(crate) struct PushStreams(Arc<Table>);

#[derive(Default)]
struct Table {
    sessions: Mutex<HashMap<SessionKey, Vec<OpenStream>>>,
    /// How many streams there are, so that a server without any does no lookups.
    open: AtomicUsize,
}

/// One push stream.
struct OpenStream {
    session: Session,
    sink: Sink,
    channel: PushChannel,
    /// The tasks whose messages it carries.
    tasks: HashSet<TaskId>,
}

/// What carries a push stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushChannel {
    /// A stream of its own, beside those that answer requests.
    Dedicated,
    /// The connection on which the session's answers travel too.
    Shared,
}

impl PushStreams {
    /// Opens a push stream for a session. It is found by later messages until it is closed.
    pub(crate) fn open(&self, session: &Session, channel: PushChannel) -> (Sink, Events) {
        let (sink, events) = stream::channel();
        let opened = OpenStream {
            session: session.clone(),
            sink: sink.clone(),
            channel,
            tasks: HashSet::new(),
        };
        let mut sessions = self.0.sessions.lock();
        sessions.entry(session.key.clone()).or_default().push(opened);
        drop(sessions);
        self.0.open.fetch_add(1, Ordering::SeqCst);
        (sink, events)
    }

    /// Removes a stream.
    pub(crate) fn close(&self, session: &SessionKey, closed: &Sink) {
        let mut sessions = self.0.sessions.lock();
        let Some(streams) = sessions.get_mut(session) else {
            return;
        };
        let before = streams.len();
        streams.retain(|stream| !stream.sink.is_same(closed));
        self.0.open.fetch_sub(before - streams.len(), Ordering::SeqCst);
        if streams.is_empty() {
            sessions.remove(session);
        }
    }

    /// Sends a request to exactly one of the session's streams that are read; returns whether one did.
    pub(crate) async fn send(&self, session: &SessionKey, message: String) -> bool {
        while let Some(sink) = self.newest(session).filter(Sink::has_reader) {
            if sink.message(message.clone()).await.is_ok() {
                return true;
            }
            self.close(session, &sink);
        }
        false
    }

    /// The stream for a notification to the session: the newest one that is read. While none is read, the newest of all: a
    /// client that resumes with `Last-Event-ID` reads the missed messages there.
    pub(crate) fn newest(&self, session: &SessionKey) -> Option<Sink> {
        if self.is_idle() {
            return None;
        }
        let sessions = self.0.sessions.lock();
        let streams = sessions.get(session)?;
        let read = streams.iter().rfind(|stream| stream.sink.has_reader());
        Some(read.or(streams.last())?.sink.clone())
    }

    /// The session with this key, if it has a push stream.
    pub(crate) fn session(&self, key: &SessionKey) -> Option<Session> {
        if self.is_idle() {
            return None;
        }
        let sessions = self.0.sessions.lock();
        sessions.get(key)?.first().map(|stream| stream.session.clone())
    }

    /// Whether the session's answers travel on its push stream.
    pub(crate) fn is_shared(&self, session: &SessionKey) -> bool {
        let shared = |streams: &Vec<OpenStream>| streams.iter().any(|stream| stream.channel == PushChannel::Shared);
        !self.is_idle() && self.0.sessions.lock().get(session).is_some_and(shared)
    }

    /// The session's streams that do not carry the task's messages yet, oldest first; from now on they do.
    pub(crate) fn start_following(&self, session: &SessionKey, task: &TaskId) -> Vec<Sink> {
        if self.is_idle() {
            return Vec::new();
        }
        let mut sessions = self.0.sessions.lock();
        let streams = sessions.get_mut(session).map_or(&mut [][..], |streams| streams);
        let fresh = streams.iter_mut().filter(|stream| !stream.tasks.contains(task));
        fresh
            .map(|stream| {
                stream.tasks.insert(task.clone());
                stream.sink.clone()
            })
            .collect()
    }

    /// The stream no longer carries the task's messages.
    pub(crate) fn stop_following(&self, session: &SessionKey, sink: &Sink, task: &TaskId) {
        let mut sessions = self.0.sessions.lock();
        let streams = sessions.get_mut(session).map_or(&mut [][..], |streams| streams);
        if let Some(stream) = streams.iter_mut().find(|stream| stream.sink.is_same(sink)) {
            stream.tasks.remove(task);
        }
    }

    fn is_idle(&self) -> bool {
        self.0.open.load(Ordering::SeqCst) == 0
    }
}

//! Which stream carries the messages to a session about a task: the oldest `tasks/result` that is read, else the newest push
//! stream that is read. While none is read it is the stream that carried last: notifications are kept there for a client that
//! resumes it, and requests to the client wait until a stream is read.

use crate::{interaction::progress::HighestProgress, response::stream::Sink};
use longhaul_core::{SessionKey, Task, TaskId};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::watch;

type Key = (SessionKey, TaskId);

/// The streams that can carry messages about tasks.
#[derive(Clone, Default)]
pub(crate) struct Carriers(Arc<Mutex<HashMap<Key, Streams>>>);

/// Those of one session and one task.
struct Streams {
    /// In the order they were opened.
    open: Vec<Open>,
    opened: u64,
    carrier: watch::Sender<u64>,
    /// On any of the streams.
    highest: HighestProgress,
}

struct Open {
    nth: u64,
    kind: CandidateKind,
    sink: Sink,
}

/// What a stream is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CandidateKind {
    /// To answer `tasks/result`. Its client reads it for this one task.
    TaskResult,
    /// Any message to the session.
    PushStream,
}

/// No stream: they are counted from 1.
const NO_STREAM: u64 = 0;

/// A stream that can carry the messages, until dropped.
pub(crate) struct CarrierCandidate {
    carriers: Carriers,
    key: Key,
    nth: u64,
    sink: Sink,
    reader_presence: watch::Receiver<bool>,
    carrier: watch::Receiver<u64>,
}

impl Carriers {
    /// Adds a stream.
    pub(crate) fn enter(
        &self,
        session: &SessionKey,
        task: &Task,
        kind: CandidateKind,
        sink: &Sink,
    ) -> CarrierCandidate {
        let key = (session.clone(), task.id.clone());
        let mut table = self.0.lock();
        let streams = table.entry(key.clone()).or_insert_with(|| Streams {
            open: Vec::new(),
            opened: NO_STREAM,
            carrier: watch::Sender::new(NO_STREAM),
            // What closed streams have carried is not recorded; assume that the stored progress was sent.
            highest: HighestProgress::starting_at(task.progress.map(|progress| progress.current)),
        });
        streams.opened += 1;
        let nth = streams.opened;
        streams.open.push(Open {
            nth,
            kind,
            sink: sink.clone(),
        });
        streams.elect();
        let carrier = streams.carrier.subscribe();
        drop(table);
        CarrierCandidate {
            carriers: self.clone(),
            key,
            nth,
            sink: sink.clone(),
            reader_presence: sink.reader_presence(),
            carrier,
        }
    }

    /// The stream that carries the messages, if it is read: only then can requests be answered.
    pub(crate) fn read_carrier(&self, session: &SessionKey, task: &TaskId) -> Option<Sink> {
        let table = self.0.lock();
        let streams = table.get(&(session.clone(), task.clone()))?;
        let carrier = *streams.carrier.borrow();
        let found = streams.open.iter().find(|open| open.nth == carrier);
        found.map(|open| &open.sink).filter(|sink| sink.has_reader()).cloned()
    }

    /// Makes the senders of messages about the task read it again.
    pub(crate) fn notify(&self, session: &SessionKey, task: &TaskId) {
        if let Some(streams) = self.0.lock().get(&(session.clone(), task.clone())) {
            streams.carrier.send_modify(|_| {});
        }
    }
}

impl Streams {
    /// A `tasks/result` keeps carrying, or each further one would show its client the same questions again. A push stream does not: some clients
    /// open one and read `tasks/result` only, and of two the older may be one that its client has abandoned.
    fn elect(&self) {
        let is_read = |kind| move |open: &&Open| open.kind == kind && open.sink.has_reader();
        let waits = self.open.iter().find(is_read(CandidateKind::TaskResult));
        let read = waits.or_else(|| self.open.iter().rfind(is_read(CandidateKind::PushStream)));
        let now = *self.carrier.borrow();
        let unread = || self.open.iter().find(|open| open.nth == now).or(self.open.last());
        let carrier = read.or_else(unread).map_or(NO_STREAM, |open| open.nth);
        self.carrier
            .send_if_modified(|now| std::mem::replace(now, carrier) != carrier);
    }
}

impl CarrierCandidate {
    /// Whether this stream carries now.
    pub(crate) fn carries(&self) -> bool {
        *self.carrier.borrow() == self.nth
    }

    /// Whether it carries now and is read.
    pub(crate) fn reaches_client(&self) -> bool {
        self.carries() && self.sink.has_reader()
    }

    /// Completes when another stream carries than before, or this one does and is read again.
    pub(crate) async fn changed(&mut self) {
        loop {
            tokio::select! {
                // Both senders live as long as `self`.
                _ = self.reader_presence.changed() => {
                    if let Some(streams) = self.carriers.0.lock().get(&self.key) {
                        streams.elect();
                    }
                    if self.reaches_client() {
                        self.carrier.mark_unchanged();
                        return;
                    }
                }
                _ = self.carrier.changed() => return,
            }
        }
    }

    /// Whether `current` is higher than what was sent on any of the streams; then it counts as sent.
    pub(crate) fn rises_to(&self, current: f64) -> bool {
        let mut table = self.carriers.0.lock();
        let Some(streams) = table.get_mut(&self.key) else {
            return false;
        };
        streams.highest.rises_to(current)
    }

    /// The stream.
    pub(crate) fn sink(&self) -> &Sink {
        &self.sink
    }
}

impl Drop for CarrierCandidate {
    fn drop(&mut self) {
        let mut table = self.carriers.0.lock();
        let Some(streams) = table.get_mut(&self.key) else {
            return;
        };
        streams.open.retain(|open| open.nth != self.nth);
        if streams.open.is_empty() {
            table.remove(&self.key);
        } else {
            streams.elect();
        }
    }
}

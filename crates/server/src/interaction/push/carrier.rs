//! Which stream carries what a session hears of a task (T-10, G1-39): of those that are read the `tasks/result` that has waited longest,
//! and while none waits the newest push stream. While none is read, the one that carried last: notifications are kept there for a client
//! that comes back (T-11). Requests to the client wait until one is read, which may be another one.

use crate::response::stream::Sink;
use longhaul_core::{SessionKey, Task, TaskId};
use parking_lot::{Mutex, MutexGuard};
use std::{collections::HashMap, sync::Arc};
use tokio::sync::watch;

type Key = (SessionKey, TaskId);

/// The streams on which sessions hear of tasks.
#[derive(Clone, Default)]
pub(crate) struct Carriers(Arc<Mutex<HashMap<Key, Streams>>>);

/// Those of one session and one task.
struct Streams {
    /// In the order they were opened.
    open: Vec<Open>,
    opened: u64,
    carrier: watch::Sender<u64>,
    /// The highest figure of progress told, whichever stream it was told on (U-01).
    told: Option<f64>,
}

struct Open {
    nth: u64,
    kind: Kind,
    sink: Sink,
}

/// What a stream is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// To answer `tasks/result`. Its client reads it for this one task.
    Wait,
    /// To hear of whatever there is.
    Push,
}

/// No stream: they are counted from 1.
const NOBODY: u64 = 0;

/// One stream among those that could carry; dropping it takes it from them.
pub(crate) struct Outlet {
    outlets: Carriers,
    key: Key,
    nth: u64,
    sink: Sink,
    attendance: watch::Receiver<bool>,
    carrier: watch::Receiver<u64>,
}

impl Carriers {
    /// Adds a stream.
    pub(crate) fn enter(&self, session: &SessionKey, task: &Task, kind: Kind, sink: &Sink) -> Outlet {
        let key = (session.clone(), task.id.clone());
        let mut table = self.lock();
        let streams = table.entry(key.clone()).or_insert_with(|| Streams {
            open: Vec::new(),
            opened: NOBODY,
            carrier: watch::Sender::new(NOBODY),
            // What was told before, on streams that are gone, is not known; what is kept has been told, so far as it could be.
            told: task.progress.map(|progress| progress.current),
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
        Outlet {
            outlets: self.clone(),
            key,
            nth,
            sink: sink.clone(),
            attendance: sink.attendance(),
            carrier,
        }
    }

    /// The stream that carries requests to the session about the task: nobody answers where nobody reads.
    pub(crate) fn reached_by(&self, session: &SessionKey, task: &TaskId) -> Option<Sink> {
        let table = self.lock();
        let streams = table.get(&(session.clone(), task.clone()))?;
        let carrier = *streams.carrier.borrow();
        let found = streams.open.iter().find(|open| open.nth == carrier);
        found.map(|open| &open.sink).filter(|sink| sink.is_attended()).cloned()
    }

    /// Has those who tell the session of the task look again.
    pub(crate) fn nudge(&self, session: &SessionKey, task: &TaskId) {
        if let Some(streams) = self.lock().get(&(session.clone(), task.clone())) {
            streams.carrier.send_modify(|_| {});
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Streams>> {
        self.0.lock()
    }
}

impl Streams {
    /// A wait keeps what it carries, or each further one would show its client the same questions again. A push stream gives way: some clients
    /// open one and hear on `tasks/result` only, and of two the older may be one that its client has given up.
    fn elect(&self) {
        let is_read = |kind| move |open: &&Open| open.kind == kind && open.sink.is_attended();
        let waits = self.open.iter().find(is_read(Kind::Wait));
        let read = waits.or_else(|| self.open.iter().rfind(is_read(Kind::Push)));
        let now = *self.carrier.borrow();
        let unread = || self.open.iter().find(|open| open.nth == now).or(self.open.last());
        let carrier = read.or_else(unread).map_or(NOBODY, |open| open.nth);
        self.carrier
            .send_if_modified(|now| std::mem::replace(now, carrier) != carrier);
    }
}

impl Outlet {
    /// Whether this stream carries now.
    pub(crate) fn carries(&self) -> bool {
        *self.carrier.borrow() == self.nth
    }

    /// Whether it carries now and is read.
    pub(crate) fn reaches_client(&self) -> bool {
        self.carries() && self.sink.is_attended()
    }

    /// Completes when another stream carries than before, or this one does and is read again.
    pub(crate) async fn changed(&mut self) {
        loop {
            tokio::select! {
                // Both senders live in what we hold.
                _ = self.attendance.changed() => {
                    if let Some(streams) = self.outlets.lock().get(&self.key) {
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

    /// Whether `current` is more than was told on any of the streams; then it counts as told.
    pub(crate) fn rises_to(&self, current: f64) -> bool {
        let mut table = self.outlets.lock();
        let Some(streams) = table.get_mut(&self.key) else {
            return false;
        };
        let rises = current.is_finite() && streams.told.is_none_or(|told| current > told);
        if rises {
            streams.told = Some(current);
        }
        rises
    }

    /// The stream.
    pub(crate) fn sink(&self) -> &Sink {
        &self.sink
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        let mut table = self.outlets.lock();
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

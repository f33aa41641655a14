//! All replay buffers of this process: found by session and name, and bounded.

use super::{buffer::ReplayBuffer, event_id, kept_events::KeptEvents};
use crate::{
    admission::permissions::{Grant, Permissions},
    response::stream::{Events, Frame, Text},
    session::Session,
    shutdown::Shutdown,
    signer::Signer,
};
use longhaul_core::{EventStore, KeptEvent, SessionKey, UnixMillis};
use longhaul_runtime::Ports;
use longhaul_wire::Version;
use parking_lot::Mutex;
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// How long a stream can be resumed after its end; a push stream, after its reader has disconnected.
const KEPT_FOR: Duration = Duration::from_secs(5 * 60);
/// Streams of one session.
pub(crate) const MOST_OF_ONE: usize = 64;
/// Streams in all.
const MOST: usize = 4096;
/// Bytes kept of all of them for readers that resume.
const MOST_BYTES: usize = 64 << 20;

/// The replay buffers of this process.
#[derive(Clone)]
pub(crate) struct ReplayBuffers(Arc<Shared>);

struct Shared {
    table: Mutex<Table>,
    ports: Ports,
    shutdown: Shutdown,
    /// Signs the names of streams that another process can find again.
    event_ids: Signer,
    kept_events: KeptEvents,
}

#[derive(Default)]
struct Table {
    sessions: HashMap<SessionKey, Vec<Arc<ReplayBuffer>>>,
    count: usize,
    /// Those that are over, the oldest first, each until when it is kept.
    over: VecDeque<(UnixMillis, SessionKey, Weak<ReplayBuffer>)>,
    sweeping: bool,
    held: Arc<AtomicUsize>,
}

/// What a stream is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// It answers a request of a sender with these permissions, and ends with the answer, read or not.
    Answer(Permissions),
    /// It waits for messages to the session and ends when it has no reader for long, or the server drains.
    Push,
}

impl StreamKind {
    /// What a reader needs. Of an answer it is not known what it tells, so all that its request could have needed.
    pub(crate) fn needs(&self) -> Permissions {
        match self {
            Self::Answer(permissions) => permissions.clone(),
            Self::Push => Permissions::from_iter([Grant::ReadTasks]),
        }
    }
}

/// The session, or the process, has as many streams as it may, and all are read.
pub(crate) struct TooManyStreams(pub(crate) Events);

impl ReplayBuffers {
    pub(crate) fn new(
        ports: &Ports,
        shutdown: &Shutdown,
        event_ids: Signer,
        events: Option<Arc<dyn EventStore>>,
    ) -> Self {
        Self(Arc::new(Shared {
            table: Mutex::default(),
            ports: ports.clone(),
            shutdown: shutdown.clone(),
            event_ids,
            kept_events: KeptEvents {
                store: events,
                clock: Arc::clone(&ports.clock),
            },
        }))
    }

    /// Records `events` in a new buffer.
    ///
    /// # Errors
    /// [`TooManyStreams`], with the events.
    pub(crate) fn begin(
        &self,
        session: &Session,
        events: Events,
        kind: StreamKind,
    ) -> Result<Arc<ReplayBuffer>, TooManyStreams> {
        let entropy = &*self.0.ports.entropy;
        let name = match kind {
            StreamKind::Answer(_) => event_id::name(&self.0.event_ids, entropy, session, events.repeat_request()),
            StreamKind::Push => event_id::push_name(entropy),
        };
        let Some(buffer) = self.enter(&session.key, (name, 0), &kind, &events) else {
            return Err(TooManyStreams(events));
        };
        // Older clients take each event for a message.
        if session.version == Version::V2025_11_25 {
            buffer.prime();
        }
        self.run(&session.key, &buffer, events, kind);
        Ok(buffer)
    }

    /// Records a stream that an earlier process had under this name, from its event `first` on.
    ///
    /// # Errors
    /// [`TooManyStreams`], with the events.
    pub(crate) fn begin_again(
        &self,
        session: &Session,
        events: Events,
        (name, first): (&str, u64),
        kind: StreamKind,
    ) -> Result<Arc<ReplayBuffer>, TooManyStreams> {
        let Some(buffer) = self.enter(&session.key, (name.to_owned(), first), &kind, &events) else {
            return Err(TooManyStreams(events));
        };
        self.run(&session.key, &buffer, events, kind);
        Ok(buffer)
    }

    /// The session's stream of this name.
    pub(crate) fn find(&self, session: &SessionKey, name: &str) -> Option<Arc<ReplayBuffer>> {
        let table = self.0.table.lock();
        let buffers = table.sessions.get(session)?;
        buffers.iter().find(|buffer| buffer.name() == name).cloned()
    }

    /// The request that leads to the stream of this name, if `session` once had such a stream.
    pub(crate) fn request_of(&self, session: &Session, name: &str) -> Option<String> {
        event_id::request_of(&self.0.event_ids, session, name)
    }

    /// The events of a stream after the `nth`, if an event store has them all.
    pub(crate) async fn kept_after(&self, session: &SessionKey, name: &str, nth: u64) -> Option<Vec<KeptEvent>> {
        self.0.kept_events.after(session, name, nth).await
    }

    /// Ends all streams of a session: it has ended itself.
    pub(crate) async fn end_session(&self, session: &SessionKey) {
        let ended = self.0.table.lock().remove_all(session);
        for buffer in ended {
            buffer.end();
        }
        self.0.kept_events.end_session(session).await;
    }

    fn enter(
        &self,
        session: &SessionKey,
        (name, first): (String, u64),
        kind: &StreamKind,
        events: &Events,
    ) -> Option<Arc<ReplayBuffer>> {
        let mut table = self.0.table.lock();
        if !table.make_room(session) {
            return None;
        }
        let buffer = Arc::new(ReplayBuffer::new(
            name,
            kind.needs(),
            first,
            events.reader_presence(),
            Arc::clone(&table.held),
            MOST_BYTES,
        ));
        table.count += 1;
        let buffers = table.sessions.entry(session.clone()).or_default();
        buffers.push(Arc::clone(&buffer));
        Some(buffer)
    }

    fn run(&self, session: &SessionKey, buffer: &Arc<ReplayBuffer>, events: Events, kind: StreamKind) {
        let (all, session) = (self.clone(), session.clone());
        let buffer = Arc::clone(buffer);
        self.0.ports.spawner.spawn(Box::pin(async move {
            tokio::select! {
                () = record(&buffer, events, &all.0.kept_events, &session) => {}
                () = buffer.over() => {}
                () = unread(&all.0, &buffer), if kind == StreamKind::Push => {}
            }
            buffer.end();
            all.keep_for_resuming(session, &buffer);
        }));
    }

    fn keep_for_resuming(&self, session: SessionKey, buffer: &Arc<ReplayBuffer>) {
        let ports = &self.0.ports;
        let until = ports.clock.now().plus(KEPT_FOR.as_millis() as u64);
        let begin_sweeping = {
            let mut table = self.0.table.lock();
            table.over.push_back((until, session, Arc::downgrade(buffer)));
            table.shrink();
            !std::mem::replace(&mut table.sweeping, true)
        };
        if begin_sweeping {
            ports
                .spawner
                .spawn(Box::pin(sweep(Arc::downgrade(&self.0), ports.clone())));
        }
    }
}

/// Records events until the stream ends.
async fn record(buffer: &ReplayBuffer, mut events: Events, kept_events: &KeptEvents, session: &SessionKey) {
    let stream = kept_events.stream(session, buffer.name());
    while let Some(frame) = events.next().await {
        match frame {
            Frame::Message(Text { text, reservation }) => {
                // First, so that it is kept whatever becomes of this process and the connection.
                if let Some(stream) = &stream {
                    kept_events.append(stream, buffer.next(), &text).await;
                }
                buffer.message(&text, reservation).await;
            }
            Frame::CloseStream => buffer.disconnect_reader(),
            // Each connection sends its own keep-alives.
            Frame::KeepAlive => {}
        }
    }
}

/// Completes when a push stream has no reader for long, or the server drains.
async fn unread(shared: &Shared, buffer: &ReplayBuffer) {
    let unread_for_long = async {
        loop {
            buffer.reader_changed_to(false).await;
            let clock = &shared.ports.clock;
            tokio::select! {
                () = clock.sleep(KEPT_FOR) => return,
                () = buffer.reader_changed_to(true) => {}
            }
        }
    };
    tokio::select! {
        () = unread_for_long => {}
        () = shared.shutdown.drained() => {}
    }
}

/// Drops what was kept long enough, until there is nothing more to drop.
async fn sweep(shared: Weak<Shared>, ports: Ports) {
    while let Some(wait) = next_sweep(&shared, &ports) {
        ports.clock.sleep(wait).await;
    }
}

fn next_sweep(shared: &Weak<Shared>, ports: &Ports) -> Option<Duration> {
    let shared = shared.upgrade()?;
    let mut table = shared.table.lock();
    let now = ports.clock.now();
    while table.over.front().is_some_and(|(until, ..)| *until <= now) {
        table.drop_oldest();
    }
    match table.over.front() {
        Some((until, ..)) => Some(Duration::from_millis(
            until.0.saturating_sub(now.0).max(1).unsigned_abs(),
        )),
        None => {
            table.sweeping = false;
            None
        }
    }
}

impl Table {
    /// Makes room for one more stream of `session`, if need be by dropping streams without readers; returns whether there is room.
    fn make_room(&mut self, session: &SessionKey) -> bool {
        let of_session = self.sessions.get(session).map_or(0, Vec::len);
        if of_session >= MOST_OF_ONE && !self.drop_unread(Some(session)) {
            return false;
        }
        self.count < MOST || self.drop_oldest() || self.drop_unread(None)
    }

    /// Drops ended streams until what is kept is within bounds.
    fn shrink(&mut self) {
        while self.held.load(Ordering::Relaxed) > MOST_BYTES && self.drop_oldest() {}
    }

    /// Drops the stream that ended first; returns whether there was one.
    fn drop_oldest(&mut self) -> bool {
        while let Some((_, session, buffer)) = self.over.pop_front() {
            if let Some(buffer) = buffer.upgrade()
                && self.remove(&session, &buffer)
            {
                return true;
            }
        }
        false
    }

    /// Drops one stream without a reader, of this session or of any: one that is over before one that is not, the oldest first.
    fn drop_unread(&mut self, session: Option<&SessionKey>) -> bool {
        let candidates: Vec<_> = match session {
            Some(session) => self.sessions.get_key_value(session).into_iter().collect(),
            None => self.sessions.iter().collect(),
        };
        let unread = candidates.into_iter().flat_map(|(session, buffers)| {
            let unread = buffers.iter().filter(|buffer| !buffer.has_reader());
            unread.map(move |buffer| (session, buffer))
        });
        let chosen = unread.min_by_key(|(_, buffer)| !buffer.is_over());
        let Some((session, buffer)) = chosen.map(|(session, buffer)| (session.clone(), Arc::clone(buffer))) else {
            return false;
        };
        buffer.end();
        self.remove(&session, &buffer)
    }

    fn remove(&mut self, session: &SessionKey, buffer: &Arc<ReplayBuffer>) -> bool {
        let Some(buffers) = self.sessions.get_mut(session) else {
            return false;
        };
        let before = buffers.len();
        buffers.retain(|kept| !Arc::ptr_eq(kept, buffer));
        let removed = before - buffers.len();
        if buffers.is_empty() {
            self.sessions.remove(session);
        }
        self.count -= removed;
        removed > 0
    }

    fn remove_all(&mut self, session: &SessionKey) -> Vec<Arc<ReplayBuffer>> {
        let removed = self.sessions.remove(session).unwrap_or_default();
        self.count -= removed.len();
        removed
    }
}

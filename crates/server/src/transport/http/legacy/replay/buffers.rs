//! All replay buffers of this process: found by session and name, and bounded.

use super::{
    buffer::ReplayBuffer,
    event_id,
    kept_events::KeptEvents,
    table::{MOST_OF_SESSION, Table},
};
use crate::{
    admission::{
        limits::Busy,
        permissions::{Grant, Permission, Permissions},
    },
    response::{
        resumption::Resumption,
        stream::{Events, Frame, Text},
    },
    session::Session,
    shutdown::Shutdown,
    signer::Signer,
};
use longhaul_core::{EventStore, KeptEvent, SessionKey};
use longhaul_runtime::Ports;
use longhaul_wire::Version;
use parking_lot::Mutex;
use std::{
    sync::{Arc, Weak},
    time::Duration,
};

/// How long a stream can be resumed after its end; a push stream, after its reader has disconnected.
const KEPT_FOR: Duration = Duration::from_secs(5 * 60);
/// The name of the event that tells clients of older revisions the first event id.
const PRIME: &str = "ready";
/// Between two looks for streams that were kept long enough.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

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

/// What a stream is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// It answers a request of a sender with these permissions, and ends with the answer, read or not.
    Answer(Permissions),
    /// It waits for messages to the session and ends when it has no reader for long, or the server drains.
    Push {
        /// Whether it tells of resources that are not those of tasks.
        tells_of_resources: bool,
    },
}

impl StreamKind {
    /// What a reader needs. Of an answer it is not known what it tells, so all that its request could have needed.
    pub(crate) fn needs(&self) -> Permissions {
        match self {
            Self::Answer(permissions) => permissions.clone(),
            Self::Push { tells_of_resources } => {
                let resources = tells_of_resources.then_some(Grant::ReadResources);
                Permissions::from_iter([Grant::ReadTasks].into_iter().chain(resources))
            }
        }
    }

    /// The push stream for a reader with these permissions.
    pub(crate) fn push_for(reader: &Permissions) -> Self {
        Self::Push {
            tells_of_resources: reader.allows(Permission::ReadResources),
        }
    }
}

/// The session, its principal or the process has as many streams as it may.
pub(crate) struct TooManyStreams {
    /// Which of them.
    pub(crate) busy: Busy,
    /// What would be recorded.
    pub(crate) events: Events,
}

impl ReplayBuffers {
    pub(crate) fn new(
        ports: &Ports,
        shutdown: &Shutdown,
        (most_of_principal, most): (usize, usize),
        event_ids: Signer,
        events: Option<Arc<dyn EventStore>>,
    ) -> Self {
        Self(Arc::new(Shared {
            table: Mutex::new(Table::new(
                most_of_principal.max(MOST_OF_SESSION),
                most.max(MOST_OF_SESSION),
            )),
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
            StreamKind::Answer(_) => event_id::name(&self.0.event_ids, entropy, session, events.resumption()),
            StreamKind::Push { tells_of_resources } => event_id::push_name(entropy, tells_of_resources),
        };
        let buffer = match self.enter(session, (name, 0), &kind, &events) {
            Ok(buffer) => buffer,
            Err(busy) => return Err(TooManyStreams { busy, events }),
        };
        buffer.prime(match session.version {
            Version::V2025_11_25 => None,
            // They take each event without a name for a message, and read the id of any event.
            _ => Some(PRIME),
        });
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
        let buffer = match self.enter(session, (name.to_owned(), first), &kind, &events) {
            Ok(buffer) => buffer,
            Err(busy) => return Err(TooManyStreams { busy, events }),
        };
        self.run(&session.key, &buffer, events, kind);
        Ok(buffer)
    }

    /// The session's stream of this name.
    pub(crate) fn find(&self, session: &Session, name: &str) -> Option<Arc<ReplayBuffer>> {
        self.0.table.lock().find(session, name)
    }

    /// What is done for a client that resumes the stream of this name, if `session` once had such a stream.
    pub(crate) fn resumption_of(&self, session: &Session, name: &str) -> Option<Resumption> {
        event_id::resumption_of(&self.0.event_ids, session, name)
    }

    /// The events of a stream after the `nth`, if an event store has them all.
    pub(crate) async fn kept_after(&self, session: &SessionKey, name: &str, nth: u64) -> Option<Vec<KeptEvent>> {
        self.0.kept_events.after(session, name, nth).await
    }

    /// Ends all streams of a session: it has ended itself.
    pub(crate) async fn end_session(&self, session: &Session) {
        let ended = self.0.table.lock().remove_session(session);
        for buffer in ended {
            buffer.end();
        }
        self.0.kept_events.end_session(&session.key).await;
    }

    fn enter(
        &self,
        session: &Session,
        (name, first): (String, u64),
        kind: &StreamKind,
        events: &Events,
    ) -> Result<Arc<ReplayBuffer>, Busy> {
        self.0.table.lock().add(session, |bytes| {
            let (name, principal) = (name, session.principal.clone());
            ReplayBuffer::new((name, principal), kind.needs(), first, events.reader_presence(), bytes)
        })
    }

    fn run(&self, session: &SessionKey, buffer: &Arc<ReplayBuffer>, events: Events, kind: StreamKind) {
        let (all, session) = (self.clone(), session.clone());
        let buffer = Arc::clone(buffer);
        self.0.ports.spawner.spawn(Box::pin(async move {
            tokio::select! {
                () = record(&buffer, events, &all.0.kept_events, &session) => {}
                () = buffer.over() => {}
                () = unread(&all.0, &buffer), if matches!(kind, StreamKind::Push { .. }) => {}
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
            table.ended(until, session, buffer);
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
    table.drop_ended_before(ports.clock.now());
    let wait = table.next_until().map(|until| {
        let left = until.0.saturating_sub(ports.clock.now().0).max(0);
        Duration::from_millis(left.unsigned_abs()).max(SWEEP_INTERVAL)
    });
    table.sweeping = wait.is_some();
    wait
}

//! The replay buffer of one stream: its events, numbered, kept for resuming, and read by one connection at a time.

use super::kept_bytes::PrincipalBytes;
use crate::{
    admission::{limits::Reservation, permissions::Permissions},
    response::stream::{KEEP_ALIVE, ReaderPresence, held},
};
use bytes::Bytes;
use futures_util::{Stream, stream};
use longhaul_core::{Clock, Principal};
use longhaul_wire::sse;
use std::{collections::VecDeque, sync::Arc};
use tokio::sync::watch;

/// Events kept of one stream.
const MOST_EVENTS: usize = 256;
/// Bytes kept of one stream, but for a single event, which may be as large as a message.
const MOST_BYTES: usize = 256 * 1024;
/// How long a client should wait before it resumes.
const RETRY_MS: u64 = 1_000;

/// A stream that outlives its connections.
pub(crate) struct ReplayBuffer {
    name: Arc<str>,
    /// What a reader needs.
    needs: Permissions,
    state: watch::Sender<BufferState>,
    reader_presence: ReaderPresence,
    /// Whose it is.
    principal: Principal,
    /// Bytes kept of all streams of the principal.
    kept: PrincipalBytes,
}

#[derive(Default)]
struct BufferState {
    kept: VecDeque<Event>,
    /// The number of the first event kept.
    first: u64,
    /// Events before this one have been given to a reader once.
    given: u64,
    /// Bytes of all events kept, and of those not yet given to anyone.
    bytes: usize,
    ungiven: usize,
    /// Counts readers; the newest one reads.
    readers: u64,
    has_reader: bool,
    /// Nothing comes for a while: a reader that has everything is disconnected.
    disconnect: bool,
    over: bool,
}

/// One event. The memory reserved for it goes to its first reader: from then on it counts against the replay buffers only.
struct Event {
    bytes: Bytes,
    reservation: Option<Reservation>,
}

/// One connection that reads a buffer.
pub(crate) struct Reader {
    buffer: Arc<ReplayBuffer>,
    clock: Arc<dyn Clock>,
    state: watch::Receiver<BufferState>,
    /// Which of the buffer's readers it is.
    number: u64,
    /// The next event to read.
    next: u64,
    disconnecting: bool,
}

/// The events that a client asks for are not kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotKept;

/// What a reader does next.
enum NextEvent {
    Event(Bytes),
    Disconnect(Bytes),
    Nothing,
    Over,
}

impl BufferState {
    fn next(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// Unread events are never dropped; the writer applies backpressure. One event always fits.
    fn has_room(&self, length: usize) -> bool {
        let ungiven = self.next() - self.given;
        ungiven == 0 || (self.ungiven + length <= MOST_BYTES && ungiven < MOST_EVENTS as u64)
    }

    /// Drops the oldest event, if it has been read; returns its length.
    fn drop_oldest(&mut self) -> Option<usize> {
        if self.first >= self.given {
            return None;
        }
        let event = self.kept.pop_front()?;
        self.first += 1;
        self.bytes -= event.bytes.len();
        Some(event.bytes.len())
    }

    fn next_event(&mut self, number: u64, next: u64) -> NextEvent {
        if self.readers != number {
            return NextEvent::Over;
        }
        let kept = next
            .checked_sub(self.first)
            .and_then(|at| self.kept.get_mut(at as usize));
        if let Some(event) = kept {
            if next == self.given {
                self.given += 1;
                self.ungiven -= event.bytes.len();
            }
            return NextEvent::Event(held(event.bytes.clone(), event.reservation.take()));
        }
        if self.over {
            return NextEvent::Over;
        }
        if !self.disconnect {
            return NextEvent::Nothing;
        }
        self.disconnect = false;
        NextEvent::Disconnect(Bytes::from(format!("retry: {RETRY_MS}\n\n")))
    }
}

impl ReplayBuffer {
    /// An empty buffer whose next event is the `first`.
    pub(super) fn new(
        (name, principal): (String, Principal),
        needs: Permissions,
        first: u64,
        reader_presence: ReaderPresence,
        kept: PrincipalBytes,
    ) -> Self {
        let state = BufferState {
            first,
            given: first,
            ..BufferState::default()
        };
        reader_presence.set(false);
        Self {
            name: name.into(),
            needs,
            state: watch::Sender::new(state),
            reader_presence,
            principal,
            kept,
        }
    }

    /// Whose it is.
    pub(super) fn principal(&self) -> &Principal {
        &self.principal
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What a reader needs.
    pub(crate) fn needs(&self) -> &Permissions {
        &self.needs
    }

    /// The number of the first event that is kept; of the next one if there is none.
    pub(crate) fn first(&self) -> u64 {
        self.state.borrow().first
    }

    /// The number of the next event.
    pub(super) fn next(&self) -> u64 {
        self.state.borrow().next()
    }

    /// Sends the client the event id from which it can resume, before anything else: in an event of this name, if there is one.
    pub(super) fn prime(&self, name: Option<&str>) {
        self.push((name, ""), Some(RETRY_MS), None);
    }

    /// Writes a message, as soon as it fits.
    pub(super) async fn message(&self, text: &str, reservation: Option<Reservation>) {
        let mut state = self.state.subscribe();
        // The sender is `self`, so it is there.
        let _ = state.wait_for(|state| state.over || state.has_room(text.len())).await;
        self.push((None, text), None, reservation);
    }

    fn push(&self, (name, data): (Option<&str>, &str), retry_ms: Option<u64>, reservation: Option<Reservation>) {
        self.state.send_modify(|state| {
            if state.over {
                return;
            }
            let id = format!("{}.{}", self.name, state.next());
            let mut event = String::with_capacity(data.len() + id.len() + 32);
            sse::SseEvent {
                name,
                id: Some(&id),
                retry_ms,
                data,
            }
            .write(&mut event);
            let length = event.len();
            state.kept.push_back(Event {
                bytes: event.into(),
                reservation,
            });
            state.bytes += length;
            state.ungiven += length;
            self.kept.add(length);
            self.make_room(state);
        });
    }

    /// Drops the oldest events that were read, and all that were read while the principal's streams hold too much.
    fn make_room(&self, state: &mut BufferState) {
        while state.bytes > MOST_BYTES || state.kept.len() > MOST_EVENTS || self.kept.exceeds_share() {
            let Some(length) = state.drop_oldest() else { return };
            self.kept.subtract(length);
        }
    }

    /// Disconnects the reader, once it has everything, until there is more.
    pub(super) fn disconnect_reader(&self) {
        self.state.send_if_modified(|state| {
            state.disconnect = state.has_reader;
            state.disconnect
        });
    }

    /// Nothing more is written. What is kept can still be read.
    pub(super) fn end(&self) {
        self.state.send_modify(|state| state.over = true);
    }

    pub(super) fn is_over(&self) -> bool {
        self.state.borrow().over
    }

    pub(super) fn has_reader(&self) -> bool {
        self.state.borrow().has_reader
    }

    /// Completes when nothing more will be written.
    pub(super) async fn over(&self) {
        let _ = self.state.subscribe().wait_for(|state| state.over).await;
    }

    /// Completes when it is read, or not read any more.
    pub(super) async fn reader_changed_to(&self, has_reader: bool) {
        let _ = self
            .state
            .subscribe()
            .wait_for(|state| state.has_reader == has_reader)
            .await;
    }

    /// Reads from the event numbered `next` on. An earlier reader reads no more, so that each message is on one stream.
    ///
    /// # Errors
    /// [`NotKept`]
    pub(crate) fn read(self: &Arc<Self>, next: u64, clock: &Arc<dyn Clock>) -> Result<Reader, NotKept> {
        let mut number = None;
        self.state.send_modify(|state| {
            if (state.first..=state.next()).contains(&next) {
                state.readers += 1;
                state.has_reader = true;
                state.disconnect = false;
                number = Some(state.readers);
                self.reader_presence.set(true);
            }
        });
        Ok(Reader {
            buffer: Arc::clone(self),
            clock: Arc::clone(clock),
            state: self.state.subscribe(),
            number: number.ok_or(NotKept)?,
            next,
            disconnecting: false,
        })
    }
}

impl Drop for ReplayBuffer {
    fn drop(&mut self) {
        let bytes = self.state.borrow().bytes;
        self.kept.subtract(bytes);
    }
}

impl Reader {
    /// What is to be written, one after the other.
    pub(crate) fn events(self) -> impl Stream<Item = Bytes> + Send + 'static {
        stream::unfold(self, |mut reader| async move {
            let event = reader.next().await?;
            Some((event, reader))
        })
    }

    /// What is to be written next; `None` when the connection is to be closed.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        let silence = self.clock.sleep(KEEP_ALIVE);
        tokio::pin!(silence);
        loop {
            self.state.mark_unchanged();
            match self.next_event() {
                NextEvent::Event(event) => return Some(event),
                NextEvent::Disconnect(retry) => {
                    self.disconnecting = true;
                    return Some(retry);
                }
                NextEvent::Over => return None,
                NextEvent::Nothing => {}
            }
            tokio::select! {
                _ = self.state.changed() => {}
                () = &mut silence => return Some(Bytes::from_static(sse::KEEP_ALIVE.as_bytes())),
            }
        }
    }

    fn next_event(&mut self) -> NextEvent {
        if self.disconnecting {
            return NextEvent::Over;
        }
        let mut event = NextEvent::Over;
        let state = &self.buffer.state;
        state.send_if_modified(|state| {
            event = state.next_event(self.number, self.next);
            // Wakes a writer that waits for space.
            matches!(event, NextEvent::Event(_))
        });
        if matches!(event, NextEvent::Event(_)) {
            self.next += 1;
        }
        event
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.buffer.state.send_if_modified(|state| {
            let last = state.readers == self.number;
            if last {
                state.has_reader = false;
                self.buffer.reader_presence.set(false);
            }
            last
        });
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{
        response::stream,
        transport::http::legacy::replay::{EventId, kept_bytes::KeptBytes},
    };
    use futures_util::FutureExt;
    use longhaul_core::{BoxFuture, UnixMillis};
    use proptest::prelude::*;
    use std::time::Duration;

    /// Time stands still.
    struct Still;
    impl Clock for Still {
        fn now(&self) -> UnixMillis {
            UnixMillis(0)
        }

        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    pub(in crate::transport::http::legacy::replay) fn still() -> Arc<dyn Clock> {
        Arc::new(Still)
    }

    fn buffer() -> Arc<ReplayBuffer> {
        buffer_within(KeptBytes::new(usize::MAX).of_principal())
    }

    fn buffer_within(kept: PrincipalBytes) -> Arc<ReplayBuffer> {
        let (_, events) = stream::channel();
        let buffer = ReplayBuffer::new(
            ("s".to_owned(), Principal::local()),
            Permissions::all(),
            0,
            events.reader_presence(),
            kept,
        );
        buffer.prime(None);
        Arc::new(buffer)
    }

    /// What there is to read now, if there is anything; `None` at the end.
    fn next(reader: &mut Reader) -> Option<Option<String>> {
        let event = reader.next().now_or_never()?;
        Some(event.map(|event| String::from_utf8(event.to_vec()).unwrap()))
    }

    fn field<'a>(event: &'a str, name: &str) -> &'a str {
        let found = event.lines().find_map(|line| line.strip_prefix(name));
        found.unwrap_or_else(|| panic!("no {name} in {event:?}"))
    }

    #[derive(Debug, Clone)]
    enum Act {
        Write,
        /// The client reads an event and keeps its id.
        Read,
        /// The connection breaks after that many events that the client never saw, and the client resumes.
        Cut(usize),
        Disconnect,
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            4 => Just(Act::Write),
            4 => Just(Act::Read),
            2 => (0..4usize).prop_map(Act::Cut),
            1 => Just(Act::Disconnect),
        ];
        prop::collection::vec(act, 0..200)
    }

    /// A client that keeps the id of the last event it saw.
    struct Client {
        buffer: Arc<ReplayBuffer>,
        reader: Reader,
        last: Option<u64>,
        seen: Vec<String>,
    }

    impl Client {
        fn come_back(&mut self) {
            let next = self.last.map_or(0, |last| last + 1);
            self.reader = self.buffer.read(next, &still()).unwrap();
        }

        /// Returns whether there was anything.
        fn read(&mut self) -> bool {
            match next(&mut self.reader) {
                None => false,
                Some(None) => {
                    let end = self.buffer.state.borrow().next();
                    let read_all = self.buffer.is_over() && self.reader.next == end;
                    self.come_back();
                    !read_all
                }
                Some(Some(event)) if event.starts_with("retry") => true,
                Some(Some(event)) => {
                    self.last = EventId::parse(field(&event, "id: ")).map(|id| id.nth);
                    if !field(&event, "data: ").is_empty() {
                        self.seen.push(field(&event, "data: ").to_owned());
                    }
                    true
                }
            }
        }
    }

    proptest! {
        #[test]
        fn each_message_is_read_once_wherever_the_stream_is_cut(acts in acts()) {
            let buffer = buffer();
            let reader = buffer.read(0, &still()).unwrap();
            let mut client = Client { buffer: Arc::clone(&buffer), reader, last: None, seen: Vec::new() };
            let mut written = Vec::new();
            for act in acts {
                match act {
                    Act::Write => {
                        let message = written.len().to_string();
                        prop_assert!(buffer.message(&message, None).now_or_never().is_some());
                        written.push(message);
                    }
                    Act::Read => { client.read(); }
                    Act::Cut(lost) => {
                        for _ in 0..lost {
                            let _ = next(&mut client.reader);
                        }
                        client.come_back();
                    }
                    Act::Disconnect => buffer.disconnect_reader(),
                }
            }
            buffer.end();
            while client.read() {}
            prop_assert_eq!(client.seen, written);
        }

    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn the_buffer_is_bounded_and_drops_nothing_unread(sizes in prop::collection::vec(0..100_000usize, 0..60)) {
            let buffer = buffer();
            let mut reader = buffer.read(0, &still()).unwrap();
            let (mut wrote, mut read) = (0, 0);
            for size in sizes {
                while buffer.message(&"x".repeat(size), None).now_or_never().is_none() {
                    // It does not fit: the writer waits for the reader.
                    prop_assert!(matches!(next(&mut reader), Some(Some(_))));
                    read += 1;
                }
                wrote += 1;
                prop_assert!(buffer.state.borrow().bytes <= 2 * (MOST_BYTES + 100_100));
            }
            while let Some(Some(_)) = next(&mut reader) {
                read += 1;
            }
            prop_assert_eq!(read, wrote + 1, "the first event primes");
        }
    }

    #[test]
    fn a_second_reader_takes_over_and_a_stream_disconnects_its_reader() {
        let buffer = buffer();
        let mut first = buffer.read(0, &still()).unwrap();
        assert!(matches!(next(&mut first), Some(Some(_))));
        let mut second = buffer.read(1, &still()).unwrap();
        assert_eq!((next(&mut first), next(&mut second)), (Some(None), None));
        drop(first);
        assert!(buffer.has_reader(), "by the second");
        buffer.disconnect_reader();
        assert_eq!(next(&mut second), Some(Some("retry: 1000\n\n".to_owned())));
        assert_eq!(next(&mut second), Some(None));
        drop(second);
        assert!(!buffer.has_reader());
        buffer.disconnect_reader();
        let mut third = buffer.read(1, &still()).unwrap();
        assert_eq!(next(&mut third), None, "it has only just come");
    }

    #[test]
    fn events_that_were_read_are_dropped_first_over_the_common_limit() {
        let all = KeptBytes::new(100);
        let buffer = buffer_within(all.of_principal());
        for _ in 0..3 {
            buffer.push((None, &"x".repeat(50)), None, None);
        }
        assert!(buffer.read(0, &still()).is_ok(), "nothing was read yet");
        let mut reader = buffer.read(0, &still()).unwrap();
        for _ in 0..3 {
            assert!(matches!(next(&mut reader), Some(Some(_))));
        }
        buffer.message("y", None).now_or_never().unwrap();
        assert_eq!(buffer.read(0, &still()).err(), Some(NotKept));
        assert!(buffer.read(3, &still()).is_ok());
        assert_eq!(buffer.read(9, &still()).err(), Some(NotKept), "not yet written");
        drop((buffer, reader));
        assert_eq!(all.bytes(), 0);
    }

    #[test]
    fn one_principal_over_the_common_limit_costs_others_no_event() {
        let all = KeptBytes::new(1_000);
        let (greedy, modest) = (buffer_within(all.of_principal()), buffer_within(all.of_principal()));
        let mut reader = modest.read(0, &still()).unwrap();
        for _ in 0..3 {
            modest.push((None, "x"), None, None);
            assert!(matches!(next(&mut reader), Some(Some(_))));
        }
        // Unread, so none of it can be dropped.
        greedy.push((None, &"x".repeat(5_000)), None, None);
        modest.push((None, "y"), None, None);
        assert!(all.is_exceeded() && modest.read(0, &still()).is_ok());
    }
}

//! A bidirectional connection, as stdio and the endpoints of 2024-11-05 are: messages come in one after
//! another and are answered concurrently, each answer as a whole.

use crate::{
    admission::{
        caller::TransportMode,
        handoff::{ConnectionHandoff, HANDOFF_NOTIFICATION},
        identity::Identity,
        limits::Reservation,
    },
    dispatch::{IncomingMessage, refuse_message},
    interaction::legacy::{push_stream, push_streams::PushChannel},
    response::{
        Answer, OwnedRequestId,
        stream::{Events, Frame, Text},
    },
    session::Session,
    transport::{
        batch::{self, is_modern},
        protocol_server::ProtocolServer,
    },
};
use bytes::Bytes;
use futures_util::future::{AbortHandle, abortable};
use longhaul_runtime::SessionChange;
use longhaul_wire::{
    Batch, Message, MessageTransport, Method, Request, RequestId, RpcError, jsonrpc::Notification, notification,
};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Requests of one connection that are being answered; further ones are refused.
const MOST_REQUESTS: usize = 1024;
/// Messages that are read and not yet dispatched, in KiB; further ones wait. A message counts for one KiB more than it has.
const QUEUE_KIB: u32 = 32 * 1024;
/// Messages waiting for a client to read them. Beyond that their writers wait.
const OUTGOING: usize = 16;

/// One connection.
pub(crate) struct Duplex {
    protocol: Arc<ProtocolServer>,
    tells_of_resources: bool,
    out: mpsc::Sender<Text>,
    /// The session of a legacy client.
    session: Mutex<Option<Session>>,
    /// What the client has said of the hand-off.
    handoff: Mutex<ConnectionHandoff>,
    requests: Mutex<HashMap<String, RunningRequest>>,
    answered: watch::Sender<()>,
    queue_space: Arc<Semaphore>,
    closed: CancellationToken,
}

/// A request that is being answered.
struct RunningRequest {
    /// Modern requests are cancelled by aborting what answers them, as by closing an HTTP stream.
    abort: Option<AbortHandle>,
    /// It only watches something, so nothing waits for its answer.
    watches: bool,
}

/// A request in the table, until its answer was sent or it was cancelled.
struct RequestSlot {
    duplex: Arc<Duplex>,
    key: String,
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.duplex.requests().remove(&self.key);
        self.duplex.answered.send_replace(());
    }
}

/// The responses of a batch, which are sent together.
struct BatchResponses {
    texts: Mutex<Vec<Text>>,
    /// How many requests may still add to them.
    left: AtomicUsize,
    /// The memory reserved for the requests.
    _held: Option<Reservation>,
}

impl BatchResponses {
    fn of_one(held: Option<Reservation>) -> Self {
        Self {
            texts: Mutex::default(),
            left: AtomicUsize::new(1),
            _held: held,
        }
    }

    /// With one more request that may add to them.
    fn joined(self: &Arc<Self>) -> Arc<Self> {
        self.left.fetch_add(1, Ordering::Relaxed);
        Arc::clone(self)
    }
}

/// The connection is over.
#[derive(Debug)]
pub(crate) struct ConnectionClosed;

impl Duplex {
    /// A connection, and what goes out on it; `tells_of_resources` as for [`push_stream::open`].
    pub(crate) fn open(protocol: &Arc<ProtocolServer>, tells_of_resources: bool) -> (Arc<Self>, mpsc::Receiver<Text>) {
        let (out, outgoing) = mpsc::channel(OUTGOING);
        let duplex = Self {
            protocol: Arc::clone(protocol),
            tells_of_resources,
            out,
            session: Mutex::default(),
            handoff: Mutex::default(),
            requests: Mutex::default(),
            answered: watch::Sender::new(()),
            queue_space: Arc::new(Semaphore::new(QUEUE_KIB as usize)),
            closed: CancellationToken::new(),
        };
        (Arc::new(duplex), outgoing)
    }

    /// Handles a message of this sender, with the memory reserved for it. Returns when it was handled or is being answered, and the client has read enough of
    /// what was sent to it.
    ///
    /// # Errors
    /// [`ConnectionClosed`]
    pub(crate) async fn take(
        self: &Arc<Self>,
        identity: &Arc<Identity>,
        bytes: Bytes,
        reservation: Option<Reservation>,
    ) -> Result<(), ConnectionClosed> {
        let is_batch = batch::is_taken(&bytes, self.session().as_ref());
        match is_batch {
            true => self.take_batch(identity, &bytes, reservation).await,
            false => self.take_one(identity, bytes, reservation, None).await,
        }
    }

    /// Takes the messages of a batch, the first of which has been counted with its line. Their responses go out together.
    async fn take_batch(
        self: &Arc<Self>,
        identity: &Arc<Identity>,
        bytes: &Bytes,
        reservation: Option<Reservation>,
    ) -> Result<(), ConnectionClosed> {
        let batch = match Batch::parse(bytes) {
            Ok(batch) => batch,
            Err(error) => return self.deliver(Answer::error(None, &error)).await,
        };
        let responses = Arc::new(BatchResponses::of_one(reservation));
        for (nth, member) in batch.members().enumerate() {
            let counted = match nth {
                0 => Ok(()),
                _ => batch::count(&self.protocol, identity.principal(), member).await,
            };
            let refused = match Message::parse(member) {
                Ok(Message::Request(request)) => batch::refusal(&request),
                _ => None,
            };
            match counted.map_err(RpcError::from).err().or(refused) {
                Some(error) => {
                    self.deliver_to(refuse_message(member, &error), Some(&responses))
                        .await?
                }
                None => {
                    self.take_one(identity, bytes.slice_ref(member), None, Some(&responses))
                        .await?;
                }
            }
        }
        self.finish(&responses).await
    }

    async fn take_one(
        self: &Arc<Self>,
        identity: &Arc<Identity>,
        bytes: Bytes,
        reservation: Option<Reservation>,
        batch: Option<&Arc<BatchResponses>>,
    ) -> Result<(), ConnectionClosed> {
        match Message::parse(&bytes) {
            Err(refusal) => {
                let answer = Answer::error(refusal.id, &refusal.error);
                self.deliver_to(answer, batch.map(|batch| &**batch)).await
            }
            Ok(Message::Request(request)) if request.method == Method::Initialize.as_str() => {
                self.initialize(identity, bytes.clone()).await
            }
            Ok(Message::Request(request)) => {
                self.request((identity, &request), (bytes.clone(), reservation), batch)
                    .await
            }
            Ok(Message::Notification(notification)) => {
                self.notified(identity, &notification, bytes.clone()).await;
                Ok(())
            }
            Ok(Message::Response(_)) => {
                // There is no response.
                self.dispatch(identity, bytes.clone()).await;
                Ok(())
            }
        }
    }

    /// Completes when every request has been answered, but for those that only watch.
    pub(crate) async fn idle(&self) {
        self.without(|running| !running.watches).await;
    }

    /// Completes when every request has been answered. Those that watch end by themselves when the server drains.
    pub(crate) async fn done(&self) {
        self.without(|_| true).await;
    }

    async fn without(&self, waited_for: impl Fn(&RunningRequest) -> bool) {
        let mut answered = self.answered.subscribe();
        while self.requests().values().any(&waited_for) {
            // The sender is `self`.
            let _ = answered.changed().await;
        }
    }

    /// Ends the connection without further answers. Plain calls are cancelled, since their answers can no longer be delivered; tasks continue.
    pub(crate) fn close(&self) {
        let session = self.session().as_ref().map(|session| session.key.clone());
        if let Some(session) = session {
            // Nobody can come back to it.
            self.protocol.interaction.sessions.preferences.remove(&session);
            let ended = SessionChange::Ended(session);
            self.protocol.engine.catalog().session_changed(ended);
        }
        self.closed.cancel();
    }

    /// Completes when the connection was closed.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// With an audit log to the end, also if the client leaves.
    async fn dispatch(&self, identity: &Arc<Identity>, bytes: Bytes) -> Answer {
        let (protocol, identity, session) = (Arc::clone(&self.protocol), Arc::clone(identity), self.session().clone());
        let handoff = *self.handoff.lock();
        let dispatched = async move {
            let incoming = IncomingMessage {
                bytes: &bytes,
                transport: MessageTransport::Stdio {
                    initialized: session.as_ref().map(|session| session.version),
                },
                session,
                takes_stream: true,
                identity: &identity,
                mode: TransportMode {
                    handoff,
                    ..TransportMode::FULL
                },
                address: None,
                resumed_call: None,
            };
            protocol.dispatcher.dispatch(&incoming).await
        };
        match self.protocol.interaction.auditor {
            Some(_) => self.protocol.engine.ports().run_to_completion(dispatched).await,
            None => dispatched.await,
        }
    }

    /// All earlier messages are dispatched before the handshake, and all later ones after it.
    async fn initialize(self: &Arc<Self>, identity: &Arc<Identity>, bytes: Bytes) -> Result<(), ConnectionClosed> {
        self.caught_up().await;
        let answer = self.dispatch(identity, bytes).await;
        if let Answer::Session { session, .. } = &answer {
            *self.session() = Some((**session).clone());
            self.open_push_stream(session);
        }
        self.deliver(answer).await
    }

    /// The session's push stream is this connection.
    fn open_push_stream(self: &Arc<Self>, session: &Session) {
        let (duplex, events) = (
            Arc::clone(self),
            push_stream::open(
                &self.protocol.interaction,
                session,
                (PushChannel::Shared, self.tells_of_resources),
            ),
        );
        self.spawn(async move {
            let _ = duplex.deliver(Answer::Stream(events)).await;
        });
    }

    async fn request(
        self: &Arc<Self>,
        (identity, request): (&Arc<Identity>, &Request<'_>),
        (bytes, held): (Bytes, Option<Reservation>),
        batch: Option<&Arc<BatchResponses>>,
    ) -> Result<(), ConnectionClosed> {
        let key = request.id.canonical().into_owned();
        let slot = match self.enter(&key, watches(request)) {
            Ok(slot) => slot,
            Err(refused) => {
                let answer = Answer::error(Some(request.id), &refused);
                return self.deliver_to(answer, batch.map(|batch| &**batch)).await;
            }
        };
        let batch = batch.map(BatchResponses::joined);
        let listens = (request.method == Method::SubscriptionsListen.as_str()).then(|| OwnedRequestId::of(request.id));
        let kib = u32::try_from(bytes.len() / 1024 + 1).map_or(QUEUE_KIB, |kib| kib.min(QUEUE_KIB));
        // The semaphore is never closed.
        let permit = Arc::clone(&self.queue_space).acquire_many_owned(kib).await.ok();
        let (duplex, identity) = (Arc::clone(self), Arc::clone(identity));
        let (work, abort) = abortable(async move {
            let _held = held;
            let answer = duplex.dispatch(&identity, bytes.clone()).await;
            let answer =
                answer.with_memory_reserved(&duplex.protocol.admission.memory, |error| refuse_message(&bytes, error));
            drop((bytes, permit));
            // Nothing more is sent to a client that has left.
            let _ = match (answer, listens) {
                (Answer::Stream(events), Some(id)) => duplex.subscription(events, id.get()).await,
                (answer, _) => duplex.deliver_to(answer, batch.as_deref()).await,
            };
            if let Some(batch) = batch {
                let _ = duplex.finish(&batch).await;
            }
        });
        if is_modern(request)
            && let Some(running) = self.requests().get_mut(&key)
        {
            running.abort = Some(abort);
        }
        self.spawn(async move {
            let _ = work.await;
            drop(slot);
        });
        Ok(())
    }

    fn enter(self: &Arc<Self>, key: &str, watches: bool) -> Result<RequestSlot, RpcError> {
        let mut requests = self.requests();
        if requests.len() >= MOST_REQUESTS {
            return Err(RpcError::internal(format!(
                "{MOST_REQUESTS} requests of this connection are being answered: wait for some of them"
            )));
        }
        match requests.entry(key.to_owned()) {
            Entry::Occupied(_) => Err(RpcError::invalid_request(
                "A request with this id is being answered: choose another",
            )),
            Entry::Vacant(entry) => {
                entry.insert(RunningRequest { abort: None, watches });
                Ok(RequestSlot {
                    duplex: Arc::clone(self),
                    key: key.to_owned(),
                })
            }
        }
    }

    async fn notified(&self, identity: &Arc<Identity>, notification: &Notification<'_>, bytes: Bytes) {
        // A cancellation finds the request that was sent before it.
        self.caught_up().await;
        if notification.method == Method::Cancelled.as_str()
            && let Some(abort) = self.modern_request(notification)
        {
            return abort.abort();
        }
        if notification.method == HANDOFF_NOTIFICATION
            && let Some(said) = ConnectionHandoff::read(notification.raw_params())
        {
            *self.handoff.lock() = said;
            return;
        }
        // There is no response.
        self.dispatch(identity, bytes).await;
    }

    /// The running modern request that a cancellation names.
    fn modern_request(&self, cancelled: &Notification<'_>) -> Option<AbortHandle> {
        let cancellation = cancelled.params().ok()?.cancelled().ok()?;
        let requests = self.requests();
        requests.get(&*cancellation.request_id.canonical())?.abort.clone()
    }

    /// Completes when all requests so far are dispatched.
    async fn caught_up(&self) {
        // Permits are given in the order in which they are asked for.
        let _ = self.queue_space.acquire_many(QUEUE_KIB).await;
    }

    /// Sends an answer, waiting until it is complete.
    ///
    /// # Errors
    /// [`ConnectionClosed`]
    pub(crate) async fn deliver(&self, answer: Answer) -> Result<(), ConnectionClosed> {
        self.deliver_to(answer, None).await
    }

    /// As [`deliver`](Self::deliver), but the response is added to its batch.
    async fn deliver_to(&self, mut answer: Answer, batch: Option<&BatchResponses>) -> Result<(), ConnectionClosed> {
        loop {
            answer = match answer {
                Answer::Message { text, .. } => return self.respond(text, batch).await,
                Answer::Session { text, .. } | Answer::Challenge { text, .. } => {
                    return self.respond(text.into(), batch).await;
                }
                Answer::Accepted => return Ok(()),
                Answer::Later(later) => later.await,
                Answer::Stream(mut events) => {
                    while let Some(frame) = events.next().await {
                        match frame {
                            Frame::Message(text) if batch.is_some() && is_response(&text) => {
                                self.respond(text, batch).await?;
                            }
                            Frame::Message(text) => self.send_text(text).await?,
                            Frame::KeepAlive | Frame::CloseStream => {}
                        }
                    }
                    return Ok(());
                }
            }
        }
    }

    async fn respond(&self, text: Text, batch: Option<&BatchResponses>) -> Result<(), ConnectionClosed> {
        match batch {
            Some(batch) => {
                batch.texts.lock().push(text);
                Ok(())
            }
            None => self.send_text(text).await,
        }
    }

    /// One of the requests is done; the last one sends the responses.
    async fn finish(&self, batch: &BatchResponses) -> Result<(), ConnectionClosed> {
        if batch.left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return Ok(());
        }
        let texts = std::mem::take(&mut *batch.texts.lock());
        match texts.is_empty() {
            true => Ok(()),
            false => self.send_text(batch::array(texts)).await,
        }
    }

    /// As [`deliver`](Self::deliver); when we end the subscription, a cancellation goes before the response.
    async fn subscription(&self, mut events: Events, id: RequestId<'_>) -> Result<(), ConnectionClosed> {
        while let Some(frame) = events.next().await {
            let Frame::Message(text) = frame else { continue };
            if is_response(&text) {
                let mut cancelled = String::new();
                notification::write_cancelled(&mut cancelled, id, None);
                self.send_text(cancelled).await?;
            }
            self.send_text(text).await?;
        }
        Ok(())
    }

    async fn send_text(&self, text: impl Into<Text>) -> Result<(), ConnectionClosed> {
        self.out.send(text.into()).await.map_err(|_| ConnectionClosed)
    }

    /// Runs `work` until it ends or the connection does.
    fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let closed = self.closed.clone();
        self.protocol.engine.ports().spawner.spawn(Box::pin(async move {
            tokio::select! {
                () = work => {}
                () = closed.cancelled() => {}
            }
        }));
    }

    fn session(&self) -> MutexGuard<'_, Option<Session>> {
        self.session.lock()
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<String, RunningRequest>> {
        self.requests.lock()
    }
}

fn is_response(text: &Text) -> bool {
    matches!(Message::parse(text.text.as_bytes()), Ok(Message::Response(_)))
}

fn watches(request: &Request<'_>) -> bool {
    [Method::SubscriptionsListen, Method::TasksResult]
        .iter()
        .any(|method| request.method == method.as_str())
}

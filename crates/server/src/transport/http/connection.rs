//! What is known of one connection, and how long it may stay without a request.

use super::trusted_proxies::TrustedProxies;
use crate::admission::{authenticator::Peer, limits::Source};
use http::{HeaderMap, Request};
use longhaul_core::Clock;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// How long a connection may stay on which no sender is known: enough for the first request.
const UNKNOWN_SENDER_TIMEOUT: Duration = Duration::from_secs(10);
/// How many times as long if requests are being answered: a sender may be asked about elsewhere, and who is refused may send slowly.
const UNKNOWN_SENDER_TIMEOUTS: u32 = 3;
/// What requests may have in their heads while the sender of none is known: enough for a hundred usual ones, which HTTP/2 can have at once.
const UNKNOWN_HEAD_BYTES: usize = 128 * 1024;
/// What a header costs besides its name and value, as HTTP/2 counts it.
const HEADER_OVERHEAD: usize = 32;

/// One connection, for as long as it is open.
pub(super) struct Connection {
    peer: Peer,
    /// Whether a trusted proxy has opened it, and how many connections all together may have then: its clients' requests are counted instead.
    pub(super) of_proxy: Option<usize>,
    /// Whether the sender of the last request is known.
    has_sender: AtomicBool,
    /// Whether it became known since it was last looked at.
    became_known: AtomicBool,
    /// Requests that are being answered.
    open: AtomicUsize,
    /// Those of known senders whose response was not sent to its end: counted over HTTP/2 only, where others come meanwhile. And those of an application.
    accepted: AtomicUsize,
    /// Bytes in heads of requests whose sender is not known.
    unknown_heads: AtomicUsize,
    /// Streams of HTTP/2 whose readers keep them waiting.
    waiting_readers: Arc<AtomicUsize>,
    /// Streams of HTTP/2 that are open, each from its request to the end of its response; and how many there were.
    streams: AtomicUsize,
    streams_so_far: AtomicUsize,
}

/// A request that is being answered, until dropped.
pub(super) struct OpenRequest<'a>(&'a Connection);

/// A request of a known sender, or of an application, until dropped.
pub(super) struct AcceptedRequest(Arc<Connection>);

/// The connection of a request that an application answers, or hands on to the endpoint. It is an extension of the request.
#[derive(Clone)]
pub(super) struct RequestConnection {
    connection: Arc<Connection>,
    /// Taken once the endpoint has the request, which then finds out its sender.
    of_application: Option<Arc<Mutex<Option<AcceptedRequest>>>>,
}

impl RequestConnection {
    /// A request for the endpoint.
    pub(super) fn of_endpoint(connection: Arc<Connection>) -> Self {
        Self {
            connection,
            of_application: None,
        }
    }

    /// A request for an application, which decides itself who may send it: it counts as an accepted one unless the endpoint gets it.
    pub(super) fn of_application(connection: Arc<Connection>) -> Self {
        let accepted = connection.accepted();
        Self {
            connection,
            of_application: Some(Arc::new(Mutex::new(Some(accepted)))),
        }
    }

    /// The connection, whose request is the endpoint's from now on.
    pub(super) fn hand_to_endpoint(&self) -> Arc<Connection> {
        self.take();
        Arc::clone(&self.connection)
    }

    /// What counts the request as accepted, if the application has answered it itself.
    pub(super) fn take(&self) -> Option<AcceptedRequest> {
        let accepted = self.of_application.as_ref()?;
        accepted.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The head of a request whose sender is not known, until dropped.
pub(super) struct UnknownHead<'a>(&'a Connection, usize);

/// A stream of HTTP/2, until dropped.
pub(super) struct OpenStream<'a>(&'a Connection);

impl Connection {
    /// A connection whose senders are found out.
    pub(super) fn new(peer: Peer, of_proxy: Option<usize>) -> Self {
        Self {
            peer,
            of_proxy,
            has_sender: AtomicBool::new(false),
            became_known: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
            unknown_heads: AtomicUsize::new(0),
            waiting_readers: Arc::default(),
            streams: AtomicUsize::new(0),
            streams_so_far: AtomicUsize::new(0),
        }
    }

    /// What it comes from.
    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Where a request with these headers comes from.
    pub(super) fn source(&self, proxies: &TrustedProxies, headers: &HeaderMap) -> Option<Source> {
        match &self.peer {
            Peer::Tcp { remote, .. } if proxies.include(remote.ip()) => Some(proxies.client(remote.ip(), headers)),
            Peer::Tcp { remote, .. } => Some(Source::Address(remote.ip())),
            Peer::Unix { uid } => Some(Source::User(*uid)),
            Peer::Unknown => None,
        }
    }

    /// The sender of a request is known, so the connection may stay: until the response was sent, and as long as no other request is denied.
    pub(super) fn accept(self: &Arc<Self>) -> Option<AcceptedRequest> {
        // Most requests find it set; reading is cheaper.
        if !self.has_sender.load(Ordering::Relaxed) {
            self.has_sender.store(true, Ordering::Relaxed);
            self.became_known.store(true, Ordering::Relaxed);
        }
        self.is_http2().then(|| self.accepted())
    }

    fn accepted(self: &Arc<Self>) -> AcceptedRequest {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        AcceptedRequest(Arc::clone(self))
    }

    /// A request was denied: whoever was known may have lost the right to be here.
    pub(super) fn deny(&self) {
        self.has_sender.store(false, Ordering::Relaxed);
    }

    /// The head of a request, if its sender must be found out; `None` if there are too many already.
    pub(super) fn hold_head<B>(&self, request: &Request<B>) -> Option<UnknownHead<'_>> {
        if self.has_sender.load(Ordering::Relaxed) {
            return Some(UnknownHead(self, 0));
        }
        let uri = request.uri();
        let headers = request.headers().iter();
        let bytes = headers
            .map(|(name, value)| name.as_str().len() + value.len() + HEADER_OVERHEAD)
            .chain(uri.authority().map(|authority| authority.as_str().len()))
            .chain(uri.path_and_query().map(|path| path.as_str().len()))
            .sum();
        let before = self.unknown_heads.fetch_add(bytes, Ordering::Relaxed);
        let head = UnknownHead(self, bytes);
        // One alone may have as much as any.
        (before == 0 || before + bytes <= UNKNOWN_HEAD_BYTES).then_some(head)
    }

    /// Whether a stream was opened.
    fn is_http2(&self) -> bool {
        self.streams_so_far.load(Ordering::Relaxed) > 0
    }

    /// A request begins.
    pub(super) fn begin(&self) -> OpenRequest<'_> {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenRequest(self)
    }

    /// A stream of HTTP/2 begins.
    pub(super) fn open_stream(&self) -> OpenStream<'_> {
        self.streams_so_far.fetch_add(1, Ordering::Relaxed);
        self.streams.fetch_add(1, Ordering::Relaxed);
        OpenStream(self)
    }

    /// Counts the streams whose readers keep them waiting.
    pub(super) fn waiting_readers(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.waiting_readers)
    }

    /// Completes when it had no stream of HTTP/2 for at least so long, and less than twice as long.
    pub(super) async fn idle_for(&self, timeout: Duration, clock: &dyn Clock) {
        let seen = || {
            (
                self.streams.load(Ordering::Relaxed),
                self.streams_so_far.load(Ordering::Relaxed),
            )
        };
        loop {
            let before = seen();
            clock.sleep(timeout).await;
            if before.0 == 0 && before == seen() {
                return;
            }
        }
    }

    /// Completes when it has stayed too long without anyone who may use the server.
    pub(super) async fn nobody_is_known(&self, clock: &dyn Clock) {
        let mut timeouts = 0;
        loop {
            let was_unknown = self.is_unknown();
            clock.sleep(UNKNOWN_SENDER_TIMEOUT).await;
            match self.is_unknown() {
                // Whoever was denied meanwhile has the time to read it.
                true if was_unknown && !self.became_known.swap(false, Ordering::Relaxed) => timeouts += 1,
                _ => timeouts = 0,
            }
            let is_idle = self.open.load(Ordering::Relaxed) == 0;
            if timeouts >= UNKNOWN_SENDER_TIMEOUTS || (timeouts > 0 && is_idle) {
                return;
            }
        }
    }

    /// Whether nobody known has sent the last request, or waits for the response to an earlier one.
    fn is_unknown(&self) -> bool {
        !self.has_sender.load(Ordering::Relaxed) && self.accepted.load(Ordering::Relaxed) == 0
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for AcceptedRequest {
    fn drop(&mut self) {
        self.0.accepted.fetch_sub(1, Ordering::Relaxed);
        // The last bytes of its response may still have to be sent.
        self.0.became_known.store(true, Ordering::Relaxed);
    }
}

impl Drop for UnknownHead<'_> {
    fn drop(&mut self) {
        if self.1 > 0 {
            self.0.unknown_heads.fetch_sub(self.1, Ordering::Relaxed);
        }
    }
}

impl Drop for OpenStream<'_> {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

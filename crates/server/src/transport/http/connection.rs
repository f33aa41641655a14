//! What is known of one connection, and how long it may stay without a request.

use super::trusted_proxies::TrustedProxies;
use crate::admission::authenticator::Peer;
use http::HeaderMap;
use longhaul_core::Clock;
use std::{
    net::IpAddr,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

/// How long a connection may stay on which no sender is known yet: enough for the first request.
const UNKNOWN_SENDER_TIMEOUT: Duration = Duration::from_secs(10);

/// One connection, for as long as it is open.
pub(super) struct Connection {
    peer: Peer,
    /// Whether a trusted proxy has opened it, and how many connections all together may have then: its clients' requests are counted instead.
    pub(super) of_proxy: Option<usize>,
    /// Whether a sender of one of its requests is known.
    has_sender: AtomicBool,
    /// Requests that are being answered.
    open: AtomicUsize,
    /// Streams of HTTP/2 that are open, each from its request to the end of its response; and how many there were.
    streams: AtomicUsize,
    streams_so_far: AtomicUsize,
}

/// A request that is being answered, until dropped.
pub(super) struct OpenRequest<'a>(&'a Connection);

/// A stream of HTTP/2, until dropped.
pub(super) struct OpenStream<'a>(&'a Connection);

impl Connection {
    /// A connection whose senders are found out.
    pub(super) fn new(peer: Peer, of_proxy: Option<usize>) -> Self {
        Self {
            peer,
            of_proxy,
            has_sender: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            streams_so_far: AtomicUsize::new(0),
        }
    }

    /// What it comes from.
    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The address of the client that has sent a request with these headers.
    pub(super) fn client(&self, proxies: &TrustedProxies, headers: &HeaderMap) -> Option<IpAddr> {
        let address = self.peer.address()?.ip();
        Some(match proxies.include(address) {
            true => proxies.client(address, headers),
            false => address,
        })
    }

    /// The sender of a request is known, so the connection may stay.
    pub(super) fn sender_is_known(&self) {
        // Most requests find it set; reading is cheaper.
        if !self.has_sender.load(Ordering::Relaxed) {
            self.has_sender.store(true, Ordering::Relaxed);
        }
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
        loop {
            clock.sleep(UNKNOWN_SENDER_TIMEOUT).await;
            if self.has_sender.load(Ordering::Relaxed) {
                return std::future::pending().await;
            }
            // A sender may be asked about elsewhere.
            if self.open.load(Ordering::Relaxed) == 0 {
                return;
            }
        }
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for OpenStream<'_> {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

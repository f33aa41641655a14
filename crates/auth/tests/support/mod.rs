//! A clock that stands still until it is moved, and requests without a server.

#![allow(dead_code, reason = "each test uses its part")]

use http::{HeaderMap, HeaderValue, Uri, header::AUTHORIZATION};
use longhaul_auth::same_user::SameUser;
use longhaul_core::{BoxFuture, Clock, UnixMillis};
use longhaul_runtime::Ports;
use longhaul_server::auth::{AuthDecision, Authenticator, Denied, Identity, Peer, RequestHead};
use std::{
    sync::Arc,
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};
use tokio::sync::watch;

/// When the tests begin.
pub(crate) const START: UnixMillis = UnixMillis(1_800_000_000_000);

/// Moved by the test.
pub(crate) struct TestClock(watch::Sender<Duration>, AtomicI64);

impl TestClock {
    /// The ports of the system, with this clock.
    pub(crate) fn ports() -> (Arc<Self>, Ports) {
        let clock = Arc::new(Self(watch::Sender::new(Duration::ZERO), AtomicI64::new(0)));
        let ports = Ports {
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            ..Ports::system()
        };
        (clock, ports)
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, time: Duration) {
        self.0.send_modify(|now| *now += time);
    }

    /// Sets the system's clock, which then differs from the time that has passed by so many milliseconds.
    pub(crate) fn set_off_by(&self, millis: i64) {
        self.1.store(millis, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> UnixMillis {
        START.plus(u64::try_from(self.monotonic().as_millis()).unwrap_or(u64::MAX))
    }

    fn wall(&self) -> UnixMillis {
        UnixMillis(self.now().0 + self.1.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        *self.0.borrow()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let mut now = self.0.subscribe();
        let until = self.monotonic() + duration;
        Box::pin(async move {
            // Without its clock nothing sleeps any more.
            let _ = now.wait_for(|now| *now >= until).await;
        })
    }
}

/// What the authenticator says about a request with these headers from this peer.
pub(crate) async fn ask(
    authenticator: &dyn Authenticator,
    headers: &HeaderMap,
    peer: &Peer,
) -> Option<Result<Arc<Identity>, Denied>> {
    let uri = Uri::from_static("/mcp");
    let head = RequestHead {
        headers,
        uri: &uri,
        peer,
    };
    match authenticator.authenticate(&head) {
        AuthDecision::NotMine => None,
        AuthDecision::Known(known) => Some(known),
        AuthDecision::Pending(pending) | AuthDecision::Renewing(pending) => Some(pending.await),
    }
}

/// What the authenticator says about a request with this token.
pub(crate) async fn present(authenticator: &dyn Authenticator, token: &str) -> Option<Result<Arc<Identity>, Denied>> {
    ask(authenticator, &bearer(token), &Peer::Unknown).await
}

/// The headers of a request with this token.
pub(crate) fn bearer(token: &str) -> HeaderMap {
    let value = HeaderValue::try_from(format!("Bearer {token}")).expect("a header");
    HeaderMap::from_iter([(AUTHORIZATION, value)])
}

/// The check, if the system has it.
pub(crate) fn same_user() -> Option<SameUser> {
    SameUser::new().ok()
}

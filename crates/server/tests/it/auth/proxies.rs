//! Requests through proxies: whose they are, and who may send them.

use super::{Authenticated, Tokens, of};
use crate::{
    client::Connection,
    clock::TestClock,
    request::{Post, list},
    server::{Options, Server, get},
};
use longhaul_server::{
    audit::{Audit, AuditEvent},
    auth::{AuthDecision, Authentication, Authenticator, Denied, Identity, Peer, PeerUser, RequestHead},
    http::{Exposure, HttpOptions, Listener},
};
use std::{
    net::IpAddr,
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

/// As which the tests' clients connect.
const PROXY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 3));

fn behind_a_proxy() -> HttpOptions {
    HttpOptions {
        trusted_proxies: vec!["127.0.0.3".parse().unwrap(), "10.0.0.0/8".parse().unwrap()],
        ..HttpOptions::default()
    }
}

fn from(client: &str, post: Post) -> Post {
    post.with("X-Forwarded-For", client)
}

/// Every connection is of the same user.
struct SameUser(Arc<Mutex<Vec<PeerUser>>>);

impl Authenticator for SameUser {
    fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthDecision<'a> {
        match head.peer {
            Peer::Tcp { user, .. } => self.0.lock().unwrap().push(*user),
            other => panic!("{other:?}"),
        }
        AuthDecision::Known(Ok(Arc::new(Identity::same_user())))
    }

    fn peer_user(&self, _: &tokio::net::TcpStream) -> PeerUser {
        PeerUser::Same
    }
}

/// The addresses of refused requests.
#[derive(Default)]
struct Addresses(Mutex<Vec<String>>);

impl Audit for Addresses {
    fn record(&self, event: &AuditEvent) {
        let address = event.address.map(|address| address.to_string());
        self.0.lock().unwrap().push(address.unwrap_or_default());
    }
}

#[tokio::test]
async fn no_request_through_a_proxy_is_the_same_users() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut options = Options::with_authenticator(SameUser(Arc::clone(&seen)));
    options.http = behind_a_proxy();
    let server = Server::with(options).await;
    server.result(&list()).await;
    Connection::open_from(PROXY, server.address).await.result(&list()).await;
    assert_eq!(*seen.lock().unwrap(), [PeerUser::Same, PeerUser::Unknown]);
}

/// Limits of one address are those of the client, and so is what the audit log has.
#[tokio::test]
async fn s_06_s_07_clients_behind_a_proxy_are_told_apart() {
    let addresses = Arc::new(Addresses::default());
    let options = Options::with(|options| {
        options.http = behind_a_proxy();
        options.audit = Some(Arc::<Addresses>::clone(&addresses));
    });
    let served = Authenticated::with(options).await;
    let mut proxy = Connection::open_from(PROXY, served.server.address).await;
    let mut direct = served.server.connect().await;
    for (is_direct, post, address) in [
        (false, from("203.0.113.7, 10.0.0.9", list()), "203.0.113.7"),
        (false, from("junk", list()), "127.0.0.3"),
        (false, list(), "127.0.0.3"),
        (true, from("203.0.113.7", list()), "127.0.0.1"),
    ] {
        let connection = if is_direct { &mut direct } else { &mut proxy };
        assert_eq!(connection.exchange(&of("nobody", post)).await.status(), 401);
        assert_eq!(std::mem::take(&mut *addresses.0.lock().unwrap()), [address]);
    }

    let mut options = Options::with_clock(&TestClock::standing());
    options.http = behind_a_proxy();
    options.limits.connections = 1;
    options.limits.unknown_ids_per_second = NonZeroU32::new(1);
    let server = Server::with(options).await;
    // The proxy itself may have more connections, and each client one request at a time.
    let mut waiting = Connection::open_from(PROXY, server.address).await;
    let mut proxy = Connection::open_from(PROXY, server.address).await;
    let wait = Post::plain_call("optional", "wait");
    waiting.send(&from("203.0.113.7", wait).to_bytes()).await;
    server.stage.begun.reaches(1).await;
    let second = proxy.ask(&from("203.0.113.7", list())).await;
    assert_eq!(second.error(), (429, 429));
    proxy.result(&from("203.0.113.8", list())).await;
    server.stage.released.count();
    assert_eq!(waiting.reply().await.status(), 200);
    proxy.result(&from("203.0.113.7", list())).await;
    // Clients of whom nothing else is known use up their own share of unknown ids.
    let unknown = |client| from(client, get("0123456789abcdefghjkmnpqrstvwxyz0123"));
    for error in [(200, -32602), (200, -32602), (429, 429)] {
        assert_eq!(proxy.error(&unknown("203.0.113.7")).await, error);
    }
    assert_eq!(proxy.error(&unknown("203.0.113.8")).await.0, 200);
}

/// One client can make its requests unreadable. That uses up nothing of the others behind the proxy, nor of the proxy itself.
#[tokio::test]
async fn s_06_a_client_that_cannot_be_told_apart_locks_out_no_other() {
    let clock = TestClock::standing();
    let mut options = Options::with_authenticator(Tokens::new(&clock));
    options.http = behind_a_proxy();
    options.limits.denied_per_second = NonZeroU32::new(1);
    options.clock = clock;
    let server = Server::with(options).await;
    let mut proxy = Connection::open_from(PROXY, server.address).await;
    let made_up = || from("203.0.113.7", list()).with("Forwarded", "for=_hidden");
    let requests = [
        (of("nobody", made_up()), 401),
        (of("nobody", made_up()), 401),
        (of("nobody", made_up()), 429),
        (of("later-ann", made_up()), 429),
        (of("later-ann", from("203.0.113.7", list())), 200),
        (of("later-ann", from("203.0.113.8", list())), 200),
        (of("nobody", from("203.0.113.8", list())), 401),
        (of("later-ann", list()), 200),
    ];
    for (at, (post, status)) in requests.iter().enumerate() {
        assert_eq!(proxy.ask(post).await.status(), *status, "{at}");
    }
}

/// Without TLS of its own the server is for the proxies that have it, and for this machine.
#[tokio::test]
async fn others_than_the_proxies_at_which_tls_ends_are_refused() {
    // Nothing is sent: this finds the address that would be sent from.
    let probe = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let own = probe.connect("192.0.2.1:9").and_then(|()| probe.local_addr());
    let own = own.ok().map(|address| address.ip());
    let Some(own) = own.filter(|address| !address.is_loopback()) else {
        eprintln!("this machine has no other address");
        return;
    };
    for (trusted, status) in [(own.to_string(), 200), ("192.0.2.1".to_owned(), 403)] {
        let http = HttpOptions {
            trusted_proxies: vec![trusted.parse().unwrap()],
            ..HttpOptions::default()
        };
        let served = Authenticated::with(Options::with(|options| options.http = http.clone())).await;
        let authentication = Authentication {
            authenticators: vec![Arc::new(served.tokens.clone())],
            ..Authentication::default()
        };
        let exposure = Exposure::of(&authentication, &http, false);
        let listener = Listener::bind_exposed(([0, 0, 0, 0], 0).into(), exposure).await;
        let listener = listener.unwrap();
        let port = listener.address().port();
        let protocol = Arc::clone(&served.server.protocol);
        let serving = listener.serve(protocol, std::future::pending());
        let asking = async {
            let mut local = Connection::open((std::net::Ipv4Addr::LOCALHOST, port).into()).await;
            local.result(&of("ann", list())).await;
            let mut remote = Connection::open((own, port).into()).await;
            remote.ask(&of("ann", list())).await
        };
        let reply = tokio::select! {
            () = serving => unreachable!("it is not stopped"),
            reply = asking => reply,
        };
        assert_eq!(reply.status(), status, "{trusted}: {reply:?}");
        assert!(status == 200 || reply.body.contains("trusted_proxies"), "{reply:?}");
    }
}

/// Nobody can say whose a connection is.
struct Unanswered;

impl Authenticator for Unanswered {
    fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthDecision<'a> {
        match head.peer {
            Peer::Tcp {
                user: PeerUser::Unavailable,
                ..
            } => AuthDecision::Known(Err(Denied::PeerUnavailable {
                retry_after: Duration::from_secs(1),
            })),
            other => panic!("{other:?}"),
        }
    }

    fn peer_user(&self, _: &tokio::net::TcpStream) -> PeerUser {
        PeerUser::Unavailable
    }
}

/// Whose it is is asked once, so the next try needs another connection.
#[tokio::test]
async fn a_connection_that_could_not_be_asked_about_is_closed() {
    let server = Server::with(Options::with_authenticator(Unanswered)).await;
    let mut connection = server.send(&list()).await;
    let reply = connection.reply().await;
    assert_eq!((reply.status(), reply.head.header("retry-after")), (503, Some("1")));
    assert_eq!(connection.read_to_close().await, 0);
}

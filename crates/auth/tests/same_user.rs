//! Whose a connection is, shown by real processes. Those of another user need root, without which they are left out.

#![cfg(target_os = "linux")]

mod support;

use http::{HeaderMap, HeaderValue, header::HeaderName};
use longhaul_auth::same_user::SameUser;
use longhaul_server::auth::{Authenticator as _, Peer, PeerUser};
use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdout, Command, Stdio},
};

/// A user that has no processes.
const OTHER_USER: u32 = 54_321;
const SCRIPT: &str = r#"
exec 3<>/dev/tcp/127.0.0.1/$1
echo connected
while read -r command; do
    [ "$command" = close ] && exec 3>&-
    echo done
done
"#;

/// A process that holds the other end of a connection.
struct Peers {
    child: Child,
    answers: BufReader<ChildStdout>,
    local: SocketAddr,
    remote: SocketAddr,
    _accepted: TcpStream,
}

impl Peers {
    fn connect(user: Option<u32>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        let local = listener.local_addr().expect("an address");
        let mut command = Command::new("bash");
        command.args(["-c", SCRIPT, "peer", &local.port().to_string()]);
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let mut child = command.spawn().expect("bash runs");
        let (accepted, remote) = listener.accept().expect("a connection");
        let mut peers = Self {
            answers: BufReader::new(child.stdout.take().expect("it is piped")),
            child,
            local,
            remote,
            _accepted: accepted,
        };
        peers.wait();
        peers
    }

    fn tell(&mut self, command: &str) {
        let input = self.child.stdin.as_mut().expect("it is piped");
        writeln!(input, "{command}").expect("it reads");
        self.wait();
    }

    fn wait(&mut self) {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer");
        assert!(!line.is_empty(), "the process has ended");
    }

    fn user(&self) -> PeerUser {
        check().peer_user(self.local, self.remote)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn check() -> SameUser {
    SameUser::new().expect("this kernel has sock_diag")
}

/// Whether processes of other users can be started.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("not root: the part with another user is left out");
    }
    root
}

#[test]
fn a_process_of_this_user_is_the_same_until_it_closes_its_side() {
    let mut peers = Peers::connect(None);
    assert_eq!(peers.user(), PeerUser::Same);
    peers.tell("close");
    assert_eq!(peers.user(), PeerUser::Unknown);
}

#[test]
fn a_process_of_another_user_is_not_the_same_nor_after_it_closed_its_side() {
    if !is_root() {
        return;
    }
    let mut peers = Peers::connect(Some(OTHER_USER));
    assert_eq!(peers.user(), PeerUser::Other);
    // The kernel says of a closed socket that it is root's, whom this test runs as.
    peers.tell("close");
    assert_eq!(peers.user(), PeerUser::Unknown);
}

#[test]
fn a_process_that_died_is_not_the_same() {
    let mut peers = Peers::connect(None);
    peers.child.kill().expect("killed");
    peers.child.wait().expect("ended");
    assert_eq!(peers.user(), PeerUser::Unknown);
}

#[test]
fn both_families_and_mapped_addresses_are_understood() {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).expect("a listener for both families");
    let port = listener.local_addr().expect("an address").port();
    let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
    for to in [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
        IpAddr::V6(mapped),
    ] {
        let client = TcpStream::connect((to, port)).expect("connected");
        let (accepted, remote) = listener.accept().expect("a connection");
        let local = accepted.local_addr().expect("an address");
        assert_eq!(
            check().peer_user(local, remote),
            PeerUser::Same,
            "{to} as {local} and {remote}"
        );
        drop(client);
        assert_eq!(check().peer_user(local, remote), PeerUser::Unknown, "{to}");
    }
}

#[test]
fn a_listener_or_another_connection_of_the_same_port_is_not_taken_for_the_peer() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let local = listener.local_addr().expect("an address");
    let client = TcpStream::connect(local).expect("connected");
    let peer = client.local_addr().expect("an address");
    let with_port = |address: SocketAddr, port: u16| SocketAddr::new(address.ip(), port);
    assert_eq!(check().peer_user(local, peer), PeerUser::Same);
    // The kernel answers this with the listener.
    assert_eq!(
        check().peer_user(peer, with_port(local, local.port())),
        PeerUser::Unknown
    );
    assert_eq!(check().peer_user(with_port(local, 1), peer), PeerUser::Unknown);
    assert_eq!(check().peer_user(local, with_port(peer, 1)), PeerUser::Unknown);
    let elsewhere = SocketAddr::new(Ipv4Addr::new(127, 0, 0, 2).into(), peer.port());
    assert_eq!(check().peer_user(local, elsewhere), PeerUser::Unknown);
    let remote = "192.0.2.1:443".parse().expect("an address");
    assert_eq!(check().peer_user(local, remote), PeerUser::Unknown);
}

#[tokio::test]
async fn only_plain_requests_of_the_same_user_are_served() {
    let check = check();
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let peer = |user| Peer::Tcp {
        local,
        remote: local,
        user,
    };
    let none = HeaderMap::new();
    let same = support::ask(&check, &none, &peer(PeerUser::Same))
        .await
        .expect("decided")
        .expect("served");
    assert_eq!(same.principal().as_str(), "local");
    let with = |name: &'static str, value: &'static str| {
        HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static(value))])
    };
    for (headers, peer) in [
        (&none, peer(PeerUser::Other)),
        (&none, peer(PeerUser::Unknown)),
        (&none, Peer::Unknown),
        (&none, Peer::Unix { uid: OTHER_USER }),
        (&with("x-forwarded-for", "203.0.113.7"), peer(PeerUser::Same)),
        (&with("via", "1.1 proxy"), peer(PeerUser::Same)),
        (&with("authorization", "Bearer wrong"), peer(PeerUser::Same)),
    ] {
        assert!(
            support::ask(&check, headers, &peer).await.is_none(),
            "{headers:?} {peer:?}"
        );
    }
    let own = Peer::Unix {
        uid: rustix::process::geteuid().as_raw(),
    };
    assert!(support::ask(&check, &none, &own).await.is_some());
}

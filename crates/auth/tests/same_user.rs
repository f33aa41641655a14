//! Whose a connection is, shown by real processes. Those of another user need root, without which they are left out.

#![cfg(target_os = "linux")]

mod support;

use http::{
    HeaderMap, HeaderValue,
    header::{HOST, HeaderName},
};
use longhaul_auth::same_user::SameUser;
use longhaul_server::auth::{Peer, PeerUser};
use rustix::net::{AddressFamily, SocketType};
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::unix::{net::UnixStream, process::CommandExt as _},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
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
    accepted: TcpStream,
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
        let (accepted, _) = listener.accept().expect("a connection");
        let mut peers = Self {
            answers: BufReader::new(child.stdout.take().expect("it is piped")),
            child,
            accepted,
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
        check().check(&self.accepted)
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
        assert_eq!(check().check(&accepted), PeerUser::Same, "{to} as {remote}");
        drop(client);
        assert_eq!(check().check(&accepted), PeerUser::Unknown, "{to}");
    }
}

/// An address of this machine on which no other process takes a port that becomes free.
const OWN_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 113, 7);

/// Connects from a port that the test chooses; 0 for any.
fn connect_from(port: u16, to: SocketAddr) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    rustix::net::bind(&socket, &SocketAddr::from((OWN_ADDRESS, port))).expect("the port is free");
    rustix::net::connect(&socket, &to).expect("connected");
    socket.into()
}

#[test]
fn who_has_the_port_of_a_reset_connection_now_is_not_its_peer() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let local = listener.local_addr().expect("an address");
    let mut gone = connect_from(0, local);
    let port = gone.local_addr().expect("an address").port();
    gone.write_all(b"a request that is read after the reset").expect("sent");
    // Closing then resets the connection, and its port is free at once.
    rustix::net::sockopt::set_socket_linger(&gone, Some(Duration::ZERO)).expect("set");
    drop(gone);
    let later = connect_from(port, local);
    let (mut first, _) = listener.accept().expect("the connection that was reset");
    let (second, _) = listener.accept().expect("the later connection");
    assert_eq!(later.peer_addr().expect("it is open"), local);
    assert_eq!(check().check(&second), PeerUser::Same);
    assert_eq!(check().check(&first), PeerUser::Unknown);
    // Which matters because its request is still there.
    assert_eq!(first.read(&mut [0; 9]).expect("readable"), 9);
}

#[test]
fn other_sockets_have_no_known_user() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    assert_eq!(check().check(&listener), PeerUser::Unknown);
    let datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    datagrams
        .connect(listener.local_addr().expect("an address"))
        .expect("connected");
    assert_eq!(check().check(&datagrams), PeerUser::Unknown);
    let (pair, _other) = UnixStream::pair().expect("a pair");
    assert_eq!(check().check(&pair), PeerUser::Unknown);
}

#[tokio::test]
async fn only_plain_requests_of_the_same_user_are_served() {
    let check = check();
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 7411));
    let peer = |user| Peer::Tcp {
        local,
        remote: local,
        user,
    };
    let with = |name: &'static str, value: &'static str| {
        let mut headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost:7411"))]);
        // In place of that host, if it is one.
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        headers
    };
    let none = with("accept", "*/*");
    let same = support::ask(&check, &none, &peer(PeerUser::Same))
        .await
        .expect("decided")
        .expect("served");
    assert_eq!(same.principal().as_str(), "local");
    let from_own_page = with("origin", "http://localhost:3000");
    assert!(
        support::ask(&check, &from_own_page, &peer(PeerUser::Same))
            .await
            .is_some()
    );
    // It means port 80 or 443: that of a forwarder, unless the server has it.
    let without_a_port = with("host", "localhost");
    for (port, is_served) in [(80, true), (443, true), (7411, false)] {
        let peer = Peer::Tcp {
            local: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            remote: local,
            user: PeerUser::Same,
        };
        let asked = support::ask(&check, &without_a_port, &peer).await;
        assert_eq!(asked.is_some(), is_served, "{port}");
    }
    for (headers, peer) in [
        (&none, peer(PeerUser::Other)),
        (&none, peer(PeerUser::Unknown)),
        (&none, Peer::Unknown),
        (&none, Peer::Unix { uid: OTHER_USER }),
        (&with("x-forwarded-for", "203.0.113.7"), peer(PeerUser::Same)),
        (&with("via", "1.1 proxy"), peer(PeerUser::Same)),
        (&with("host", "mcp.example.com"), peer(PeerUser::Same)),
        (&with("host", "localhost:7412"), peer(PeerUser::Same)),
        (&with("host", "127.0.0.1:80"), peer(PeerUser::Same)),
        (
            &with("x-amzn-trace-id", "Root=1-67891233-abcdef012345678912345678"),
            peer(PeerUser::Same),
        ),
        (&with("origin", "https://app.example.com"), peer(PeerUser::Same)),
        (&with("origin", "null"), peer(PeerUser::Same)),
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

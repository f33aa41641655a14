//! A server without a free file descriptor. In a process of its own, since the limit is the process's.

#![cfg(target_os = "linux")]

mod support;

use http::{HeaderMap, HeaderValue, header::HOST};
use longhaul_auth::same_user::SameUser;
use longhaul_server::auth::{Denied, Peer, PeerUser};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    net::{Ipv4Addr, TcpListener, TcpStream},
    time::Duration,
};

#[tokio::test]
async fn a_connection_that_cannot_be_asked_about_is_told_to_try_again() {
    let check = SameUser::new().expect("the kernel answers");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let local = listener.local_addr().expect("an address");
    let _client = TcpStream::connect(local).expect("connected");
    let (accepted, remote) = listener.accept().expect("a connection");
    assert_eq!(check.check(&accepted), PeerUser::Same);
    let limit = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(0),
        ..limit
    };
    setrlimit(Resource::Nofile, none).expect("lowered");
    let user = check.check(&accepted);
    setrlimit(Resource::Nofile, limit).expect("restored");
    assert_eq!(user, PeerUser::Unavailable);

    let peer = Peer::Tcp { local, remote, user };
    let host = HeaderValue::try_from(local.to_string()).expect("a host");
    let headers = HeaderMap::from_iter([(HOST, host)]);
    let asked = support::ask(&check, &headers, &peer).await;
    let retry_after = Duration::from_secs(1);
    assert_eq!(
        asked.expect("decided").err(),
        Some(Denied::PeerUnavailable { retry_after })
    );
    let elsewhere = HeaderMap::from_iter([(HOST, HeaderValue::from_static("mcp.example.com"))]);
    assert!(support::ask(&check, &elsewhere, &peer).await.is_none());
}

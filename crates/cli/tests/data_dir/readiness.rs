//! What `/readyz` says of a database that cannot be used.

use super::{
    shared_store::Shared,
    support::{Place, Served, until},
};
use rustix::process::Signal;
use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
};

/// The status and the body of an answer of its admin address.
fn get(server: &Served, path: &str) -> (String, String) {
    let address = server.report["admin"]
        .as_str()
        .unwrap()
        .strip_prefix("http://")
        .unwrap();
    let address = address.split('/').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap();
    (status.to_owned(), body.to_owned())
}

/// The process lives, so nobody starts it again, and a load balancer sends it nothing, and reads why.
#[test]
fn a_server_without_its_primary_is_alive_and_not_ready() {
    let mut shared = Shared::private();
    let jobs = shared.jobs();
    let place = Place::with(&format!("{jobs}\n[admin]\nlisten = \"127.0.0.1:0\"\n"));
    let mut server = place.serve(&[]);
    let ready = || ("200".to_owned(), "ready\n".to_owned());
    assert_eq!(get(&server, "/readyz"), ready());

    shared.database.signal(Signal::STOP);
    until("it says that nothing answers", || {
        let (status, why) = get(&server, "/readyz");
        status == "503" && why == "the store has not answered for 2 s\n"
    });
    assert_eq!(get(&server, "/healthz"), ("200".to_owned(), "ok\n".to_owned()));
    shared.database.signal(Signal::CONT);
    until("it is ready again", || get(&server, "/readyz") == ready());

    let database = Arc::get_mut(&mut shared.database).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(database.demote());
    until("it says that only a standby is there", || {
        let (status, why) = get(&server, "/readyz");
        status == "503" && why.contains("it is a standby") && why.contains("Name the primary")
    });
    assert_eq!(get(&server, "/healthz"), ("200".to_owned(), "ok\n".to_owned()));
    assert!(server.child.try_wait().unwrap().is_none(), "it waits for its primary");
}

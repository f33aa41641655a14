//! Many connections, and slow ones.

use super::{
    attempts::Attempts,
    raw,
    site::{AttackSite, Programs},
};
use harness::{clock, rounds::RunError};
use std::{io::Write, net::TcpStream, time::Duration};

pub(super) fn run(programs: &Programs, report: &mut Attempts) -> Result<(), RunError> {
    let settings = "[server.limits]\nconnections = 900";
    let mut site = AttackSite::start(programs, "connections", settings)?;
    let begun = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le".as_slice();
    let half = raw::modern_call("say", r#"{"text":"x"}"#, true);
    let half = &half[..half.len() - 5];
    for (what, bytes) in [
        ("silent", b"".as_slice()),
        ("in their head", begun),
        ("in their body", half),
    ] {
        let mut open = Vec::new();
        for _ in 0..600 {
            let mut stream = TcpStream::connect(site.address())?;
            stream.write_all(bytes)?;
            open.push(stream);
        }
        report.attempt(
            &format!("beside 600 connections that are {what}"),
            site.serves_clients(),
        );
        drop(open);
        let freed = clock::wait_for(Duration::from_secs(30), || site.serves_clients().is_ok().then_some(()));
        report.check(&format!("after connections that are {what}"), freed.is_some(), || {
            "not served".to_owned()
        });
    }
    // Connections that are closed at once, or before their answer is read.
    for _ in 0..2_000 {
        drop(TcpStream::connect(site.address())?);
    }
    report.attempt("after 2,000 connections without a request", site.serves_clients());
    for _ in 0..500 {
        let mut stream = TcpStream::connect(site.address())?;
        stream.write_all(&raw::modern_call("say", r#"{"text":"x"}"#, true))?;
        // Dropped before its answer is read.
    }
    report.attempt("after 500 unread answers", site.serves_clients());
    Ok(())
}

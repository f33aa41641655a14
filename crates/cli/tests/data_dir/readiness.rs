//! What `/readyz` says of a database that cannot be used.

use super::{
    shared_store::Shared,
    support::{Place, until},
};
use rustix::process::Signal;
use std::sync::Arc;

/// The process lives, so nobody starts it again, and a load balancer sends it nothing, and reads why.
#[test]
fn a_server_without_its_primary_is_alive_and_not_ready() {
    let mut shared = Shared::private();
    let jobs = shared.jobs();
    let place = Place::with(&format!("{jobs}\n[admin]\nlisten = \"127.0.0.1:0\"\n"));
    let mut server = place.serve(&[]);
    let ready = || ("200".to_owned(), "ready\n".to_owned());
    assert_eq!(server.get("/readyz"), ready());

    shared.database.signal(Signal::STOP);
    until("it says that nothing answers", || {
        let (status, why) = server.get("/readyz");
        status == "503" && why == "the store has not answered for 2 s\n"
    });
    assert_eq!(server.get("/healthz"), ("200".to_owned(), "ok\n".to_owned()));
    shared.database.signal(Signal::CONT);
    until("it is ready again", || server.get("/readyz") == ready());

    let database = Arc::get_mut(&mut shared.database).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(database.demote());
    until("it says that only a standby is there", || {
        let (status, why) = server.get("/readyz");
        status == "503" && why.contains("it is a standby") && why.contains("Name the primary")
    });
    assert_eq!(server.get("/healthz"), ("200".to_owned(), "ok\n".to_owned()));
    assert!(server.child.try_wait().unwrap().is_none(), "it waits for its primary");
}

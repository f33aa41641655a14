//! Plain calls beside tasks: they wait for no sync, and one that becomes a task is acknowledged as such after one, like all others.

use super::Acknowledged;
use crate::{
    clock,
    mcp::{CallResponse, Client, Era, Outcome, RequestError, TaskState},
};
use serde_json::json;
use std::{net::SocketAddr, panic::resume_unwind, time::Duration};

/// A tool that is no task before so many milliseconds; `under_fire` has the same.
const AFTER: u64 = 40;
/// Longer than any run.
const ENDLESS: u64 = 3_600_000;
/// Plain calls, one after the other, while nothing else happens.
const PLAIN: usize = 20;
/// Calls that become tasks in the same quiet.
const PROMOTED: usize = 6;
/// Of each client, when all are there at once.
const AT_ONCE: usize = 12;
/// What a call under strace takes at the most.
const PATIENCE: Duration = Duration::from_secs(30);

/// First one after the other, so that it is plain which sync is whose; then everyone at once.
pub(super) fn work(address: SocketAddr) -> Result<Acknowledged, RequestError> {
    let mut told = Acknowledged::default();
    let mut legacy = Client::new(Era::Legacy, address);
    // Begins the session, whose keys are kept.
    call(&mut legacy, "before".to_owned())?;
    for nth in 0..PLAIN {
        told.plain.push(call(&mut legacy, token("plain", nth))?);
    }
    let mut modern = Client::new(Era::Modern, address);
    for nth in 0..PROMOTED {
        // It ends only when it is told to, so that its end does not fall into what is looked at.
        let wish = json!({"token": token("promo", nth), "millis": ENDLESS});
        let CallResponse::Task(task) = modern.begin("linger", wish)? else {
            return Err(RequestError::Invalid(
                "a call that lasts was no task in time".to_owned(),
            ));
        };
        modern.cancel(&task)?;
        let over = clock::wait_for(PATIENCE, || match modern.get(&task) {
            Ok(TaskState::Live) => None,
            other => Some(other.map(drop)),
        });
        over.unwrap_or_else(|| Err(RequestError::Invalid(format!("{task} did not end"))))?;
        told.promoted.push(task);
    }
    told.created = at_once(address)?;
    Ok(told)
}

/// Tasks, calls that become tasks just when they end, and plain calls; what became a task is returned.
fn at_once(address: SocketAddr) -> Result<Vec<String>, RequestError> {
    let creates = move || {
        let mut client = Client::new(Era::Legacy, address);
        let create = |nth| client.create("linger", json!({"token": token("legac", nth), "millis": 0}));
        (0..AT_ONCE).map(create).collect::<Result<Vec<_>, _>>()
    };
    let races = move || {
        let mut client = Client::new(Era::Modern, address);
        let mut tasks = Vec::new();
        for nth in 0..AT_ONCE {
            // From well before to well after.
            let millis = AFTER / 2 + AFTER * nth as u64 / AT_ONCE as u64;
            let token = token("races", nth);
            match client.begin("linger", json!({"token": token, "millis": millis}))? {
                CallResponse::Task(task) => tasks.push(task),
                CallResponse::Result(outcome) => own(outcome, token).map(drop)?,
            }
        }
        Ok(tasks)
    };
    let plain = move || {
        let mut client = Client::new(Era::Legacy, address);
        (0..AT_ONCE).try_for_each(|nth| call(&mut client, token("other", nth)).map(drop))?;
        Ok(Vec::new())
    };
    std::thread::scope(|scope| {
        let clients = [
            scope.spawn(creates),
            scope.spawn(creates),
            scope.spawn(races),
            scope.spawn(races),
        ];
        let callers = [scope.spawn(plain), scope.spawn(plain)];
        let mut tasks = Vec::new();
        for client in clients.into_iter().chain(callers) {
            tasks.extend(client.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok(tasks)
    })
}

fn call(client: &mut Client, token: String) -> Result<String, RequestError> {
    own(client.call("linger", json!({"token": token, "millis": 0}))?, token)
}

/// The token, if it came back.
fn own(outcome: Outcome, token: String) -> Result<String, RequestError> {
    match outcome {
        Outcome::Result { is_error: false, text } if text == token => Ok(token),
        other => Err(RequestError::Invalid(format!("{other:?}"))),
    }
}

/// All of one length, and none within another.
fn token(kind: &str, nth: usize) -> String {
    format!("token-{kind}-{nth:04}-")
}

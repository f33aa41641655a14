//! Plain calls among tasks: they write nothing, and one that becomes a task is acknowledged after one, as every task is.

use super::Acknowledgements;
use harness::{
    clock,
    mcp::{CallOutcome, CallResponse, Client, ClientEra, RequestError, TaskState},
};
use serde_json::json;
use std::{net::SocketAddr, panic::resume_unwind, time::Duration};

/// After how many milliseconds a call becomes a task; `under_fire` has the same value.
const AFTER: u64 = 40;
/// A duration that is longer than any run.
const ENDLESS: u64 = 3_600_000;
/// How many plain calls are made, one after the other, while nothing else runs.
const PLAIN: usize = 20;
/// How many calls become tasks, also while nothing else runs.
const PROMOTED: usize = 6;
/// How many calls each client makes when all run at once.
const AT_ONCE: usize = 12;
/// How long a call may take under strace.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// First one call after the other, so that each sync can be attributed; then all clients at once.
pub(super) fn work(address: SocketAddr) -> Result<Acknowledgements, RequestError> {
    let mut told = Acknowledgements::default();
    let mut legacy = Client::new(ClientEra::Legacy, address);
    // Starts the session, whose keys are stored.
    call(&mut legacy, "before".to_owned())?;
    for nth in 0..PLAIN {
        told.plain.push(call(&mut legacy, token("plain", nth))?);
    }
    let mut modern = Client::new(ClientEra::Modern, address);
    for nth in 0..PROMOTED {
        // It runs until it is cancelled, so that its end does not add writes to the trace.
        let wish = json!({"token": token("promo", nth), "millis": ENDLESS});
        let CallResponse::Task(task) = modern.begin("linger", wish)? else {
            return Err(RequestError::Invalid(
                "a call that lasts was no task in time".to_owned(),
            ));
        };
        modern.cancel(&task)?;
        let over = clock::wait_for(CALL_TIMEOUT, || match modern.get(&task) {
            Ok(TaskState::Live) => None,
            other => Some(other.map(drop)),
        });
        over.unwrap_or_else(|| Err(RequestError::Invalid(format!("{task} did not end"))))?;
        told.promoted.push(task);
    }
    told.created = at_once(address)?;
    Ok(told)
}

/// Makes tasks, calls that become tasks just when they end, and plain calls. Returns those that became tasks.
fn at_once(address: SocketAddr) -> Result<Vec<String>, RequestError> {
    let creates = move || {
        let mut client = Client::new(ClientEra::Legacy, address);
        let create = |nth| client.create("linger", json!({"token": token("legac", nth), "millis": 0}));
        (0..AT_ONCE).map(create).collect::<Result<Vec<_>, _>>()
    };
    let races = move || {
        let mut client = Client::new(ClientEra::Modern, address);
        let mut tasks = Vec::new();
        for nth in 0..AT_ONCE {
            // From well before the limit to well after it.
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
        let mut client = Client::new(ClientEra::Legacy, address);
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

/// The token, if the result has it.
fn own(outcome: CallOutcome, token: String) -> Result<String, RequestError> {
    match outcome {
        CallOutcome::Result { is_error: false, text } if text == token => Ok(token),
        other => Err(RequestError::Invalid(format!("{other:?}"))),
    }
}

/// All tokens have one length, so none is part of another.
fn token(kind: &str, nth: usize) -> String {
    format!("token-{kind}-{nth:04}-")
}

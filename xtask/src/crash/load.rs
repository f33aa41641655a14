//! A client whose server is killed while it works.

use super::{
    kind::{Kind, Load},
    ledger::Ledger,
    violation::Violation,
};
use crate::mcp::{Client, Era, RequestError};
use fastrand::Rng;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};

/// The error code of `tasks/*` for an unknown task, and for cancelling an ended one.
const INVALID_PARAMS: i64 = -32602;
const METHOD_NOT_FOUND: i64 = -32601;
/// `data.reason` of a call whose supervisor was killed.
const INTERRUPTED: &str = "interrupted";

/// Works until it is stopped or the server is killed. Returns the violations; a broken connection is not one.
pub(super) fn work(client: &mut Client, load: Load, seed: u64, ledger: &Ledger, stop: &AtomicBool) -> Vec<Violation> {
    let mut rng = Rng::with_seed(seed);
    let mut violations = Vec::new();
    let mut nth = 0;
    while !stop.load(Ordering::Relaxed) {
        nth += 1;
        let token = format!("t{seed:x}.{nth}");
        match act(client, load, &mut rng, token, ledger) {
            Ok(()) => {}
            Err(Stop::Gone) => break,
            Err(Stop::Violation(violation)) => violations.push(violation),
        }
    }
    violations
}

/// Why a client stops.
enum Stop {
    Gone,
    Violation(Violation),
}

impl From<Violation> for Stop {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

fn act(client: &mut Client, load: Load, rng: &mut Rng, token: String, ledger: &Ledger) -> Result<(), Stop> {
    let decision = rng.u8(0..100);
    let kind = Kind::draw(load, rng);
    match (decision, client.era()) {
        (0..40, _) if ledger.open() < load.max_open() => create(client, kind, kind.arguments(token, load, rng), ledger),
        (40..43, Era::Legacy) => call(client, Kind::Quick.arguments(token, load, rng)),
        (43..55, _) => with_random_task(client, rng, ledger, cancel),
        (55..60, Era::Legacy) => with_random_task(client, rng, ledger, result),
        (60..65, _) => with_random_task(client, rng, ledger, delete),
        _ => with_random_task(client, rng, ledger, poll),
    }
}

fn create(client: &mut Client, kind: Kind, (arguments, token): (Value, String), ledger: &Ledger) -> Result<(), Stop> {
    let created = client.create(kind.name(), arguments);
    let task = created.map_err(|error| misbehaved(client, "creating a task", error))?;
    ledger.record_acknowledged(task, kind, token);
    Ok(())
}

/// Makes a plain call: after a crash nothing of it may be left.
fn call(client: &mut Client, (arguments, _): (Value, String)) -> Result<(), Stop> {
    match client.call(Kind::Quick.name(), arguments) {
        Ok(_) => Ok(()),
        Err(RequestError::Refused { message, data, .. }) if data["reason"] == INTERRUPTED => {
            Err(Violation::CallInterrupted { message }.into())
        }
        Err(error) => Err(misbehaved(client, "calling a tool", error)),
    }
}

type Action = fn(&mut Client, &str, &Ledger) -> Result<(), Stop>;

fn with_random_task(client: &mut Client, rng: &mut Rng, ledger: &Ledger, action: Action) -> Result<(), Stop> {
    match ledger.pick(rng) {
        Some(task) => match action(client, &task, ledger) {
            // Another client has requested it meanwhile.
            Err(Stop::Violation(Violation::NotFound { .. })) if ledger.may_be_deleted(&task) => Ok(()),
            done => done,
        },
        None => Ok(()),
    }
}

fn poll(client: &mut Client, task: &str, ledger: &Ledger) -> Result<(), Stop> {
    let before = ledger.entry(task).and_then(|entry| entry.outcome);
    let state = client
        .get(task)
        .map_err(|error| lost_or_misbehaved(client, "polling", task, error))?;
    Ok(ledger.record_state(task, before, state)?)
}

fn cancel(client: &mut Client, task: &str, ledger: &Ledger) -> Result<(), Stop> {
    ledger.record_cancel_sent(task);
    match client.cancel(task) {
        Ok(()) => ledger.record_cancel_acknowledged(task),
        // The server says that the task has ended; the next poll checks that.
        Err(RequestError::Refused {
            code: INVALID_PARAMS,
            message,
            ..
        }) if client.era() == Era::Legacy && !is_unknown(&message) => {
            return Ok(());
        }
        Err(error) => return Err(lost_or_misbehaved(client, "cancelling", task, error)),
    }
    match client.era() {
        Era::Legacy => Ok(ledger.record_end(task, crate::mcp::Outcome::Cancelled)?),
        Era::Modern => Ok(()),
    }
}

/// Deletes a task that has ended.
fn delete(client: &mut Client, task: &str, ledger: &Ledger) -> Result<(), Stop> {
    let has_ended = ledger.entry(task).is_some_and(|entry| entry.outcome.is_some());
    if !has_ended || !ledger.record_delete_sent(task) {
        return Ok(());
    }
    match client.delete(task) {
        Ok(()) => {
            ledger.record_delete_acknowledged(task);
            Ok(())
        }
        // Its work is still being stopped, or the release cannot delete. Then it is still there, which later polls check.
        Err(RequestError::Refused {
            code: INVALID_PARAMS | METHOD_NOT_FOUND,
            ..
        }) => {
            ledger.record_delete_refused(task);
            Ok(())
        }
        Err(error) => Err(misbehaved(client, "deleting a task", error)),
    }
}

fn result(client: &mut Client, task: &str, ledger: &Ledger) -> Result<(), Stop> {
    let outcome = client.result(task);
    let outcome = outcome.map_err(|error| lost_or_misbehaved(client, "waiting for a result", task, error))?;
    Ok(ledger.record_end(task, outcome)?)
}

fn is_unknown(message: &str) -> bool {
    message.contains("not found")
}

fn lost_or_misbehaved(client: &Client, doing: &'static str, task: &str, error: RequestError) -> Stop {
    match error {
        RequestError::Refused {
            code: INVALID_PARAMS,
            message,
            ..
        } => Violation::NotFound {
            task: task.to_owned(),
            why: format!("{doing}: {message}"),
        }
        .into(),
        error => misbehaved(client, doing, error),
    }
}

fn misbehaved(client: &Client, doing: &'static str, error: RequestError) -> Stop {
    match error {
        RequestError::Broken(error) if error.kind() != std::io::ErrorKind::InvalidData && !timed_out(&error) => {
            Stop::Gone
        }
        error => Violation::Misbehaved {
            era: client.era().name(),
            doing,
            problem: error.to_string(),
        }
        .into(),
    }
}

/// A timeout does not mean that the server was killed.
fn timed_out(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock
    )
}

//! A client under whose hands the server dies.

use super::{
    kind::{Kind, Load},
    ledger::Ledger,
    violation::Violation,
};
use crate::mcp::{Client, Era, RequestError};
use fastrand::Rng;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};

/// The code that `tasks/*` answers with when the task is unknown, or when it is over and cannot be cancelled.
const INVALID_PARAMS: i64 = -32602;

/// Works until told to stop, or until the server is gone, and says what was wrong. Connections that break are what this is about.
pub(super) fn work(client: &mut Client, load: Load, seed: u64, ledger: &Ledger, stop: &AtomicBool) -> Vec<Violation> {
    let mut rng = Rng::with_seed(seed);
    let mut violations = Vec::new();
    let mut nth = 0;
    while !stop.load(Ordering::Relaxed) {
        nth += 1;
        let token = format!("t{seed:x}.{nth}");
        match act(client, load, &mut rng, token, ledger) {
            Ok(()) => {}
            Err(Stumble::Gone) => break,
            Err(Stumble::Violation(violation)) => violations.push(violation),
        }
    }
    violations
}

/// Why a client cannot go on.
enum Stumble {
    Gone,
    Violation(Violation),
}

impl From<Violation> for Stumble {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

fn act(client: &mut Client, load: Load, rng: &mut Rng, token: String, ledger: &Ledger) -> Result<(), Stumble> {
    let decision = rng.u8(0..100);
    let kind = Kind::draw(load, rng);
    match (decision, client.era()) {
        (0..40, _) if ledger.open() < load.most_open() => {
            create(client, kind, kind.arguments(token, load, rng), ledger)
        }
        (40..43, Era::Legacy) => call(client, Kind::Quick.arguments(token, load, rng)),
        (43..55, _) => on_some(client, rng, ledger, cancel),
        (55..60, Era::Legacy) => on_some(client, rng, ledger, result),
        _ => on_some(client, rng, ledger, look),
    }
}

fn create(
    client: &mut Client,
    kind: Kind,
    (arguments, token): (Value, String),
    ledger: &Ledger,
) -> Result<(), Stumble> {
    let created = client.create(kind.name(), arguments);
    let task = created.map_err(|trouble| misbehaved(client, "creating a task", trouble))?;
    ledger.acknowledged(task, kind, token);
    Ok(())
}

/// A plain call has nothing to show after a crash. It adds work that must be cleaned up.
fn call(client: &mut Client, (arguments, _): (Value, String)) -> Result<(), Stumble> {
    let called = client.call(Kind::Quick.name(), arguments);
    called
        .map(drop)
        .map_err(|trouble| misbehaved(client, "calling a tool", trouble))
}

type Action = fn(&mut Client, &str, &Ledger) -> Result<(), Stumble>;

fn on_some(client: &mut Client, rng: &mut Rng, ledger: &Ledger, action: Action) -> Result<(), Stumble> {
    match ledger.pick(rng) {
        Some(task) => action(client, &task, ledger),
        None => Ok(()),
    }
}

fn look(client: &mut Client, task: &str, ledger: &Ledger) -> Result<(), Stumble> {
    let before = ledger.entry(task).and_then(|entry| entry.outcome);
    let look = client
        .get(task)
        .map_err(|trouble| lost_or_misbehaved(client, "polling", task, trouble))?;
    Ok(ledger.shown(task, before, look)?)
}

fn cancel(client: &mut Client, task: &str, ledger: &Ledger) -> Result<(), Stumble> {
    ledger.cancel_is_sent(task);
    match client.cancel(task) {
        Ok(()) => ledger.cancel_is_acknowledged(task),
        // It is over, says the server. The next look will show whether it is.
        Err(RequestError::Refused {
            code: INVALID_PARAMS,
            message,
            ..
        }) if client.era() == Era::Legacy && !is_unknown(&message) => {
            return Ok(());
        }
        Err(trouble) => return Err(lost_or_misbehaved(client, "cancelling", task, trouble)),
    }
    match client.era() {
        Era::Legacy => Ok(ledger.ended(task, crate::mcp::Outcome::Cancelled)?),
        Era::Modern => Ok(()),
    }
}

fn result(client: &mut Client, task: &str, ledger: &Ledger) -> Result<(), Stumble> {
    let outcome = client.result(task);
    let outcome = outcome.map_err(|trouble| lost_or_misbehaved(client, "waiting for a result", task, trouble))?;
    Ok(ledger.ended(task, outcome)?)
}

fn is_unknown(message: &str) -> bool {
    message.contains("not found")
}

fn lost_or_misbehaved(client: &Client, doing: &'static str, task: &str, trouble: RequestError) -> Stumble {
    match trouble {
        RequestError::Refused {
            code: INVALID_PARAMS,
            message,
            ..
        } => Violation::NotFound {
            task: task.to_owned(),
            why: format!("{doing}: {message}"),
        }
        .into(),
        trouble => misbehaved(client, doing, trouble),
    }
}

fn misbehaved(client: &Client, doing: &'static str, trouble: RequestError) -> Stumble {
    match trouble {
        RequestError::Broken(error) if error.kind() != std::io::ErrorKind::InvalidData && !timed_out(&error) => {
            Stumble::Gone
        }
        trouble => Violation::Misbehaved {
            era: client.era().name(),
            doing,
            problem: trouble.to_string(),
        }
        .into(),
    }
}

/// A server that lives and does not answer is no server that was killed.
fn timed_out(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock
    )
}

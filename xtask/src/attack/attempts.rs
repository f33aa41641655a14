//! The attempts of an attack, and what they have broken.

use harness::rounds::violation::{Invariant, Violation};

/// How many failures of an attack are printed at once.
const MAX_PRINTED: usize = 40;

/// The attempts of one attack.
pub(super) struct Attempts {
    name: &'static str,
    pub(super) tried: u64,
    pub(super) broken: Vec<Violation>,
}

impl Attempts {
    pub(super) fn of(name: &'static str) -> Self {
        Self {
            name,
            tried: 0,
            broken: Vec::new(),
        }
    }

    /// Records an attempt: `Err` says what was expected and what happened.
    pub(super) fn attempt(&mut self, what: &str, result: Result<(), String>) {
        self.tried += 1;
        if let Err(why) = result {
            let violation = Invariant::SERVED.violated(format!("{}: {what}: {why}", self.name));
            if self.broken.len() < MAX_PRINTED {
                eprintln!("attack: {violation}");
            }
            self.broken.push(violation);
        }
    }

    /// Records an attempt that succeeds if the condition holds.
    pub(super) fn check(&mut self, what: &str, holds: bool, failure: impl FnOnce() -> String) {
        self.attempt(what, if holds { Ok(()) } else { Err(failure()) });
    }
}

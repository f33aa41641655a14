//! The report of a run.

use crate::clock;
use serde_json::json;
use std::time::Instant;

/// How many failures of an attack are printed at once.
const MAX_PRINTED: usize = 40;

pub(super) struct Report {
    seed: u64,
    attacks: Vec<AttackReport>,
}

struct AttackReport {
    name: &'static str,
    since: Instant,
    seconds: f64,
    tried: u64,
    broken: Vec<String>,
}

impl Report {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            attacks: Vec::new(),
        }
    }

    pub(super) fn begin(&mut self, name: &'static str) {
        eprintln!("attack: {name}");
        self.attacks.push(AttackReport {
            name,
            since: clock::now(),
            seconds: 0.0,
            tried: 0,
            broken: Vec::new(),
        });
    }

    pub(super) fn tried(&self) -> u64 {
        self.attacks.iter().map(|attack| attack.tried).sum()
    }

    pub(super) fn broken(&self) -> usize {
        self.attacks.iter().map(|attack| attack.broken.len()).sum()
    }

    /// Records an attempt: `Err` says what was expected and what happened.
    pub(super) fn attempt(&mut self, what: &str, result: Result<(), String>) {
        let Some(attack) = self.attacks.last_mut() else { return };
        attack.tried += 1;
        attack.seconds = attack.since.elapsed().as_secs_f64();
        if let Err(why) = result {
            if attack.broken.len() < MAX_PRINTED {
                eprintln!("attack: {}: {what}: {why}", attack.name);
            }
            attack.broken.push(format!("{what}: {why}"));
        }
    }

    /// Records an attempt that succeeds if the condition holds.
    pub(super) fn check(&mut self, what: &str, holds: bool, failure: impl FnOnce() -> String) {
        self.attempt(what, if holds { Ok(()) } else { Err(failure()) });
    }

    pub(super) fn print(&self, as_json: bool) {
        if as_json {
            let attacks = self.attacks.iter().map(|attack| {
                json!({"name": attack.name, "tried": attack.tried, "broken": attack.broken, "seconds": attack.seconds})
            });
            println!("{}", json!({"seed": self.seed, "attacks": attacks.collect::<Vec<_>>()}));
            return;
        }
        println!("seed {}", self.seed);
        for attack in &self.attacks {
            println!(
                "{:<12} {:>6} tried {:>4} broken  {:>6.1} s",
                attack.name,
                attack.tried,
                attack.broken.len(),
                attack.seconds
            );
        }
    }
}

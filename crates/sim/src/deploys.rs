//! Deploys of changed code: in some worlds some nodes run programs with one more act, and the last node runs the original programs.

use crate::program::{Act, ActKind, Program};
use parking_lot::Mutex;

/// One world in this many has deploys.
const ONE_IN: u64 = 4;
/// The number of the act that changed programs have and the others do not.
const ADDED: u32 = 1_000;

/// Which build a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// The original build, with which every world begins and ends.
    Original,
    /// Its programs have one more act.
    Changed,
}

impl Build {
    /// The build id.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Changed => "changed",
        }
    }

    /// This build's version of a program.
    pub(crate) fn program(self, seed: u64, mut program: Program) -> Program {
        if self == Self::Changed {
            let index = usize::try_from(seed / 10).unwrap_or(0) % (program.len() + 1);
            let added = Act {
                number: ADDED,
                kind: ActKind::Step {
                    tries: 1,
                    timeout: None,
                },
            };
            program.insert(index, added);
        }
        program
    }
}

/// Draws builds, with randomness of its own, so that worlds without deploys do not depend on it.
pub(crate) struct Deploys(Mutex<fastrand::Rng>);

impl Deploys {
    /// The deploys of the world with this seed, if it has any.
    pub(crate) fn of_world(seed: u64) -> Option<Self> {
        let rng = fastrand::Rng::with_seed(seed.rotate_left(32));
        seed.is_multiple_of(ONE_IN).then(|| Self(Mutex::new(rng)))
    }

    pub(crate) fn draw(&self) -> Build {
        match self.0.lock().bool() {
            true => Build::Changed,
            false => Build::Original,
        }
    }
}

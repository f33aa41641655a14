//! Random programs for simulated tools, drawn from the call's arguments, so that each attempt runs the same program.

/// Acts, performed one after the other.
pub(crate) type Program = Vec<Act>;

/// One operation of a program. Its number is unique in the program.
#[derive(Debug)]
pub(crate) struct Act {
    pub(crate) number: u32,
    pub(crate) kind: ActKind,
}

#[derive(Debug)]
pub(crate) enum ActKind {
    /// A step, which may fail and be retried.
    Step { tries: u32, timeout: Option<u64> },
    /// A wait, in milliseconds.
    Sleep(u64),
    /// A question, and its time limit in milliseconds.
    Ask(u64),
    /// A call of another tool, with the program of this seed.
    Call { durable: bool, program: u64 },
    /// Polling until something is ready.
    Poll,
    /// The time.
    Now,
    /// Randomness.
    Random,
    /// The version of the code.
    Version,
    /// Output.
    Emit,
    /// Concurrent branches: joined, or raced until the first ends.
    Fork { race: bool, branches: Vec<Program> },
    /// Two concurrent acts in one branch.
    Concurrent(Box<Act>, Box<Act>),
}

/// How deep forks and children may be nested.
const MAX_DEPTH: u32 = 2;

/// Draws the program of this seed.
pub(crate) fn draw(seed: u64) -> Program {
    let mut generator = Generator {
        rng: fastrand::Rng::with_seed(seed),
        acts: 0,
        // The lowest digit of a child's seed is its depth.
        child_depth: u32::try_from(seed % 10).unwrap_or(0),
    };
    let length = generator.rng.u32(1..=6);
    generator.program(length, 0)
}

struct Generator {
    rng: fastrand::Rng,
    acts: u32,
    child_depth: u32,
}

impl Generator {
    fn program(&mut self, length: u32, depth: u32) -> Program {
        (0..length).map(|_| self.act(depth)).collect()
    }

    fn act(&mut self, depth: u32) -> Act {
        self.acts += 1;
        let number = self.acts;
        let kind = match self.rng.u32(..22) {
            16..19 if depth < MAX_DEPTH => self.fork(depth),
            19 if depth < MAX_DEPTH => {
                let (first, second) = (self.act(MAX_DEPTH), self.act(MAX_DEPTH));
                ActKind::Concurrent(Box::new(first), Box::new(second))
            }
            20.. if self.child_depth < MAX_DEPTH => ActKind::Call {
                durable: self.rng.bool(),
                program: self.rng.u64(..1_000_000) * 10 + u64::from(self.child_depth) + 1,
            },
            0..3 => ActKind::Sleep(self.rng.u64(0..=2_000)),
            3 => ActKind::Sleep(self.rng.u64(10_000..=90_000)),
            4..7 => ActKind::Ask(self.rng.u64(1_000..=120_000)),
            7 => ActKind::Poll,
            8 => ActKind::Now,
            9 => ActKind::Random,
            10 => ActKind::Version,
            11 => ActKind::Emit,
            _ => ActKind::Step {
                tries: self.rng.u32(1..=3),
                timeout: self.rng.bool().then(|| self.rng.u64(50..=2_000)),
            },
        };
        Act { number, kind }
    }

    fn fork(&mut self, depth: u32) -> ActKind {
        let branches = self.rng.usize(2..=3);
        ActKind::Fork {
            race: self.rng.bool(),
            branches: (0..branches)
                .map(|_| {
                    let length = self.rng.u32(1..=3);
                    self.program(length, depth + 1)
                })
                .collect(),
        }
    }
}

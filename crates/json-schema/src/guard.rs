//! Ends a check that takes too long or too deep.
//!
//! `jsonschema` cannot be told to stop, and a schema of some lines with references can ask for more steps than anybody can wait for. So each reference
//! is replaced by an `allOf` of a [keyword](KEYWORD) of ours and that reference. The keyword is evaluated first, and unwinds the stack when the
//! check has used up what it may.

use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value};
use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    time::{Duration, Instant},
};

/// The keyword's name. It does no harm in a schema that has it already.
pub(crate) const KEYWORD: &str = "longhaul:guard";
/// How many references are followed between two looks at the clock.
const PACE: u32 = 64;

/// What a check may use.
#[derive(Clone, Copy)]
pub(crate) struct Allowance {
    /// How many references it may follow, unless it has a deadline.
    pub(crate) references: u32,
    /// How much stack, in bytes.
    pub(crate) stack: usize,
    /// How long it may take.
    pub(crate) time: Option<Duration>,
}

/// What is left of an allowance.
#[derive(Clone, Copy)]
struct RemainingAllowance {
    references: u32,
    lowest: usize,
    deadline: Option<Instant>,
}

thread_local! {
    static REMAINING: Cell<RemainingAllowance> = const {
        Cell::new(RemainingAllowance { references: u32::MAX, lowest: 0, deadline: None })
    };
}

/// What [`Guard`] unwinds with.
struct AllowanceExhausted;

/// Does the work; `None` if it has used up its allowance, or has panicked: the input is not ours.
pub(crate) fn within<T>(allowance: Allowance, work: impl FnOnce() -> T) -> Option<T> {
    let before = REMAINING.replace(RemainingAllowance {
        references: if allowance.time.is_some() {
            PACE
        } else {
            allowance.references
        },
        lowest: stack_pointer().saturating_sub(allowance.stack),
        deadline: allowance.time.and_then(|time| now().checked_add(time)),
    });
    let done = catch_unwind(AssertUnwindSafe(work));
    REMAINING.set(before);
    done.ok()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a check has no ports, and its result does not depend on the time unless it takes seconds"
)]
fn now() -> Instant {
    Instant::now()
}

/// Where the stack is about now.
#[inline(never)]
fn stack_pointer() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

/// The keyword.
struct Guard;

impl Guard {
    fn pass(&self) {
        let mut left = REMAINING.get();
        if stack_pointer() < left.lowest {
            exhausted();
        }
        left.references -= 1;
        if left.references == 0 {
            match left.deadline {
                Some(deadline) if now() < deadline => left.references = PACE,
                _ => exhausted(),
            }
        }
        REMAINING.set(left);
    }
}

/// Without the message of a panic.
#[cold]
fn exhausted() -> ! {
    let why: Box<dyn Any + Send> = Box::new(AllowanceExhausted);
    resume_unwind(why)
}

impl<'i> Keyword<'i> for Guard {
    fn validate(&self, _: &'i Value) -> Result<(), ValidationError<'i>> {
        self.pass();
        Ok(())
    }

    fn is_valid(&self, _: &'i Value) -> bool {
        self.pass();
        true
    }
}

/// What `jsonschema` makes the keyword of.
#[expect(clippy::unnecessary_wraps, reason = "of the type that jsonschema wants")]
pub(crate) fn keyword<'a>(
    _: &'a Map<String, Value>,
    _: &'a Value,
    _: jsonschema::paths::Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    Ok(Box::new(Guard))
}

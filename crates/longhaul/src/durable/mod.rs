//! What a durable tool keeps in its journal: the operations that a [`TaskContext`](crate::TaskContext) has for it, one noun a file.

mod branches;
mod call;
mod drawn;
mod emit;
mod join;
mod key;
mod lanes;
mod poll;
mod select;
mod step;
mod step_error;
mod step_result;
mod timer;

pub use branches::{Joining, Racing, TryJoining};
pub use call::{Call, CallError, CallResult, Ended};
pub use drawn::Random;
pub use join::Join;
pub use poll::{Poll, PollUntil};
pub use step::Step;
pub use step_error::{NonRetryable, StepError};

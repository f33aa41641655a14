//! The journaled operations of a [`TaskContext`](crate::TaskContext).

mod branch_driver;
mod branches;
mod call;
mod emit;
mod idempotency_key;
mod join;
mod poll;
mod recorded_values;
mod select;
mod step;
mod step_error;
mod step_result;
mod timer;

pub use branches::{BranchFutures, JoinBranches, SelectBranches, TryJoinBranches};
pub use call::{Call, CallOutcome, CallResult};
pub use join::Join;
pub use poll::{Poll, PollUntil};
pub use recorded_values::Random;
pub use step::Step;
pub use step_error::{NonRetryable, StepError};
pub use step_result::StepResult;

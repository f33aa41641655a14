//! What a tool is to its tasks: its stored definition, its policy, patterns of its name.

mod pattern;
mod policy;
mod spec;
mod start_rate;

pub use pattern::{InvalidToolPattern, ToolPattern};
pub use policy::{OnNonDeterminism, Retry, RetryOn, TaskPolicy};
pub use spec::{SpecId, ToolSpec};
pub use start_rate::{InvalidStartRate, StartRate};

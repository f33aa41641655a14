//! What running tasks need: journals, suspension, blocks and timers.

pub mod blocked;
pub mod journal;
pub mod suspension;
pub mod timers;

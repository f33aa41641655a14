//! The engine from outside: over the model, over SQLite where a restart matters, on a clock that the tests move.
#![allow(clippy::unwrap_used, missing_docs)]

mod attempts;
mod blocked;
mod bounds;
mod calls;
mod cancellation;
mod catalog;
mod clocks;
mod crash_budget;
mod deadlines;
mod durability;
mod durable;
mod fences;
mod isolated_retry;
mod plain_calls;
mod questions;
mod queues;
mod quotas;
mod races;
mod recovery;
mod repeats;
mod retention;
mod retries;
mod status_reports;
mod support;
mod suspension;

//! Commands behind the runtime.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod artifacts;
#[path = "../fixtures/mod.rs"]
mod fixtures;
mod process_context;
mod progress;
mod restarts;
mod results;
mod retention;
mod starting;
mod stops;
mod support;
mod timeouts;

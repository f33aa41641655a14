//! The client journal: against a model, with several processes, and with files that cannot be used.
#![allow(clippy::unwrap_used)]

mod damaged;
mod model;
mod operations;
mod private;
mod processes;
mod support;

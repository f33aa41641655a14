//! What the domain's records and rules say of themselves.
#![allow(clippy::unwrap_used)]

mod child_entry;
mod fuzz;
mod poll_hint;
mod transition;

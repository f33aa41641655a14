//! What the domain's records and rules say of themselves.
#![allow(clippy::unwrap_used, missing_docs)]

mod child_entry;
mod fuzz;
mod poll_hint;
mod transition;

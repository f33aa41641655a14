//! The transition function against a table of its own, and its laws under random events.

mod blocked;
mod entries;
mod history;
mod invariants;
pub(crate) mod place;
mod suspension;
mod table;

//! The client against servers that say anything at all.
#![allow(clippy::unwrap_used)]

mod fuzz;

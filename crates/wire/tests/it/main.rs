//! What the wire promises, seen from outside: official examples and schemas, eras, headers, hostile input.
#![allow(clippy::unwrap_used, missing_docs)]

mod admission;
mod emitted;
mod era;
mod examples;
mod fixture;
mod hostile;
mod invariant_8;
mod reproduced;
mod schema;

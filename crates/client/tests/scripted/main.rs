//! The client against servers that do what the test tells them to, so that every answer a server may give is given.
#![allow(clippy::unwrap_used, missing_docs)]

mod legacy;
mod modern;
mod peer;
mod probe;

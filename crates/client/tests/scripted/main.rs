//! The client against scripted servers, which give every response that a server may give.
#![allow(clippy::unwrap_used, missing_docs)]

mod authorization_server;
mod changes;
mod client;
mod found;
mod hosted_tasks;
mod hostile;
mod hostile_tasks;
mod https;
mod legacy;
mod legacy_questions;
mod login;
mod lost_sessions;
mod mends;
mod modern;
mod peer;
mod pipe;
mod probe;
mod pushes;
mod questions;
mod repeated_calls;
mod sse_pair;
mod streams;
mod task;
mod tools;
mod warm;

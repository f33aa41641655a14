//! A server and its operator, over HTTP.
#![allow(clippy::unwrap_used)]
#![expect(clippy::disallowed_methods, reason = "these tests run on the real runtime")]

mod access;
mod actions;
mod api;
mod api_errors;
mod pages;
mod readiness;
mod schedules;
mod stored_forms;
mod waiting;
mod world;

//! The gateway between real clients and real servers, over HTTP on this machine.
#![allow(clippy::unwrap_used)]

mod asks_once;
mod bad_answers;
mod cells;
mod check;
mod client;
#[cfg(unix)]
mod client_lists;
#[cfg(unix)]
mod extensions;
#[cfg(unix)]
mod failing_children;
#[cfg(unix)]
mod invalid_forms;
mod isolation;
#[cfg(unix)]
mod jobs;
mod lists;
#[cfg(unix)]
mod log_messages;
mod loops;
#[cfg(unix)]
mod numbers;
mod partial_lists;
mod passed_on;
mod reload;
mod restart;
mod restart_with_question;
#[cfg(unix)]
mod retries;
#[cfg(unix)]
mod revisions;
#[cfg(unix)]
mod silent_children;
#[cfg(unix)]
mod stdio;
mod unavailable;
mod upstream;
mod waiting_calls;
mod world;

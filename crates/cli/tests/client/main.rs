//! The client commands at a shell without a terminal, against a server in this process.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "../assertions/mod.rs"]
#[allow(dead_code)]
mod assertions;
#[path = "../../../client/tests/scripted/authorization_server.rs"]
mod authorization_server;
mod batch;
mod batch_of_legacy_tasks;
mod batch_without_answer;
mod broken_lists;
mod callers;
mod calls_without_task;
mod children;
mod evening;
mod failures;
mod hints;
mod init;
mod listings;
mod login;
mod lying_servers;
mod masked_servers;
mod pace;
#[path = "../../../client/tests/scripted/peer.rs"]
#[allow(dead_code)]
mod peer;
mod questions;
mod refused;
mod repeated_calls;
mod scripted;
mod several_waiters;
mod snapshots;
mod support;
mod tasks;
mod terminal;
mod unkind_servers;
mod unwritten;
mod waits;
mod wire;

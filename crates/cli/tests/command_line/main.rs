//! The commands as a user meets them: the real binary, a real server, real commands.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod admin;
mod arguments;
mod artifacts;
#[path = "../assertions/mod.rs"]
#[allow(dead_code)]
mod assertions;
mod attempt_logs;
mod audit;
mod auth;
mod calls;
mod concurrency_key;
mod confirm;
mod content;
mod doctor;
mod examples;
mod init;
mod isolation;
mod issuers;
mod json_times;
mod keys;
mod labels;
mod resumed_streams;
mod schedules;
mod service;
mod service_unit;
mod serving;
mod support;
mod tls;
mod unique;
mod unix_socket;
#[cfg(target_os = "linux")]
mod unread_stderr;

//! How many instructions an answer takes: decode → dispatch → encode, on the memory store, without HTTP. `cargo xtask counts`.
//!
//! Valgrind counts, so the figures are the same on an idle machine and on a busy one. What is counted is one request after others
//! of its kind: everything that is made once has been made.

#![allow(clippy::unwrap_used, missing_docs, reason = "a program for people who measure")]

#[path = "../../../server/tests/it/fuzz/deterministic.rs"]
mod deterministic;
mod peer;
mod server;
mod wire;

use gungraun::{Callgrind, Dhat, prelude::*};
use server::requests;
use wire::messages;

main!(
    config = LibraryBenchmarkConfig::default()
        .tool(Callgrind::with_args(["--cache-sim=no"]))
        .tool(Dhat::default()),
    library_benchmark_groups = [messages, requests]
);

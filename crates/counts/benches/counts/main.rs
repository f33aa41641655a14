//! Counts the instructions of a request: decode → dispatch → encode, on the memory store, without HTTP. `cargo xtask counts`.
//!
//! Valgrind counts, so the load of the machine does not matter. The counted request follows others of its kind, so one-time work is not
//! counted.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

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
        // Allocations are counted by their call stacks, which are deeper than the 12 frames that are usual.
        .tool(Dhat::with_args(["--num-callers=500"])),
    library_benchmark_groups = [messages, requests]
);

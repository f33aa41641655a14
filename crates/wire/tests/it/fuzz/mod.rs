//! Fuzz targets. In a test run each replays its corpus (`__fuzz__/TARGET/corpus`) and then tries what chance brings, a
//! few times; `cargo xtask fuzz` lets libFuzzer, which sees what is reached, search for as long as it is given.

mod headers;
mod jsonrpc;

/// How often chance is tried in a test run.
const CHANCES: usize = 1_000;

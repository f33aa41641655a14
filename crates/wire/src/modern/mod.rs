//! Writers for revisions from 2026-07-28: discovery, result types, caching hints, and the tasks extension.
//!
//! Writers append a `result` object, unless they say otherwise; [`write_result`](crate::jsonrpc::write_result) puts it into a
//! response.

pub mod handshake;
pub mod input_required;
pub mod list;
pub mod resources;
pub mod result;
pub mod subscription;
pub mod tasks;
pub mod tools;

/// The beginning of every complete result.
const COMPLETE: &str = r#"{"resultType":"complete""#;

//! What only revisions from 2026-07-28 have: discovery, result types, caching hints, and the tasks extension (G2).
//!
//! Writers append a `result` object, unless they say otherwise; [`write_result`](crate::envelope::write_result) puts it into a
//! response.

pub mod handshake;
pub mod input_required;
pub mod list;
pub mod resources;
pub mod result;
pub mod subscription;
pub mod tasks;
pub mod tools;

/// How every complete result begins.
const COMPLETE: &str = r#"{"resultType":"complete""#;

//! What only revisions up to 2025-11-25 have: streams of a session that can be resumed, its push stream, and the pair of endpoints of 2024-11-05.

pub(super) mod get_stream;
pub(crate) mod replay;
pub(super) mod sse_pair;

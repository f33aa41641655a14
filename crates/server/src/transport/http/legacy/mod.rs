//! What only revisions up to 2025-11-25 have: the push stream of a session, and the pair of endpoints of 2024-11-05.

pub(super) mod get_stream;
pub(super) mod sse_pair;

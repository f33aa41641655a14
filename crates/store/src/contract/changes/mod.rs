//! How tasks are changed and deleted, and what listeners learn of it.

pub mod acknowledged_is_kept;
pub mod all_or_nothing;
pub mod done_is_final;
pub mod hints;
pub mod inputs_answered_once;
pub mod live_is_never_deleted;
pub mod numbered_changes;
pub mod stale_fences;
pub mod tombstones;

//! What the time changes.

use crate::{BoxFuture, TaskId, UnixMillis, store::StoreError};

/// Finds what is due. See the [module](crate::store) for what all methods promise together.
pub trait TimerStore: Send + Sync + 'static {
    /// The earliest [`Task::wake_at`](crate::Task::wake_at) of all live tasks.
    fn next_wake(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>>;

    /// Makes the timers of all suspended tasks due at `at`, if they are not earlier: their code must read the system's clock again, which was
    /// set. A task that awaits its [confirmation](crate::Task::awaits_confirmation) has no code that does. Costs as much as there are live tasks.
    fn make_timers_due(&self, at: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>>;

    /// When the task with the greatest id was created.
    fn newest_created_at(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>>;

    /// Up to `limit` tasks whose [`Task::delete_at`](crate::Task::delete_at) has come, earliest first.
    fn expired(&self, at: UnixMillis, limit: usize) -> BoxFuture<'_, Result<Vec<TaskId>, StoreError>>;
}

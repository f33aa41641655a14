//! What a task has asked and recorded.

use crate::{BoxFuture, Entry, Input, InputKey, TaskId, store::StoreError};

/// Reads the questions and the journals of tasks. See the [module](crate::store) for what all methods promise together.
pub trait JournalStore: Send + Sync + 'static {
    /// The question of a task with this key, whatever has become of it.
    fn input(&self, id: &TaskId, key: &InputKey) -> BoxFuture<'_, Result<Option<Input>, StoreError>>;

    /// The first `limit` questions of a task, by the time they were asked and then by key, whatever has become of them; for any owner.
    fn inputs(&self, id: &TaskId, limit: usize) -> BoxFuture<'_, Result<Vec<Input>, StoreError>>;

    /// Up to `limit` entries of a task's journal after position `after`, in order; for any owner.
    fn journal(&self, id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>>;

    /// Up to `limit` of those entries of a task's journal that are output ([`EntryKind::Emit`](crate::EntryKind::Emit)), after position
    /// `after`, in order; for any owner. Costs nothing for the entries in between.
    fn emitted(&self, id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>>;
}

//! Schedules.

use crate::{
    BoxFuture,
    store::{NewSchedule, ScheduleAdvance, ScheduleRecord, StoreError},
};
use std::sync::Arc;

/// The rows of schedules. A start is a [creation](super::TaskStore::create) with [`NewTask::schedule`](crate::store::NewTask::schedule). See the
/// [module](crate::store) for what all methods promise together.
pub trait ScheduleStore: Send + Sync + 'static {
    /// Keeps schedules, and returns their rows in the same order. Those that are known with another plan get the planned time that is given here, and
    /// keep everything else; those that are known with this plan are not changed.
    fn put_schedules(&self, schedules: Vec<NewSchedule>) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>>;

    /// Forgets schedules. Their tasks are not changed.
    fn remove_schedules(&self, names: Vec<Arc<str>>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The schedules after this name, in order of their names.
    fn schedules(&self, after: Option<&str>, limit: usize) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>>;

    /// The schedule of this name.
    fn schedule(&self, name: &str) -> BoxFuture<'_, Result<Option<ScheduleRecord>, StoreError>>;

    /// Lets a planned time pass without a start, as [`ScheduleRecord::advance`] does. Returns whether the row still had that time and this plan.
    fn advance_schedule(
        &self,
        name: &str,
        plan: &str,
        advance: ScheduleAdvance,
    ) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Pauses a schedule, or ends its pause; kept over restarts. Returns whether it is known.
    fn set_schedule_paused(&self, name: &str, paused: bool) -> BoxFuture<'_, Result<bool, StoreError>>;
}

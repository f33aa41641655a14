//! [`ScheduleStore`] over PostgreSQL.

use crate::{
    PostgresStore,
    change::schedules,
    connection::{locks, transact, work::Statement},
    statement::{Fault, Param, Retries, encode},
};
use longhaul_core::{
    BoxFuture,
    store::{NewSchedule, ScheduleAdvance, ScheduleRecord, ScheduleStore, StoreError},
};
use std::sync::Arc;

impl ScheduleStore for PostgresStore {
    fn put_schedules(&self, schedules: Vec<NewSchedule>) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        Box::pin(async move { transact(&self.connections, &schedules::Put(schedules)).await })
    }

    fn remove_schedules(&self, names: Vec<Arc<str>>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let names: Vec<_> = names.iter().map(|name| encode(name)).collect();
            let params: Vec<Param<'_>> = vec![&names];
            let sql = schedules::REMOVE;
            transact(&self.connections, &Statement { sql, params }).await
        })
    }

    fn schedules(&self, after: Option<&str>, limit: usize) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        let after = after.unwrap_or_default().to_owned();
        read!(self, |connection| schedules::after(connection, &after, limit))
    }

    fn schedule(&self, name: &str) -> BoxFuture<'_, Result<Option<ScheduleRecord>, StoreError>> {
        let name = name.to_owned();
        read!(self, |connection| schedules::by_name(connection, &name))
    }

    fn advance_schedule(
        &self,
        name: &str,
        plan: &str,
        advance: ScheduleAdvance,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        let (name, plan) = (name.to_owned(), plan.to_owned());
        let work = schedules::Advance { name, plan, advance };
        Box::pin(async move { transact(&self.connections, &work).await })
    }

    fn set_schedule_paused(&self, name: &str, paused: bool) -> BoxFuture<'_, Result<bool, StoreError>> {
        let name = name.to_owned();
        let work = schedules::SetPaused { name, paused };
        Box::pin(async move { transact(&self.connections, &work).await })
    }
}

//! Schedules as operators see them.

use crate::{
    context::AdminContext,
    query::{self, MOST},
    view::details::ReadError,
    words::{state_word, timestamp},
};
use longhaul_admin_api::{SchedulePage, ScheduleQuery, ScheduleView};
use longhaul_core::Now;
use longhaul_runtime::ScheduleStatus;

/// Schedules of a page, unless `limit` says otherwise.
const LIMIT: usize = 100;

impl AdminContext {
    /// # Errors
    /// [`ReadError`].
    pub(crate) async fn schedules(&self, query: &ScheduleQuery) -> Result<SchedulePage, ReadError> {
        let limit = query::number("limit", &query.limit, 1..=MOST, "a number from 1 to 500")?.unwrap_or(LIMIT);
        let after = Some(&*query.after).filter(|after| !after.is_empty());
        let found = self.engine.schedules(after, limit).await?;
        let now = self.engine.ports().clock.read();
        let schedules: Vec<ScheduleView> = found.into_iter().map(|status| schedule_view(status, now)).collect();
        let last = schedules.last().filter(|_| schedules.len() == limit);
        Ok(SchedulePage {
            next: last.map(|last| last.name.clone()),
            schedules,
        })
    }
}

fn schedule_view(status: ScheduleStatus, now: Now) -> ScheduleView {
    let ScheduleStatus {
        record,
        schedule,
        next,
        last,
    } = status;
    ScheduleView {
        name: record.name.to_string(),
        plan: record.plan.to_string(),
        offered: schedule.is_some(),
        tool: schedule.as_ref().map(|schedule| schedule.tool.to_string()),
        principal: schedule.as_ref().map(|schedule| schedule.principal.as_str().to_owned()),
        paused: record.paused,
        // They are times of the system's clock.
        next: next.into_iter().map(|at| timestamp(at.into(), at)).collect(),
        last_task: record.last_task.map(|id| id.to_string()),
        last_start: record.last_start.map(|at| timestamp(now, at)),
        last_state: last.as_ref().map(|last| state_word(last.state).into()),
        last_end: last.and_then(|last| last.ended_at).map(|at| timestamp(now, at)),
        started: record.counts.started,
        skipped: record.counts.skipped,
        missed: record.counts.missed,
    }
}

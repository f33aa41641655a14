//! Schedules: tasks that are started by the time.
//!
//! The row of a schedule in the store has its next planned time. A start moves the row on and creates the task in one write, which is refused if the row has
//! another time by then. So no start is lost or made twice, wherever this process dies, and of many nodes one starts the task.

mod runner;

pub(crate) use runner::run;

use super::Call;
use crate::{
    engine::{Engine, Inner},
    question::Requestor,
    queue::schedules::{Overlap, Recurrence, Schedule, Timeline},
};
use longhaul_core::{
    Json, Origin, Outcome, Owner, Task, UnixMillis,
    store::{CreateError, Created, NewTask, ScheduleAdvance, ScheduleRecord, ScheduledStart, StoreError},
};
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

/// How many rows are read at once.
const PAGE: usize = 1_000;
/// How many next times are listed.
const LISTED_TIMES: usize = 3;

/// A schedule as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleStatus {
    /// Its row. Times of a schedule with a cron are those of the system's clock.
    pub record: ScheduleRecord,
    /// What it does; `None` if the configuration of this server does not have it.
    pub schedule: Option<Arc<Schedule>>,
    /// When it starts something next, by the system's clock. Empty while it is paused.
    pub next: Vec<UnixMillis>,
    /// The task that it started last, while that is kept.
    pub last: Option<Task>,
}

/// A schedule was not started by hand.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TriggerError {
    /// It is in no row, or this server does not have it.
    #[error("this server has no such schedule")]
    Unknown,
    /// Its tool is not offered now.
    #[error("the tool `{0}` is not offered now")]
    NoTool(Arc<str>),
    /// The task was refused.
    #[error(transparent)]
    Create(#[from] CreateError),
}

impl Engine {
    /// Starts tasks by these schedules from now on, and by no others. In a store of one process the rows of others are removed; where many nodes share it, they
    /// may be those of other nodes.
    ///
    /// # Errors
    /// The store's; the schedules are as before then.
    pub async fn set_schedules(&self, schedules: Vec<Schedule>) -> Result<(), StoreError> {
        let inner = &self.0;
        let (store, clock) = (&inner.node.store, &*inner.node.ports.clock);
        let new = schedules.iter().map(|schedule| schedule.as_new(clock)).collect();
        let rows = store.put_schedules(new).await?;
        if !store.capabilities().many_nodes {
            let kept: HashSet<&str> = schedules.iter().map(|schedule| &*schedule.name).collect();
            let mut removed = self.rows().await?;
            removed.retain(|row| !kept.contains(&*row.name));
            if !removed.is_empty() {
                let names = removed.into_iter().map(|row| row.name).collect();
                store.remove_schedules(names).await?;
            }
        }
        let mut timeline = Timeline::default();
        let rows: BTreeMap<Arc<str>, ScheduleRecord> =
            rows.into_iter().map(|row| (Arc::clone(&row.name), row)).collect();
        for schedule in schedules {
            let next_at = rows.get(&schedule.name).and_then(|row| row.next_at);
            timeline.insert(Arc::new(schedule), next_at);
        }
        inner.schedules.replace(timeline);
        Ok(())
    }

    async fn rows(&self) -> Result<Vec<ScheduleRecord>, StoreError> {
        let mut rows: Vec<ScheduleRecord> = Vec::new();
        loop {
            let last = rows.last().map(|row| Arc::clone(&row.name));
            let page = self.0.node.store.schedules(last.as_deref(), PAGE).await?;
            if page.is_empty() {
                return Ok(rows);
            }
            rows.extend(page);
        }
    }

    /// How many schedules this server has.
    pub fn schedule_count(&self) -> usize {
        self.0.schedules.timeline().len()
    }

    /// The schedules after this name, in order of their names, also those that only other nodes have.
    ///
    /// # Errors
    /// The store's.
    pub async fn schedules(&self, after: Option<&str>, limit: usize) -> Result<Vec<ScheduleStatus>, StoreError> {
        let mut found = Vec::new();
        for record in self.0.node.store.schedules(after, limit).await? {
            found.push(self.status(record).await?);
        }
        Ok(found)
    }

    /// One schedule.
    ///
    /// # Errors
    /// The store's.
    pub async fn schedule(&self, name: &str) -> Result<Option<ScheduleStatus>, StoreError> {
        match self.0.node.store.schedule(name).await? {
            Some(record) => Ok(Some(self.status(record).await?)),
            None => Ok(None),
        }
    }

    async fn status(&self, record: ScheduleRecord) -> Result<ScheduleStatus, StoreError> {
        let node = &self.0.node;
        let last = match &record.last_task {
            Some(id) => node.store.get_unscoped(id).await?.map(|found| found.task),
            None => None,
        };
        let schedule = self.0.schedules.timeline().schedule(&record.name);
        let next = match &schedule {
            Some(schedule) if !record.paused => {
                let planned = std::iter::successors(record.next_at, |planned| schedule.recurrence.next_after(*planned));
                let due = planned.take(LISTED_TIMES).map(|planned| schedule.due(planned));
                let now = node.ports.clock.read();
                due.map(|due| match schedule.recurrence {
                    Recurrence::Cron(_) => due,
                    Recurrence::Every(_) => now.in_the_world(due),
                })
                .collect()
            }
            _ => Vec::new(),
        };
        Ok(ScheduleStatus {
            record,
            schedule,
            next,
            last,
        })
    }

    /// Pauses a schedule, or ends its pause; kept over restarts. Its times pass without a start meanwhile. Returns whether it is known.
    ///
    /// # Errors
    /// The store's.
    pub async fn pause_schedule(&self, name: &str, paused: bool) -> Result<bool, StoreError> {
        self.0.node.store.set_schedule_paused(name, paused).await
    }

    /// Starts what a schedule starts, now, also while it is paused. Its times stay as they are.
    ///
    /// # Errors
    /// [`TriggerError`]; nothing was started then. A schedule that skips overlaps refuses it while the task before is live.
    pub async fn trigger_schedule(&self, name: &str) -> Result<Task, TriggerError> {
        let schedule = self.0.schedules.timeline().schedule(name);
        let schedule = schedule.ok_or(TriggerError::Unknown)?;
        self.0.start_scheduled(&schedule, None).await
    }
}

impl Inner {
    /// Creates the task of a start.
    async fn start_scheduled(
        self: &Arc<Self>,
        schedule: &Schedule,
        advance: Option<ScheduleAdvance>,
    ) -> Result<Task, TriggerError> {
        let tool = self.catalog.tool(&schedule.tool);
        let tool = tool.ok_or_else(|| TriggerError::NoTool(Arc::clone(&schedule.tool)))?;
        let wrong = tool.check(&schedule.arguments).await.err();
        let requestor = Arc::new(Requestor {
            modern: true,
            client: Some(Json::from(serde_json::json!({
                "name": format!("the schedule {}", schedule.name),
                "version": env!("CARGO_PKG_VERSION"),
            }))),
            // Nobody waits who could be asked before there is a task.
            asks_first: tool.settings().intake.is_some(),
            ..Requestor::default()
        });
        let call = Call {
            tool,
            arguments: schedule.arguments.clone(),
            owner: Owner {
                principal: schedule.principal.clone(),
                session: None,
            },
            origin: Origin::Modern,
            requestor: Arc::clone(&requestor),
            idempotency_key: None,
            ttl: None,
            priority: None,
            cancel_if_caller_leaves: false,
        };
        let new = self.new_task(&call, true);
        let new = NewTask {
            // What fails at once is in nobody's way.
            unique: new.unique.filter(|_| wrong.is_none()),
            schedule: Some(Box::new(ScheduledStart {
                name: Arc::clone(&schedule.name),
                plan: schedule.recurrence.to_string().into(),
                advance,
                skip_if_live: schedule.overlap == Overlap::Skip,
            })),
            // The tool of an upstream has another schema by now: whoever looks for the task finds that.
            outcome: wrong.map(|wrong| Outcome::tool_error(&wrong.to_string())),
            ..new
        };
        match self.submit(new, requestor, false).await? {
            // Nothing was written: the schedule still has this planned time.
            Created::Joined(live) => Err(CreateError::NotUnique {
                live: Some(live.id.clone()),
            }
            .into()),
            created => Ok(created.into_task()),
        }
    }
}

//! Creates and changes tasks, in every store alike. A [`Backend`] loads and writes, and decides nothing.

use crate::{
    decision::{Decision, decide, decide_replacement, decide_start, end_for_parent},
    usage,
};
use longhaul_core::{
    ConcurrencyGroup, Json, QuotaExceeded, QuotaScope, Task, TaskId, UnixMillis, Usage,
    store::{
        ApplyError, Change, CreateError, Created, History, Idempotency, NewTask, ScheduleConflict, ScheduleRecord,
        ScheduledStart, StoreError, Uniqueness, UnwrittenCall,
    },
};
use std::sync::Arc;

/// The transaction of a store, or what stands for one. After an error the store undoes all that was written.
pub trait Backend {
    /// Why a statement failed.
    type Error;
    /// Where a task was loaded from, and what the backend needs to write it there again.
    type Loaded;

    /// Loads a task, as the transaction sees it, and calls `read` with it.
    ///
    /// # Errors
    /// A statement failed.
    fn load<T>(&mut self, id: &TaskId, read: impl FnOnce(&Task) -> T)
    -> Result<Option<(Self::Loaded, T)>, Self::Error>;

    /// The task of an earlier call with the same principal, tool and idempotency key, and the digest of its arguments.
    ///
    /// # Errors
    /// A statement failed.
    fn find_repeated(&mut self, new: &NewTask) -> Result<Option<(Task, [u8; 32])>, Self::Error>;

    /// The live task of the tool of `new` with the same [unique value](NewTask::unique), and the digest of its arguments. Only asked if `new` has one.
    ///
    /// # Errors
    /// A statement failed.
    fn find_live_unique(&mut self, new: &NewTask, unique: &Uniqueness)
    -> Result<Option<(Task, [u8; 32])>, Self::Error>;

    /// The usage that counts towards the quota of `new` in `scope`. It is created only if there is room for `more`.
    ///
    /// # Errors
    /// A statement failed.
    fn usage(&mut self, new: &NewTask, scope: QuotaScope, more: Usage) -> Result<Usage, Self::Error>;

    /// Writes a new task and tells listeners of it. Refuses an id that exists and a definition that was never put, and has written nothing then.
    ///
    /// # Errors
    /// A statement failed.
    fn insert(&mut self, new: Insertion<'_>) -> Result<Result<(), StoreError>, Self::Error>;

    /// Writes what was decided about a task that was loaded, and tells listeners of it.
    ///
    /// # Errors
    /// A statement failed.
    fn write(&mut self, loaded: Self::Loaded, decision: &Decision<'_>) -> Result<(), Self::Error>;

    /// Lets queued tasks into a group of `tool` as far as the tool's limit allows, in the order of the queue, and tells listeners of them. It may do so any time until the
    /// transaction ends.
    ///
    /// # Errors
    /// A statement failed.
    fn fill_group(&mut self, tool: &Arc<str>, group: ConcurrencyGroup) -> Result<(), Self::Error>;

    /// Loads a schedule, as the transaction sees it, and whether the task that it started last is live.
    ///
    /// # Errors
    /// A statement failed.
    fn load_schedule(&mut self, name: &str) -> Result<Option<(ScheduleRecord, bool)>, Self::Error>;

    /// Writes what a start has changed of a schedule that was loaded.
    ///
    /// # Errors
    /// A statement failed.
    fn write_schedule(&mut self, schedule: &ScheduleRecord) -> Result<(), Self::Error>;
}

/// A task to be written for the first time.
pub struct Insertion<'a> {
    /// The task, and what belongs to it.
    pub decision: &'a Decision<'a>,
    /// [`NewTask::arguments`].
    pub arguments: &'a Json,
    /// [`NewTask::requestor`].
    pub requestor: &'a Json,
    /// [`NewTask::idempotency`].
    pub idempotency: Option<&'a Idempotency>,
    /// [`NewTask::unique`].
    pub unique: Option<&'a Uniqueness>,
    /// The task that is ended in its place, whose unique value may be the same.
    pub replaces: Option<&'a TaskId>,
    /// [`NewTask::history`].
    pub history: Option<&'a History>,
    /// What it adds.
    pub usage: Usage,
}

/// What a change answers: `Ok(Err(_))` if it was refused and nothing was written.
type Answer<T, R, B> = Result<Result<T, R>, <B as Backend>::Error>;

/// The value of an inner `Ok`; an inner `Err` is the answer of the function.
macro_rules! granted {
    ($answer:expr) => {
        match $answer {
            Ok(value) => value,
            Err(refused) => return Ok(Err(refused.into())),
        }
    };
}

/// [`longhaul_core::store::TaskStore::create`]. `created` is [`Decision::of_new`].
///
/// # Errors
/// A statement failed.
pub fn create<B: Backend>(backend: &mut B, new: &NewTask, created: &Decision<'_>) -> Answer<Created, CreateError, B> {
    if let Some(key) = &new.idempotency
        && let Some((task, digest)) = backend.find_repeated(new)?
    {
        return Ok(match digest == key.digest {
            true => Ok(Created::Existing(task)),
            false => Err(CreateError::IdempotencyKeyConflict),
        });
    }
    if let Some(unique) = &new.unique
        && let Some((live, arguments)) = backend.find_live_unique(new, unique)?
        && new.replaces.as_ref().is_none_or(|end| end.task != live.id)
    {
        return Ok(join(new, unique, live, arguments));
    }
    let start = new.parent_change();
    let start = match &start {
        Some(change) => {
            let decided = decided(backend, &change.task, |parent| decide_start(parent, change))?;
            Some(granted!(decided.map_err(CreateError::Parent)))
        }
        None => None,
    };
    let replaced = match new.replaces.as_deref() {
        Some(end) => {
            let decided = decided(backend, &end.task, |before| decide_replacement(before, new, end))?;
            Some(granted!(decided.map_err(CreateError::Replaced)))
        }
        None => None,
    };
    let schedule = match new.schedule.as_deref() {
        Some(start) => Some(granted!(started(backend, start, new)?)),
        None => None,
    };
    let asking = created.asking(new);
    let created = asking.as_ref().unwrap_or(created);
    let usage = usage::of_new(new, created);
    granted!(admit(backend, new, usage::to_admit(usage, new.replaces.as_deref()))?);
    granted!(backend.insert(Insertion {
        decision: created,
        arguments: &new.arguments,
        requestor: &new.requestor,
        idempotency: new.idempotency.as_ref(),
        unique: new.unique.as_ref(),
        replaces: new.replaces.as_ref().map(|end| &end.task),
        history: new.history.as_deref(),
        usage,
    })?);
    if let Some(schedule) = schedule {
        backend.write_schedule(&schedule)?;
    }
    if let Some((parent, decision)) = start {
        backend.write(parent, &decision)?;
    }
    if let Some((replaced, decision)) = replaced {
        backend.write(replaced, &decision)?;
        fill_group_of(backend, &decision.task)?;
        notify_parent(backend, &decision, new.created_at)?;
    }
    fill_group_of(backend, &created.task)?;
    notify_parent(backend, created, new.created_at)?;
    Ok(Ok(Created::New(created.task.clone())))
}

/// The answer to a call that finds a live task with its unique value.
fn join(new: &NewTask, unique: &Uniqueness, live: Task, arguments: [u8; 32]) -> Result<Created, CreateError> {
    let is_owners = live.owner.principal == new.owner.principal;
    match is_owners && arguments == unique.arguments && new.lineage.is_none() {
        true => Ok(Created::Joined(live)),
        // Invariant 5: nothing is said of another principal's task.
        false => Err(CreateError::NotUnique {
            live: is_owners.then(|| live.id.clone()),
        }),
    }
}

/// [`longhaul_core::store::TaskStore::write_call`].
///
/// # Errors
/// A statement failed.
pub fn write_call<B: Backend>(backend: &mut B, call: &UnwrittenCall, change: &Change) -> Answer<Task, ApplyError, B> {
    if let Some((_, written)) = backend.load(&call.task.id, Task::clone)? {
        return Ok(Ok(written));
    }
    let decision = granted!(decide(&call.task, change));
    let written = usage::bytes(&call.arguments) + usage::bytes(&call.requestor) + usage::of_decision(&decision);
    granted!(backend.insert(Insertion {
        decision: &decision,
        arguments: &call.arguments,
        requestor: &call.requestor,
        idempotency: None,
        unique: None,
        replaces: None,
        history: None,
        usage: Usage {
            live: u64::from(!decision.task.is_done()),
            bytes: written,
        },
    })?);
    Ok(Ok(decision.task))
}

/// [`longhaul_core::store::TaskStore::apply`].
///
/// # Errors
/// A statement failed.
pub fn apply<B: Backend>(backend: &mut B, change: &Change) -> Answer<Task, ApplyError, B> {
    let (before, decision) = granted!(decided(backend, &change.task, |task| decide(task, change))?);
    backend.write(before, &decision)?;
    fill_group_of(backend, &decision.task)?;
    notify_parent(backend, &decision, change.at)?;
    Ok(Ok(decision.task))
}

/// Fills the group of a task that was written, if it may have left it or waits for it.
fn fill_group_of<B: Backend>(backend: &mut B, task: &Task) -> Result<(), B::Error> {
    match task.group {
        Some(group) if !task.is_in_group() => backend.fill_group(&task.tool, group),
        _ => Ok(()),
    }
}

/// The schedule that starts a new task, as it then is.
fn started<B: Backend>(
    backend: &mut B,
    start: &ScheduledStart,
    new: &NewTask,
) -> Answer<ScheduleRecord, ScheduleConflict, B> {
    let Some((mut schedule, last_is_live)) = backend.load_schedule(&start.name)? else {
        return Ok(Err(ScheduleConflict::Moved));
    };
    let started = schedule.start(start, &new.id, new.created_at, last_is_live);
    Ok(started.map(|()| schedule))
}

/// A task that was loaded, and what `decide` says of it.
fn decided<'c, B: Backend>(
    backend: &mut B,
    id: &TaskId,
    decide: impl FnOnce(&Task) -> Result<Decision<'c>, ApplyError>,
) -> Answer<(B::Loaded, Decision<'c>), ApplyError, B> {
    Ok(match backend.load(id, decide)? {
        Some((loaded, decision)) => decision.map(|decision| (loaded, decision)),
        None => Err(ApplyError::NotFound),
    })
}

/// Whether the quota allows `more`. Without a limit nothing is read.
fn admit<B: Backend>(backend: &mut B, new: &NewTask, more: Usage) -> Answer<(), QuotaExceeded, B> {
    for scope in [QuotaScope::Principal, QuotaScope::All] {
        if new.quota.limits(scope) {
            granted!(new.quota.admit(scope, backend.usage(new, scope, more)?, more));
        }
    }
    Ok(Ok(()))
}

/// Writes the end of a task, if it has ended, to its parent. A parent that is over or deleted is not changed.
fn notify_parent<B: Backend>(backend: &mut B, ended: &Decision<'_>, at: UnixMillis) -> Result<(), B::Error> {
    let Some(change) = end_for_parent(ended, at) else {
        return Ok(());
    };
    match decided(backend, &change.task, |parent| decide(parent, &change))? {
        Ok((parent, decision)) => backend.write(parent, &decision),
        Err(_) => Ok(()),
    }
}

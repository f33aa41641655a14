//! [`Store`] over SQLite.

use super::{
    NEEDS_ROOM, Needs, SqliteStore, change::groups, change::schedules, query::journal, query::search, read, write,
};
use crate::{backend, decision::Decision, usage};
use longhaul_core::{
    AttemptEnd, BoxFuture, Entry, Event, HostId, Input, InputKey, Json, Millis, NodeId, Principal, Scope, SessionKey,
    SpecId, Store, Task, TaskId, ToolSpec, UnixMillis, Usage,
    store::{
        ApplyError, Change, Claim, Claimed, CommitCounts, Counts, CreateError, Created, FoundTasks, JournalStore,
        Lease, LeaseStore, LiveTasks, NewNode, NewSchedule, NewTask, Page, QueuePlace, QueueStore, Record, Renewal,
        ScheduleAdvance, ScheduleRecord, ScheduleStore, SearchStore, SessionStore, SigningKey, StoreError,
        StoreListener, TaskLookup, TaskSearch, TaskStore, TimerStore, ToolLimit, UnwrittenCall,
    },
};
use rusqlite::Connection;
use std::{future::ready, sync::Arc};

impl SqliteStore {
    fn at_once<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> BoxFuture<'_, Result<T, StoreError>> {
        Box::pin(ready(self.readers().and_then(|readers| readers.at_once(question))))
    }

    fn in_turn<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, StoreError>> {
        Box::pin(async move { self.readers()?.in_turn(question).await })
    }
}

impl SqliteStore {
    /// Reads from the cache, or from the file. A cached record, too, is hidden from other principals.
    fn record(&self, scope: &Scope, id: &TaskId) -> Result<Option<Record>, StoreError> {
        let readers = self.readers()?;
        let ended = &self.published.ended;
        match ended.find(id) {
            Ok(record) if record.task.owner.principal == scope.principal => Ok(Some((*record).clone())),
            Ok(_) => Ok(None),
            Err(absent) => {
                let record = readers.at_once(|connection| read::get(connection, scope, id))?;
                if let Some(record) = &record {
                    ended.keep(absent, record);
                }
                Ok(record)
            }
        }
    }
}

impl TaskStore for SqliteStore {
    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        let created = Decision::of_new(&new);
        let bytes = usage::of_new(&new, &created).bytes;
        Box::pin(self.write(weight(bytes), move |tx| backend::create(tx, &new, &created)))
    }

    fn find_by_idempotency_key(
        &self,
        principal: &Principal,
        tool: &str,
        key: &str,
        digest: Option<[u8; 32]>,
    ) -> BoxFuture<'_, Result<Option<Task>, StoreError>> {
        self.at_once(|connection| {
            let found = read::find_by_idempotency_key(connection, principal, tool, key)?;
            let is_meant = |of_call: &[u8; 32]| digest.is_none_or(|digest| digest == *of_call);
            Ok(found.and_then(|(task, of_call)| is_meant(&of_call).then_some(task)))
        })
    }

    fn write_call(&self, call: UnwrittenCall, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        let events: u64 = change.events.iter().map(event_bytes).sum();
        let bytes = events + usage::bytes(&call.arguments) + usage::bytes(&call.requestor);
        Box::pin(self.write(weight(bytes), move |tx| backend::write_call(tx, &call, &change)))
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        let bytes: u64 = change.events.iter().map(event_bytes).sum();
        let needs = Needs {
            size_hint_bytes: weight(bytes),
            can_be_deferred: change.can_wait,
            // What is cancelled can be deleted, once it has stopped.
            may_use_reserve: bytes == 0 && change.events.iter().any(is_of_cancellation),
        };
        Box::pin(self.write_when(needs, move |tx| backend::apply(tx, &change)))
    }

    fn held(&self, node: NodeId, id: &TaskId) -> BoxFuture<'_, Result<Option<Claimed>, StoreError>> {
        self.at_once(|connection| read::held(connection, node, id))
    }

    fn get(&self, scope: &Scope, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        Box::pin(ready(self.record(scope, id)))
    }

    fn get_unscoped(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        self.at_once(|connection| read::get_unscoped(connection, id))
    }

    fn versions(&self, ids: &[TaskId]) -> BoxFuture<'_, Result<Vec<(TaskId, u64)>, StoreError>> {
        let ids = ids.to_vec();
        self.in_turn(move |connection| read::versions(connection, ids))
    }

    fn requestor(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Json>, StoreError>> {
        self.at_once(|connection| read::requestor(connection, id))
    }

    fn arguments(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Json>, StoreError>> {
        self.at_once(|connection| read::arguments(connection, id))
    }

    fn delete(&self, _host: &HostId, ids: Vec<TaskId>, at: UnixMillis) -> BoxFuture<'_, Result<usize, StoreError>> {
        // One without tasks makes no room.
        let needs = Needs {
            may_use_reserve: !ids.is_empty(),
            ..Needs::default()
        };
        Box::pin(self.write_when(needs, move |tx| write::delete(tx, &ids, at)))
    }

    fn delete_ended(
        &self,
        _host: &HostId,
        ids: Vec<TaskId>,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<usize, StoreError>> {
        Box::pin(self.write_when(NEEDS_ROOM, move |tx| write::delete_ended(tx, &ids, at)))
    }
}

impl JournalStore for SqliteStore {
    fn input(&self, id: &TaskId, key: &InputKey) -> BoxFuture<'_, Result<Option<Input>, StoreError>> {
        self.at_once(|connection| read::input(connection, id, key))
    }

    fn inputs(&self, id: &TaskId, limit: usize) -> BoxFuture<'_, Result<Vec<Input>, StoreError>> {
        let id = id.clone();
        self.in_turn(move |connection| read::inputs(connection, &id, limit))
    }

    fn journal(&self, id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        let id = id.clone();
        self.in_turn(move |connection| journal::read(connection, journal::READ, &id, after, limit))
    }

    fn emitted(&self, id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        let id = id.clone();
        self.in_turn(move |connection| journal::read(connection, journal::EMITTED, &id, after, limit))
    }
}

impl QueueStore for SqliteStore {
    fn put_spec(&self, spec: ToolSpec) -> BoxFuture<'_, Result<(), StoreError>> {
        let needs = Needs {
            size_hint_bytes: spec.definition.as_str().len(),
            // A start stores the definitions of its tools.
            ..NEEDS_ROOM
        };
        Box::pin(self.write_when(needs, move |tx| write::put_spec(tx, &spec)))
    }

    fn spec(&self, id: &SpecId) -> BoxFuture<'_, Result<Option<ToolSpec>, StoreError>> {
        self.at_once(|connection| read::spec(connection, id))
    }

    fn put_limit(
        &self,
        tool: &str,
        concurrency: Option<usize>,
        per_group: Option<usize>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let tool = tool.to_owned();
        Box::pin(self.write(0, move |tx| write::put_limit(tx, &tool, concurrency, per_group)))
    }

    fn fill_groups(&self) -> BoxFuture<'_, Result<usize, StoreError>> {
        Box::pin(self.write(0, groups::fill_all))
    }

    fn limits(&self) -> BoxFuture<'_, Result<Vec<ToolLimit>, StoreError>> {
        self.in_turn(read::limits)
    }

    fn set_paused(&self, tool: &str, paused: bool) -> BoxFuture<'_, Result<(), StoreError>> {
        let tool = tool.to_owned();
        Box::pin(self.write(0, move |tx| write::set_paused(tx, &tool, paused)))
    }

    fn paused(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        self.in_turn(read::paused)
    }

    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        // What they write and how they end could not be stored.
        if self.reserve.refuses_payloads() {
            return Box::pin(ready(Err(StoreError::Full)));
        }
        Box::pin(self.write(0, move |tx| write::claim(tx, &claim)))
    }

    fn queued_tools(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        self.in_turn(read::queued_tools)
    }

    fn next_ready(&self, tool: &str, at: UnixMillis) -> BoxFuture<'_, Result<Option<QueuePlace>, StoreError>> {
        self.at_once(|connection| read::next_ready(connection, tool, at))
    }

    fn last_start(&self, tool: &str) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        self.at_once(|connection| read::last_start(connection, tool))
    }

    fn queued_before(&self, task: &Task, most: usize) -> BoxFuture<'_, Result<usize, StoreError>> {
        self.at_once(|connection| read::queued_before(connection, task, most))
    }
}

impl TimerStore for SqliteStore {
    fn next_wake(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        self.at_once(read::next_wake)
    }

    fn make_timers_due(&self, at: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.write(0, move |tx| write::make_timers_due(tx, at)))
    }

    fn newest_created_at(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        self.at_once(read::newest_created_at)
    }

    fn expired(&self, at: UnixMillis, limit: usize) -> BoxFuture<'_, Result<Vec<TaskId>, StoreError>> {
        self.in_turn(move |connection| read::expired(connection, at, limit))
    }
}

impl LeaseStore for SqliteStore {
    fn open_node(&self, new: &NewNode, at: UnixMillis) -> BoxFuture<'_, Result<Lease, StoreError>> {
        let host = new.host.clone();
        Box::pin(async move {
            Ok(Lease {
                node: self.begin_node(host, at).await?,
                now: None,
                length: None,
            })
        })
    }

    /// The lock of the data directory is the lease: whoever holds it is the only process, and its latest node the only one that lives.
    fn renew(&self, node: NodeId) -> BoxFuture<'_, Result<Renewal, StoreError>> {
        Box::pin(async move {
            let read = move |connection: &Connection| {
                let is_latest = read::latest_node(connection)?.id == node.0;
                is_latest.then(|| read::held_attempts(connection, node)).transpose()
            };
            let held = self.in_turn(read).await?.ok_or(StoreError::LeaseLost)?;
            Ok(Renewal {
                now: None,
                held,
                others_died: false,
            })
        })
    }

    fn end_lease(&self, _node: NodeId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }

    fn adopt(
        &self,
        node: NodeId,
        _host: &HostId,
        limit: usize,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        Box::pin(self.write(0, move |tx| write::adopt(tx, node, limit, at)))
    }

    /// A data directory is one host.
    fn reclaim(
        &self,
        _node: NodeId,
        _host: &HostId,
        _lost_for: Millis,
        _limit: usize,
        _at: UnixMillis,
    ) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    fn record_removal(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.record_removal())
    }
}

impl SessionStore for SqliteStore {
    fn end_session(&self, session: &SessionKey, until: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>> {
        if !self.published.may_end(session) {
            return Box::pin(ready(Err(StoreError::TooManySessions)));
        }
        let session = session.clone();
        Box::pin(self.write(0, move |tx| write::end_session(tx, &session, until)))
    }

    fn session_ended(&self, session: &SessionKey) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(ready(Ok(self.published.session_ended(session))))
    }

    fn signing_keys(&self, purpose: &str, fresh: SigningKey) -> BoxFuture<'_, Result<Vec<SigningKey>, StoreError>> {
        let purpose = purpose.to_owned();
        Box::pin(self.write(0, move |tx| write::signing_keys(tx, &purpose, &fresh)))
    }
}

impl SearchStore for SqliteStore {
    fn find(&self, lookup: TaskLookup, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        self.in_turn(move |connection| read::find(connection, &lookup, limit))
    }

    fn search(&self, search: TaskSearch) -> BoxFuture<'_, Result<FoundTasks, StoreError>> {
        self.in_turn(move |connection| search::page(connection, &search))
    }

    fn list(&self, scope: &Scope, before: Option<&TaskId>, limit: usize) -> BoxFuture<'_, Result<Page, StoreError>> {
        let (scope, before) = (scope.clone(), before.cloned());
        self.in_turn(move |connection| read::list(connection, &scope, before.as_ref(), limit))
    }

    fn counts(&self) -> BoxFuture<'_, Result<Counts, StoreError>> {
        self.in_turn(read::counts)
    }

    fn live_tasks(&self) -> BoxFuture<'_, Result<Vec<LiveTasks>, StoreError>> {
        self.in_turn(read::live_tasks)
    }

    fn usage(&self, of: Option<&Principal>) -> BoxFuture<'_, Result<Usage, StoreError>> {
        self.at_once(|connection| read::usage(connection, of))
    }
}

impl ScheduleStore for SqliteStore {
    fn put_schedules(&self, schedules: Vec<NewSchedule>) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        // A start stores its schedules.
        Box::pin(self.write_when(NEEDS_ROOM, move |tx| schedules::put(tx, &schedules)))
    }

    fn remove_schedules(&self, names: Vec<Arc<str>>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.write_when(NEEDS_ROOM, move |tx| schedules::remove(tx, &names)))
    }

    fn schedules(&self, after: Option<&str>, limit: usize) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        let after = after.unwrap_or_default().to_owned();
        self.in_turn(move |connection| schedules::after(connection, &after, limit))
    }

    fn schedule(&self, name: &str) -> BoxFuture<'_, Result<Option<ScheduleRecord>, StoreError>> {
        self.at_once(|connection| schedules::by_name(connection, name))
    }

    fn advance_schedule(
        &self,
        name: &str,
        plan: &str,
        advance: ScheduleAdvance,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        let (name, plan) = (name.to_owned(), plan.to_owned());
        Box::pin(self.write(0, move |tx| schedules::advance(tx, &name, &plan, &advance)))
    }

    fn set_schedule_paused(&self, name: &str, paused: bool) -> BoxFuture<'_, Result<bool, StoreError>> {
        let name = name.to_owned();
        Box::pin(self.write(0, move |tx| schedules::set_paused(tx, &name, paused)))
    }
}

impl Store for SqliteStore {
    fn listen(&self, listener: StoreListener) {
        self.published.listen(listener);
    }

    fn refuses_payloads(&self) -> bool {
        self.reserve.refuses_payloads()
    }

    fn commit_counts(&self) -> CommitCounts {
        self.published.commits.counts()
    }
}

fn is_of_cancellation(event: &Event) -> bool {
    matches!(
        event,
        Event::CancelRequested(_) | Event::AttemptEnded(AttemptEnd::Stopped(_))
    )
}

fn event_bytes(event: &Event) -> u64 {
    match event {
        Event::InputRequested { request: json, .. }
        | Event::InputAnswered { answer: json, .. }
        | Event::ChildEnded { value: json, .. } => usage::bytes(json),
        Event::Journaled(entry) => usage::of_entry(entry),
        Event::AttemptEnded(AttemptEnd::Finished(outcome) | AttemptEnd::Failed { outcome, .. })
        | Event::Abandoned(outcome) => usage::of_outcome(outcome),
        _ => 0,
    }
}

fn weight(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

//! [`Store`] over PostgreSQL.

use crate::{
    PostgresStore,
    change::{
        Request, RequestAnswer,
        deletion::{Delete, WHENEVER},
        groups::FillSome,
        ledger,
        signing_keys::RotateKeys,
    },
    connection::{Work, locks, transact, work::Statement},
    event::{Effects, OutgoingNotification, messages, notifications, pauses},
    node::{nodes, permits, take},
    origin::{self, HostFileContents},
    query::{read, search},
    statement::{Fault, Param, Retries, encode, row, texts},
};
use longhaul_core::{
    BoxFuture, Entry, HostId, Input, InputKey, Json, Millis, NodeId, Principal, Scope, SessionKey, SpecId, Store, Task,
    TaskId, ToolSpec, UnixMillis, Usage,
    store::{
        ApplyError, Change, Claim, Claimed, CommitCounts, Counts, CreateError, Created, FoundTasks, GiveUpError,
        JournalStore, Lease, LeaseStore, LiveTasks, NewNode, NewTask, NodeStatus, Page, PermitReport, Permits,
        QueuePlace, QueueStore, Record, Renewal, SearchStore, SessionStore, SigningKey, StoreCapabilities, StoreError,
        StoreEvent, StoreHealth, StoreListener, TaskLookup, TaskSearch, TaskStore, TimerStore, ToolLimit,
        UnwrittenCall,
    },
};
use std::{future::ready, sync::Arc};

const PUT_SPEC: &str = "INSERT INTO specs (id, kind, definition) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
const PUT_LIMIT: &str = "INSERT INTO tool_limits (tool, concurrency, per_group) VALUES ($1, $2, $3) \
     ON CONFLICT (tool) DO UPDATE SET concurrency = excluded.concurrency, per_group = excluded.per_group \
     WHERE (tool_limits.concurrency, tool_limits.per_group) IS DISTINCT FROM (excluded.concurrency, excluded.per_group)";
const HASTEN: &str = "UPDATE tasks SET resume_at = $1, wake_at = least(wake_at, $1) WHERE wake_at IS NOT NULL AND state = 2 AND resume_at > $1 AND attempt_epoch IS NOT NULL";
const REMOVE_TOMBSTONES: &str = "DELETE FROM tombstones WHERE host = $1 AND task = ANY($2::text[])";

impl PostgresStore {
    async fn apply_request(&self, request: Request) -> Result<Task, ApplyError> {
        match self.send(request).await? {
            RequestAnswer::Applied(answer) => *answer,
            _ => Err(unexpected().into()),
        }
    }

    /// Makes a change that takes tasks, and tells of them.
    async fn take(&self, work: &impl Work<Answer = take::TakenTasks>) -> Result<Vec<Claimed>, StoreError> {
        let (taken, effects) = transact(&self.connections, work).await?;
        self.published.committed(effects);
        Ok(taken)
    }

    async fn delete_due(
        &self,
        host: HostId,
        ids: Vec<TaskId>,
        due: UnixMillis,
        at: UnixMillis,
    ) -> Result<usize, StoreError> {
        let part = self.part;
        let delete = Delete {
            host,
            ids,
            due,
            at,
            part,
        };
        let deleted = transact(&self.connections, &delete).await?;
        self.published.forget_sessions(at);
        Ok(deleted)
    }
}

/// The writer answers each request with an answer of its kind.
fn unexpected() -> StoreError {
    StoreError::Failed("the writer has answered something else".to_owned())
}

/// Asks a question on a connection of its own, which then ends as `$end` says.
macro_rules! ask {
    ($connections:expr, $end:ident, |$connection:ident| $question:expr) => {
        async {
            let connection = $connections.get().await?;
            let outcome = {
                let $connection = &connection;
                $question.await
            };
            connection.$end(outcome)
        }
    };
}

/// Reads with a connection of its own, again if the connection was lost.
macro_rules! read {
    ($store:expr, |$connection:ident| $question:expr) => {
        Box::pin(async move {
            let mut retries = Retries::default();
            loop {
                match ask!($store.connections, settle, |$connection| $question).await {
                    Ok(answer) => return Ok(answer),
                    Err(fault) => {
                        let fault = locks::named(&$store.connections, fault).await;
                        retries.wait(fault).await.map_err(Fault::into_store_error)?;
                    }
                }
            }
        })
    };
}

/// The same of what clients read of tasks: also of a database that can only be read, as the one that answers is then.
macro_rules! read_anywhere {
    ($store:expr, |$connection:ident| $question:expr) => {
        Box::pin(async move {
            let mut retries = Retries::default();
            loop {
                let fault = match ask!($store.connections, settle, |$connection| $question).await {
                    Ok(answer) => return Ok(answer),
                    Err(fault) => fault,
                };
                if fault.is_read_only()
                    && let Ok(answer) = ask!($store.for_reading, close_with, |$connection| $question).await
                {
                    return Ok(answer);
                }
                let fault = locks::named(&$store.connections, fault).await;
                retries.wait(fault).await.map_err(Fault::into_store_error)?;
            }
        })
    };
}

mod schedules;

impl TaskStore for PostgresStore {
    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        Box::pin(async move {
            match self.send(Request::Create(Box::new(new))).await? {
                RequestAnswer::Created(answer) => *answer,
                _ => Err(unexpected().into()),
            }
        })
    }

    fn find_by_idempotency_key(
        &self,
        principal: &Principal,
        tool: &str,
        key: &str,
        digest: Option<[u8; 32]>,
    ) -> BoxFuture<'_, Result<Option<Task>, StoreError>> {
        let (principal, tool, key) = (principal.clone(), tool.to_owned(), key.to_owned());
        read!(self, |connection| read::find_by_idempotency_key(
            connection, &principal, &tool, &key, digest
        ))
    }

    fn write_call(&self, call: UnwrittenCall, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        Box::pin(self.apply_request(Request::WriteCall(Box::new(call), change)))
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        Box::pin(self.apply_request(Request::Apply(change)))
    }

    fn held(&self, node: NodeId, id: &TaskId) -> BoxFuture<'_, Result<Option<Claimed>, StoreError>> {
        let id = id.clone();
        read!(self, |connection| read::held(connection, node, &id))
    }

    fn get(&self, scope: &Scope, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        let (scope, id) = (scope.clone(), id.clone());
        read_anywhere!(self, |connection| read::get(connection, &scope, &id))
    }

    fn get_unscoped(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        let id = id.clone();
        read_anywhere!(self, |connection| read::get_unscoped(connection, &id))
    }

    fn versions(&self, ids: &[TaskId]) -> BoxFuture<'_, Result<Vec<(TaskId, u64)>, StoreError>> {
        let ids = ids.to_vec();
        read!(self, |connection| read::versions(connection, &ids))
    }

    fn requestor(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Json>, StoreError>> {
        let id = id.clone();
        read_anywhere!(self, |connection| read::requestor(connection, &id))
    }

    fn arguments(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Json>, StoreError>> {
        let id = id.clone();
        read_anywhere!(self, |connection| read::arguments(connection, &id))
    }

    fn delete(&self, host: &HostId, ids: Vec<TaskId>, at: UnixMillis) -> BoxFuture<'_, Result<usize, StoreError>> {
        Box::pin(self.delete_due(host.clone(), ids, at, at))
    }

    /// What is deleted stays in dead rows until they are vacuumed, and in the write-ahead log until it is recycled.
    fn delete_ended(
        &self,
        host: &HostId,
        ids: Vec<TaskId>,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<usize, StoreError>> {
        Box::pin(self.delete_due(host.clone(), ids, WHENEVER, at))
    }
}

impl JournalStore for PostgresStore {
    fn input(&self, id: &TaskId, key: &InputKey) -> BoxFuture<'_, Result<Option<Input>, StoreError>> {
        let (id, key) = (id.clone(), key.clone());
        read!(self, |connection| read::input(connection, &id, &key))
    }

    fn inputs(&self, id: &TaskId, limit: usize) -> BoxFuture<'_, Result<Vec<Input>, StoreError>> {
        let id = id.clone();
        read_anywhere!(self, |connection| read::inputs(connection, &id, limit))
    }

    fn journal(&self, id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        let id = id.clone();
        read_anywhere!(self, |connection| read::journal(connection, &id, after, limit))
    }

    fn emitted(&self, id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        let id = id.clone();
        read_anywhere!(self, |connection| read::emitted(connection, &id, after, limit))
    }
}

impl QueueStore for PostgresStore {
    fn put_spec(&self, spec: ToolSpec) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let (id, kind, definition) = (spec.id.as_str(), encode(&spec.kind), spec.definition.as_str());
            let params: Vec<Param<'_>> = vec![&id, &kind, &definition];
            transact(&self.connections, &Statement { sql: PUT_SPEC, params }).await
        })
    }

    fn spec(&self, id: &SpecId) -> BoxFuture<'_, Result<Option<ToolSpec>, StoreError>> {
        let id = id.clone();
        read!(self, |connection| read::spec(connection, &id))
    }

    fn put_limit(
        &self,
        tool: &str,
        concurrency: Option<usize>,
        per_group: Option<usize>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let tool = encode(tool).into_owned();
        let [concurrency, per_group] = [concurrency, per_group].map(|most| most.map(row::bound));
        Box::pin(async move {
            let params: Vec<Param<'_>> = vec![&tool, &concurrency, &per_group];
            transact(&self.connections, &Statement { sql: PUT_LIMIT, params }).await
        })
    }

    fn fill_groups(&self) -> BoxFuture<'_, Result<usize, StoreError>> {
        Box::pin(async move {
            let mut filled = 0;
            while let Some((more, effects)) = transact(&self.connections, &FillSome).await? {
                filled += more;
                self.published.committed(effects);
            }
            Ok(filled)
        })
    }

    fn limits(&self) -> BoxFuture<'_, Result<Vec<ToolLimit>, StoreError>> {
        read!(self, |connection| read::limits(connection))
    }

    fn set_paused(&self, tool: &str, paused: bool) -> BoxFuture<'_, Result<(), StoreError>> {
        let set = pauses::SetPaused {
            tool: tool.to_owned(),
            paused,
        };
        Box::pin(async move {
            transact(&self.connections, &set).await?;
            self.published.committed(Effects::pauses_changed());
            Ok(())
        })
    }

    fn paused(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        read!(self, |connection| pauses::paused(connection, &self.published.pauses))
    }

    fn share_permits(&self, node: NodeId, report: PermitReport) -> BoxFuture<'_, Result<Vec<Permits>, StoreError>> {
        let clock = self.clock.clone();
        let share = permits::Share { node, report, clock };
        Box::pin(async move {
            let (permits, effects) = transact(&self.connections, &share).await?;
            self.published.committed(effects);
            Ok(permits)
        })
    }

    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        let published = Arc::clone(&self.published);
        Box::pin(async move { self.take(&take::TakeQueued { claim, published }).await })
    }

    fn queued_tools(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        read!(self, |connection| read::queued_tools(connection))
    }

    fn next_ready(&self, tool: &str, at: UnixMillis) -> BoxFuture<'_, Result<Option<QueuePlace>, StoreError>> {
        let tool = tool.to_owned();
        read!(self, |connection| read::next_ready(connection, &tool, at))
    }

    fn last_start(&self, tool: &str) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        let tool = tool.to_owned();
        read!(self, |connection| read::last_start(connection, &tool))
    }

    fn queued_before(&self, task: &Task, most: usize) -> BoxFuture<'_, Result<usize, StoreError>> {
        let task = task.clone();
        read!(self, |connection| read::queued_before(connection, &task, most))
    }
}

impl TimerStore for PostgresStore {
    fn next_wake(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        read!(self, |connection| read::next_wake(connection))
    }

    fn make_timers_due(&self, at: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let params: Vec<Param<'_>> = vec![&at.0];
            transact(&self.connections, &Statement { sql: HASTEN, params }).await
        })
    }

    fn newest_created_at(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        read!(self, |connection| read::newest_created_at(connection))
    }

    fn expired(&self, at: UnixMillis, limit: usize) -> BoxFuture<'_, Result<Vec<TaskId>, StoreError>> {
        read!(self, |connection| read::expired(connection, at, limit))
    }
}

impl LeaseStore for PostgresStore {
    fn open_node(&self, new: &NewNode, at: UnixMillis) -> BoxFuture<'_, Result<Lease, StoreError>> {
        let open = nodes::OpenNode {
            new: new.clone(),
            at,
            length: self.node_lease,
            clock: self.clock.clone(),
            first: self.identity.first_node(),
        };
        Box::pin(async move {
            let lease = transact(&self.reserved, &open).await?;
            self.published.node_opened(lease.node);
            let host = open.new.host.0.to_string();
            let removals = match self.host_file {
                Some(_) => transact(&self.reserved, &origin::Removals { host: &host }).await?,
                None => 0,
            };
            let origin = self.identity.origin.as_deref().unwrap_or_default().to_owned();
            self.remember(|remembered| {
                *remembered = HostFileContents {
                    origin,
                    host,
                    node: lease.node.0,
                    removals,
                };
            })
            .await?;
            self.published.forget_sessions(at);
            Ok(lease)
        })
    }

    fn renew(&self, node: NodeId) -> BoxFuture<'_, Result<Renewal, StoreError>> {
        let renew = nodes::Renew {
            identity: Arc::clone(&self.identity),
            node,
            length: self.node_lease,
            clock: self.clock.clone(),
            published: Arc::clone(&self.published),
        };
        Box::pin(async move {
            let (renewal, sent) = transact(&self.reserved, &renew).await?;
            self.published.traffic.compare(&sent);
            Ok(renewal)
        })
    }

    fn end_lease(&self, node: NodeId) -> BoxFuture<'_, Result<(), StoreError>> {
        let clock = self.clock.clone();
        Box::pin(async move { transact(&self.reserved, &nodes::EndLease { node, clock }).await })
    }

    fn await_earlier_writes(&self, node: NodeId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let sql = nodes::AWAIT_EARLIER_WRITES;
            let params: Vec<Param<'_>> = vec![&node.0];
            transact(&self.connections, &Statement { sql, params }).await
        })
    }

    fn give_up_host(&self, node: NodeId) -> BoxFuture<'_, Result<(), GiveUpError>> {
        let clock = self.clock.clone();
        Box::pin(async move { transact(&self.reserved, &nodes::GiveUpHost { node, clock }).await? })
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeStatus>, StoreError>> {
        read!(self, |connection| nodes::statuses(connection, &self.clock))
    }

    fn adopt(
        &self,
        node: NodeId,
        host: &HostId,
        limit: usize,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        let host = host.clone();
        let adopt = take::Adopt { node, host, limit, at };
        Box::pin(async move { self.take(&adopt).await })
    }

    fn reclaim(
        &self,
        node: NodeId,
        host: &HostId,
        lost_for: Millis,
        limit: usize,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        let reclaim = take::Reclaim {
            node,
            host: host.clone(),
            lost_for,
            limit,
            at,
            clock: self.clock.clone(),
        };
        Box::pin(async move { self.take(&reclaim).await })
    }

    fn tombstones(&self, host: &HostId, limit: usize) -> BoxFuture<'_, Result<Vec<TaskId>, StoreError>> {
        let host = host.clone();
        read!(self, |connection| read::tombstones(connection, &host.0, limit))
    }

    fn remove_tombstones(&self, host: &HostId, ids: Vec<TaskId>) -> BoxFuture<'_, Result<(), StoreError>> {
        let host = encode(&host.0).into_owned();
        Box::pin(async move {
            let ids = texts(&ids);
            let params: Vec<Param<'_>> = vec![&host, &ids];
            let sql = REMOVE_TOMBSTONES;
            transact(&self.connections, &Statement { sql, params }).await
        })
    }

    fn record_removal(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            if self.host_file.is_none() {
                return Ok(());
            }
            let host = self.remembered.lock().await.host.clone();
            let count = transact(&self.connections, &origin::CountRemoval { host: &host }).await?;
            self.remember(|remembered| remembered.removals = remembered.removals.max(count))
                .await
        })
    }

    fn send(&self, to: Option<NodeId>, text: Arc<str>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            if to.is_some_and(|to| self.published.has_opened(to)) {
                self.published.tell(&[StoreEvent::Message { to, text }]);
                return Ok(());
            }
            let message = match notifications::fits(&text) {
                true => OutgoingNotification::Message { to, text },
                false => {
                    let id = fastrand::i64(..);
                    transact(&self.connections, &messages::Keep { id, text }).await?;
                    OutgoingNotification::Kept { to, id }
                }
            };
            self.published.send(message);
            Ok(())
        })
    }
}

impl SessionStore for PostgresStore {
    fn end_session(&self, session: &SessionKey, until: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>> {
        if !self.published.may_end(session) {
            return Box::pin(ready(Err(StoreError::TooManySessions)));
        }
        let request = Request::EndSession(session.clone(), until);
        Box::pin(async move {
            match self.send(request).await? {
                RequestAnswer::SessionEnded(answer) => answer,
                _ => Err(unexpected()),
            }
        })
    }

    fn session_ended(&self, session: &SessionKey) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(ready(Ok(self.published.session_ended(session))))
    }

    fn signing_keys(&self, purpose: &str, fresh: SigningKey) -> BoxFuture<'_, Result<Vec<SigningKey>, StoreError>> {
        let purpose = purpose.to_owned();
        Box::pin(async move { transact(&self.connections, &RotateKeys { purpose, fresh }).await })
    }
}

impl SearchStore for PostgresStore {
    fn find(&self, lookup: TaskLookup, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        read!(self, |connection| read::find(connection, &lookup, limit))
    }

    fn search(&self, search: TaskSearch) -> BoxFuture<'_, Result<FoundTasks, StoreError>> {
        read!(self, |connection| search::page(connection, &search))
    }

    fn list(&self, scope: &Scope, before: Option<&TaskId>, limit: usize) -> BoxFuture<'_, Result<Page, StoreError>> {
        let (scope, before) = (scope.clone(), before.cloned());
        read_anywhere!(self, |connection| read::list(
            connection,
            &scope,
            before.as_ref(),
            limit
        ))
    }

    fn counts(&self) -> BoxFuture<'_, Result<Counts, StoreError>> {
        read!(self, |connection| read::counts(connection))
    }

    fn live_tasks(&self) -> BoxFuture<'_, Result<Vec<LiveTasks>, StoreError>> {
        read!(self, |connection| read::live_tasks(connection))
    }

    fn usage(&self, of: Option<&Principal>) -> BoxFuture<'_, Result<Usage, StoreError>> {
        let of = of.cloned();
        read!(self, |connection| ledger::read(connection, of.as_ref()))
    }
}

impl Store for PostgresStore {
    fn listen(&self, listener: StoreListener) {
        self.published.listen(listener);
    }

    fn commit_counts(&self) -> CommitCounts {
        self.published.commits.counts()
    }

    fn health(&self) -> StoreHealth {
        StoreHealth {
            pools: vec![
                self.connections.health("reads and claims"),
                self.reserved.health("changes and leases"),
            ],
            locked_by: self
                .reserved
                .met_lock
                .lately()
                .or_else(|| self.connections.met_lock.lately()),
            ..self.published.traffic.health()
        }
    }

    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities {
            many_nodes: true,
            ..StoreCapabilities::default()
        }
    }
}

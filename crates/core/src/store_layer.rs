//! A store around another one.

use crate::{
    BoxFuture, Entry, HostId, Input, InputKey, Json, Millis, NodeId, Principal, Scope, SessionKey, SpecId, Store, Task,
    TaskId, ToolSpec, UnixMillis, Usage,
    store::{
        ApplyError, Change, Claim, Claimed, CommitCounts, Counts, CreateError, Created, FoundTasks, GiveUpError,
        JournalStore, Lease, LeaseStore, LiveTasks, NewNode, NewSchedule, NewTask, NodeStatus, Page, PermitReport,
        Permits, QueuePlace, QueueStore, Record, Renewal, ScheduleAdvance, ScheduleRecord, ScheduleStore, SearchStore,
        SessionStore, SigningKey, StoreCapabilities, StoreError, StoreHealth, StoreListener, TaskLookup, TaskSearch,
        TaskStore, TimerStore, ToolLimit, UnwrittenCall,
    },
};
use std::sync::Arc;

/// Declares [`StoreLayer`], and makes every layer a store. The list has each method of a store once: one that is missing does not compile.
macro_rules! layer {
    (
        $(#[$about:meta])*
        forwarded { $($group:ident { $(fn $name:ident($($argument:ident: $of:ty),*) -> $answer:ty;)+ })+ }
        at once { $(fn $direct:ident($($given:ident: $type:ty),*) $(-> $returned:ty)?;)+ }
    ) => {
        $(#[$about])*
        pub trait StoreLayer: Send + Sync + 'static {
            /// The store that is wrapped.
            fn inner(&self) -> &dyn Store;

            /// Called with the answer of each operation that the layer does not override and that answers later. Override it to delay,
            /// count or log those operations. The default returns the answer unchanged.
            fn forward<'a, T: Send + 'static>(&'a self, answer: BoxFuture<'a, T>) -> BoxFuture<'a, T> {
                answer
            }

            $($(
                #[doc = concat!("[`", stringify!($group), "::", stringify!($name), "`](crate::store::", stringify!($group), "::", stringify!($name), "). By default the inner store's.")]
                fn $name(&self, $($argument: $of),*) -> $answer {
                    self.forward(self.inner().$name($($argument),*))
                }
            )+)+

            $(
                #[doc = concat!("[`Store::", stringify!($direct), "`]. By default the inner store's.")]
                fn $direct(&self, $($given: $type),*) $(-> $returned)? {
                    self.inner().$direct($($given),*)
                }
            )+
        }

        $(
            impl<L: StoreLayer> $group for L {
                $(
                    fn $name(&self, $($argument: $of),*) -> $answer {
                        StoreLayer::$name(self, $($argument),*)
                    }
                )+
            }
        )+

        impl<L: StoreLayer> Store for L {
            $(
                fn $direct(&self, $($given: $type),*) $(-> $returned)? {
                    StoreLayer::$direct(self, $($given),*)
                }
            )+
        }
    };
}

layer! {
    /// A store that passes on to another one whatever it does not answer itself: to count, delay, refuse or watch what a program asks of its
    /// store. Tests put one around theirs, with `Server::wrap_store` of the crate `longhaul` for instance.
    ///
    /// A layer is a [`Store`], and owes what every store [promises](crate::store) as far as it is to be relied on.
    ///
    /// ```
    /// use longhaul_core::{BoxFuture, Store, StoreLayer, Task, store::{ApplyError, Change, StoreError}};
    /// use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
    ///
    /// /// While it is `full`, nothing changes any more.
    /// struct Bounded {
    ///     inner: Arc<dyn Store>,
    ///     full: AtomicBool,
    /// }
    ///
    /// impl StoreLayer for Bounded {
    ///     fn inner(&self) -> &dyn Store {
    ///         &*self.inner
    ///     }
    ///
    ///     fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
    ///         if self.full.load(Ordering::Relaxed) {
    ///             return Box::pin(async { Err(StoreError::Full.into()) });
    ///         }
    ///         self.inner.apply(change)
    ///     }
    /// }
    ///
    /// fn around(inner: Arc<dyn Store>) -> Arc<dyn Store> {
    ///     Arc::new(Bounded { inner, full: AtomicBool::new(false) })
    /// }
    /// ```
    forwarded {
        TaskStore {
            fn create(new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>>;
            fn find_by_idempotency_key(principal: &Principal, tool: &str, key: &str, digest: Option<[u8; 32]>) -> BoxFuture<'_, Result<Option<Task>, StoreError>>;
            fn write_call(call: UnwrittenCall, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>>;
            fn apply(change: Change) -> BoxFuture<'_, Result<Task, ApplyError>>;
            fn held(node: NodeId, id: &TaskId) -> BoxFuture<'_, Result<Option<Claimed>, StoreError>>;
            fn get(scope: &Scope, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>>;
            fn get_unscoped(id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>>;
            fn versions(ids: &[TaskId]) -> BoxFuture<'_, Result<Vec<(TaskId, u64)>, StoreError>>;
            fn requestor(id: &TaskId) -> BoxFuture<'_, Result<Option<Json>, StoreError>>;
            fn arguments(id: &TaskId) -> BoxFuture<'_, Result<Option<Json>, StoreError>>;
            fn delete(host: &HostId, ids: Vec<TaskId>, at: UnixMillis) -> BoxFuture<'_, Result<usize, StoreError>>;
            fn delete_ended(host: &HostId, ids: Vec<TaskId>, at: UnixMillis) -> BoxFuture<'_, Result<usize, StoreError>>;
        }
        JournalStore {
            fn input(id: &TaskId, key: &InputKey) -> BoxFuture<'_, Result<Option<Input>, StoreError>>;
            fn inputs(id: &TaskId, limit: usize) -> BoxFuture<'_, Result<Vec<Input>, StoreError>>;
            fn journal(id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>>;
            fn emitted(id: &TaskId, after: u32, limit: usize) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>>;
        }
        QueueStore {
            fn put_spec(spec: ToolSpec) -> BoxFuture<'_, Result<(), StoreError>>;
            fn spec(id: &SpecId) -> BoxFuture<'_, Result<Option<ToolSpec>, StoreError>>;
            fn put_limit(tool: &str, concurrency: Option<usize>, per_group: Option<usize>) -> BoxFuture<'_, Result<(), StoreError>>;
            fn fill_groups() -> BoxFuture<'_, Result<usize, StoreError>>;
            fn limits() -> BoxFuture<'_, Result<Vec<ToolLimit>, StoreError>>;
            fn set_paused(tool: &str, paused: bool) -> BoxFuture<'_, Result<(), StoreError>>;
            fn paused() -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>>;
            fn share_permits(node: NodeId, report: PermitReport) -> BoxFuture<'_, Result<Vec<Permits>, StoreError>>;
            fn claim(claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>>;
            fn queued_tools() -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>>;
            fn next_ready(tool: &str, at: UnixMillis) -> BoxFuture<'_, Result<Option<QueuePlace>, StoreError>>;
            fn last_start(tool: &str) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>>;
            fn queued_before(task: &Task, most: usize) -> BoxFuture<'_, Result<usize, StoreError>>;
        }
        TimerStore {
            fn next_wake() -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>>;
            fn make_timers_due(at: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>>;
            fn newest_created_at() -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>>;
            fn expired(at: UnixMillis, limit: usize) -> BoxFuture<'_, Result<Vec<TaskId>, StoreError>>;
        }
        LeaseStore {
            fn open_node(new: &NewNode, at: UnixMillis) -> BoxFuture<'_, Result<Lease, StoreError>>;
            fn renew(node: NodeId) -> BoxFuture<'_, Result<Renewal, StoreError>>;
            fn end_lease(node: NodeId) -> BoxFuture<'_, Result<(), StoreError>>;
            fn await_earlier_writes(node: NodeId) -> BoxFuture<'_, Result<(), StoreError>>;
            fn give_up_host(node: NodeId) -> BoxFuture<'_, Result<(), GiveUpError>>;
            fn nodes() -> BoxFuture<'_, Result<Vec<NodeStatus>, StoreError>>;
            fn adopt(node: NodeId, host: &HostId, limit: usize, at: UnixMillis) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>>;
            fn reclaim(node: NodeId, host: &HostId, lost_for: Millis, limit: usize, at: UnixMillis) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>>;
            fn tombstones(host: &HostId, limit: usize) -> BoxFuture<'_, Result<Vec<TaskId>, StoreError>>;
            fn remove_tombstones(host: &HostId, ids: Vec<TaskId>) -> BoxFuture<'_, Result<(), StoreError>>;
            fn record_removal() -> BoxFuture<'_, Result<(), StoreError>>;
            fn send(to: Option<NodeId>, text: Arc<str>) -> BoxFuture<'_, Result<(), StoreError>>;
        }
        SessionStore {
            fn end_session(session: &SessionKey, until: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>>;
            fn session_ended(session: &SessionKey) -> BoxFuture<'_, Result<bool, StoreError>>;
            fn signing_keys(purpose: &str, fresh: SigningKey) -> BoxFuture<'_, Result<Vec<SigningKey>, StoreError>>;
        }
        SearchStore {
            fn find(lookup: TaskLookup, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>>;
            fn search(search: TaskSearch) -> BoxFuture<'_, Result<FoundTasks, StoreError>>;
            fn list(scope: &Scope, before: Option<&TaskId>, limit: usize) -> BoxFuture<'_, Result<Page, StoreError>>;
            fn counts() -> BoxFuture<'_, Result<Counts, StoreError>>;
            fn live_tasks() -> BoxFuture<'_, Result<Vec<LiveTasks>, StoreError>>;
            fn usage(of: Option<&Principal>) -> BoxFuture<'_, Result<Usage, StoreError>>;
        }
        ScheduleStore {
            fn put_schedules(schedules: Vec<NewSchedule>) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>>;
            fn remove_schedules(names: Vec<Arc<str>>) -> BoxFuture<'_, Result<(), StoreError>>;
            fn schedules(after: Option<&str>, limit: usize) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>>;
            fn schedule(name: &str) -> BoxFuture<'_, Result<Option<ScheduleRecord>, StoreError>>;
            fn advance_schedule(name: &str, plan: &str, advance: ScheduleAdvance) -> BoxFuture<'_, Result<bool, StoreError>>;
            fn set_schedule_paused(name: &str, paused: bool) -> BoxFuture<'_, Result<bool, StoreError>>;
        }
    }
    at once {
        fn listen(listener: StoreListener);
        fn capabilities() -> StoreCapabilities;
        fn refuses_payloads() -> bool;
        fn health() -> StoreHealth;
        fn commit_counts() -> CommitCounts;
    }
}

//! A call of the store and its answer, as values.

use crate::contract::fixture::host;
use longhaul_core::{
    Entry, HostId, Input, InputKey, Json, NodeId, Principal, Scope, SessionKey, SpecId, Store, Task, TaskId, ToolSpec,
    UnixMillis, Usage,
    store::{
        ApplyError, Change, Claim, Claimed, Counts, CreateError, Created, FoundTasks, HeldAttempt, Idempotency,
        LiveTasks, NewTask, Page, Record, SigningKey, StoreError, TaskSearch,
    },
};
use std::sync::Arc;

#[derive(Debug, Clone)]
pub(crate) enum StoreCall {
    /// The node before gives up its lease.
    OpenNode(NodeId, HostId, UnixMillis),
    Renew(NodeId),
    Held(NodeId, TaskId),
    PutSpec(ToolSpec),
    Spec(SpecId),
    Create(Box<NewTask>),
    Apply(Change),
    Claim(Claim),
    Adopt(NodeId, HostId, usize, UnixMillis),
    OrphanedCalls(NodeId, usize),
    QueuedTools,
    NextReady(Arc<str>),
    Get(Scope, TaskId),
    GetUnscoped(TaskId),
    Keyed(Principal, Arc<str>, Idempotency),
    Answer(TaskId, InputKey),
    Journal(TaskId, u32, usize),
    Emitted(TaskId, u32, usize),
    Children(TaskId, usize),
    StartedBy(TaskId, Option<TaskId>, usize),
    ChildrenOfFinishedParents(usize),
    Blocked(Option<TaskId>, usize),
    Requestor(TaskId),
    Arguments(TaskId),
    Search(Box<TaskSearch>),
    Usage(Option<Principal>),
    List(Scope, Option<TaskId>, usize),
    Live(Principal, SessionKey, Option<TaskId>, usize),
    Due(UnixMillis, usize),
    NextWake,
    Expired(UnixMillis, usize),
    Delete(Vec<TaskId>, UnixMillis),
    DeleteEnded(Vec<TaskId>, UnixMillis),
    Counts,
    LiveTasks,
    SigningKeys(&'static str, SigningKey),
    EndSession(SessionKey, UnixMillis),
    SessionEnded(SessionKey),
    Reopen,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    Nothing,
    Node(NodeId),
    Spec(Option<ToolSpec>),
    Created(Created),
    Task(Task),
    Tasks(Vec<Task>),
    Claimed(Vec<Claimed>),
    Held(Vec<HeldAttempt>),
    Tools(Vec<Arc<str>>),
    Timestamp(Option<UnixMillis>),
    Record(Option<Record>),
    Input(Option<Input>),
    Entries(Vec<Entry>),
    Json(Option<Json>),
    Page(Page),
    Found(FoundTasks),
    Ids(Vec<TaskId>),
    Number(usize),
    Counts(Counts),
    LiveTasks(Vec<LiveTasks>),
    Usage(Usage),
    Keys(Vec<SigningKey>),
    Truth(bool),
}

/// Why an operation was refused.
#[derive(Debug, PartialEq)]
pub(crate) enum Refusal {
    Create(CreateError),
    Apply(ApplyError),
    Store(StoreError),
}

impl From<CreateError> for Refusal {
    fn from(error: CreateError) -> Self {
        Self::Create(error)
    }
}

impl From<ApplyError> for Refusal {
    fn from(error: ApplyError) -> Self {
        Self::Apply(error)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Runs one operation.
pub(crate) async fn perform(store: &dyn Store, step: &StoreCall) -> Result<Answer, Refusal> {
    Ok(match step.clone() {
        StoreCall::OpenNode(before, host, at) => {
            store.end_lease(before).await?;
            Answer::Node(store.open_node(&host.clone().into(), at).await?.node)
        }
        StoreCall::Renew(node) => Answer::Held(store.renew(node).await?.held),
        StoreCall::Held(node, id) => Answer::Claimed(store.held(node, &id).await?.into_iter().collect()),
        StoreCall::PutSpec(spec) => {
            store.put_spec(spec).await?;
            Answer::Nothing
        }
        StoreCall::Spec(id) => Answer::Spec(store.spec(&id).await?),
        StoreCall::Create(new) => Answer::Created(store.create(*new).await?),
        StoreCall::Apply(change) => Answer::Task(store.apply(change).await?),
        StoreCall::Claim(claim) => Answer::Claimed(store.claim(claim).await?),
        StoreCall::Adopt(node, host, limit, at) => Answer::Claimed(store.adopt(node, &host, limit, at).await?),
        StoreCall::OrphanedCalls(node, limit) => Answer::Tasks(store.orphaned_calls(node, limit).await?),
        StoreCall::QueuedTools => {
            let mut tools = store.queued_tools().await?;
            tools.sort();
            Answer::Tools(tools)
        }
        StoreCall::NextReady(tool) => Answer::Timestamp(store.next_ready(&tool).await?),
        StoreCall::Get(scope, id) => Answer::Record(store.get(&scope, &id).await?),
        StoreCall::Keyed(principal, tool, idempotency) => Answer::Tasks(
            store
                .find_by_idempotency_key(&principal, &tool, &idempotency.key, Some(idempotency.digest))
                .await?
                .into_iter()
                .collect(),
        ),
        StoreCall::GetUnscoped(id) => Answer::Record(store.get_unscoped(&id).await?),
        StoreCall::Answer(id, key) => Answer::Input(store.input(&id, &key).await?),
        StoreCall::Journal(id, after, limit) => Answer::Entries(store.journal(&id, after, limit).await?),
        StoreCall::Emitted(id, after, limit) => Answer::Entries(store.emitted(&id, after, limit).await?),
        StoreCall::Children(parent, limit) => Answer::Tasks(store.children(&parent, limit).await?),
        StoreCall::StartedBy(parent, after, limit) => {
            Answer::Tasks(store.started_by(&parent, after.as_ref(), limit).await?)
        }
        StoreCall::ChildrenOfFinishedParents(limit) => Answer::Tasks(store.children_of_finished_parents(limit).await?),
        StoreCall::Blocked(after, limit) => Answer::Tasks(store.blocked(after.as_ref(), limit).await?),
        StoreCall::Requestor(id) => Answer::Json(store.requestor(&id).await?),
        StoreCall::Arguments(id) => Answer::Json(store.arguments(&id).await?),
        StoreCall::Search(search) => Answer::Found(store.search(*search).await?),
        StoreCall::Usage(of) => Answer::Usage(store.usage(of.as_ref()).await?),
        StoreCall::List(scope, before, limit) => Answer::Page(store.list(&scope, before.as_ref(), limit).await?),
        StoreCall::Live(owner, session, after, limit) => {
            Answer::Tasks(store.live_in_session(&owner, &session, after.as_ref(), limit).await?)
        }
        StoreCall::Due(at, limit) => Answer::Tasks(store.due_timers(at, limit).await?),
        StoreCall::NextWake => Answer::Timestamp(store.next_wake().await?),
        StoreCall::Expired(at, limit) => Answer::Ids(store.expired(at, limit).await?),
        StoreCall::Delete(ids, at) => Answer::Number(store.delete(&host(), ids, at).await?),
        StoreCall::DeleteEnded(ids, at) => Answer::Number(store.delete_ended(&host(), ids, at).await?),
        StoreCall::Counts => Answer::Counts(store.counts().await?),
        StoreCall::LiveTasks => Answer::LiveTasks(store.live_tasks().await?),
        StoreCall::SigningKeys(purpose, fresh) => Answer::Keys(store.signing_keys(purpose, fresh).await?),
        StoreCall::EndSession(session, until) => {
            store.end_session(&session, until).await?;
            Answer::Nothing
        }
        StoreCall::SessionEnded(session) => Answer::Truth(store.session_ended(&session).await?),
        StoreCall::Reopen => Answer::Nothing,
    })
}

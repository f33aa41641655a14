//! A call of the store and its answer, as values.

use crate::contract::fixture::host;
use longhaul_core::{
    Entry, HostId, Input, InputKey, Json, NodeId, Principal, Scope, SessionKey, SpecId, Store, Task, TaskId, ToolSpec,
    UnixMillis, Usage,
    store::{
        ApplyError, Change, Claim, Claimed, Counts, CreateError, Created, FoundTasks, HeldAttempt, Idempotency,
        LiveTasks, NewSchedule, NewTask, Page, QueuePlace, Record, ScheduleAdvance, ScheduleRecord, SigningKey,
        StoreError, TaskLookup, TaskSearch,
    },
};
use std::sync::Arc;

/// What most schedules of a run have as their plan.
pub(crate) const SCHEDULE_PLAN: &str = "plan";

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
    /// Of each group.
    PutLimit(Arc<str>, Option<usize>),
    FillGroups,
    Adopt(NodeId, HostId, usize, UnixMillis),
    QueuedTools,
    NextReady(Arc<str>, UnixMillis),
    Get(Scope, TaskId),
    GetUnscoped(TaskId),
    Keyed(Principal, Arc<str>, Idempotency),
    Answer(TaskId, InputKey),
    Journal(TaskId, u32, usize),
    Emitted(TaskId, u32, usize),
    Requestor(TaskId),
    Arguments(TaskId),
    Find(TaskLookup, usize),
    Search(Box<TaskSearch>),
    Usage(Option<Principal>),
    List(Scope, Option<TaskId>, usize),
    NextWake,
    Expired(UnixMillis, usize),
    Delete(Vec<TaskId>, UnixMillis),
    DeleteEnded(Vec<TaskId>, UnixMillis),
    Counts,
    LiveTasks,
    SigningKeys(&'static str, SigningKey),
    EndSession(SessionKey, UnixMillis),
    SessionEnded(SessionKey),
    PutSchedules(Vec<NewSchedule>),
    Schedules(Option<Arc<str>>, usize),
    AdvanceSchedule(Arc<str>, ScheduleAdvance),
    PauseSchedule(Arc<str>, bool),
    RemoveSchedule(Arc<str>),
    Reopen,
}

#[derive(Debug, PartialEq)]
pub(crate) enum StepAnswer {
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
    Place(Option<QueuePlace>),
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
    Schedules(Vec<ScheduleRecord>),
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
pub(crate) async fn perform(store: &dyn Store, step: &StoreCall) -> Result<StepAnswer, Refusal> {
    Ok(match step.clone() {
        StoreCall::OpenNode(before, host, at) => {
            store.end_lease(before).await?;
            StepAnswer::Node(store.open_node(&host.clone().into(), at).await?.node)
        }
        StoreCall::Renew(node) => StepAnswer::Held(store.renew(node).await?.held),
        StoreCall::Held(node, id) => StepAnswer::Claimed(store.held(node, &id).await?.into_iter().collect()),
        StoreCall::PutSpec(spec) => {
            store.put_spec(spec).await?;
            StepAnswer::Nothing
        }
        StoreCall::Spec(id) => StepAnswer::Spec(store.spec(&id).await?),
        StoreCall::Create(new) => StepAnswer::Created(store.create(*new).await?),
        StoreCall::Apply(change) => StepAnswer::Task(store.apply(change).await?),
        StoreCall::PutLimit(tool, per_group) => {
            store.put_limit(&tool, None, per_group).await?;
            StepAnswer::Nothing
        }
        StoreCall::FillGroups => StepAnswer::Number(store.fill_groups().await?),
        StoreCall::Claim(claim) => StepAnswer::Claimed(store.claim(claim).await?),
        StoreCall::Adopt(node, host, limit, at) => StepAnswer::Claimed(store.adopt(node, &host, limit, at).await?),
        StoreCall::QueuedTools => {
            let mut tools = store.queued_tools().await?;
            tools.sort();
            StepAnswer::Tools(tools)
        }
        StoreCall::NextReady(tool, at) => StepAnswer::Place(store.next_ready(&tool, at).await?),
        StoreCall::Get(scope, id) => StepAnswer::Record(store.get(&scope, &id).await?),
        StoreCall::Keyed(principal, tool, idempotency) => StepAnswer::Tasks(
            store
                .find_by_idempotency_key(&principal, &tool, &idempotency.key, Some(idempotency.digest))
                .await?
                .into_iter()
                .collect(),
        ),
        StoreCall::GetUnscoped(id) => StepAnswer::Record(store.get_unscoped(&id).await?),
        StoreCall::Answer(id, key) => StepAnswer::Input(store.input(&id, &key).await?),
        StoreCall::Journal(id, after, limit) => StepAnswer::Entries(store.journal(&id, after, limit).await?),
        StoreCall::Emitted(id, after, limit) => StepAnswer::Entries(store.emitted(&id, after, limit).await?),
        StoreCall::Requestor(id) => StepAnswer::Json(store.requestor(&id).await?),
        StoreCall::Arguments(id) => StepAnswer::Json(store.arguments(&id).await?),
        StoreCall::Search(search) => StepAnswer::Found(store.search(*search).await?),
        StoreCall::Usage(of) => StepAnswer::Usage(store.usage(of.as_ref()).await?),
        StoreCall::List(scope, before, limit) => StepAnswer::Page(store.list(&scope, before.as_ref(), limit).await?),
        StoreCall::Find(lookup, limit) => StepAnswer::Tasks(store.find(lookup, limit).await?),
        StoreCall::NextWake => StepAnswer::Timestamp(store.next_wake().await?),
        StoreCall::Expired(at, limit) => StepAnswer::Ids(store.expired(at, limit).await?),
        StoreCall::Delete(ids, at) => StepAnswer::Number(store.delete(&host(), ids, at).await?),
        StoreCall::DeleteEnded(ids, at) => StepAnswer::Number(store.delete_ended(&host(), ids, at).await?),
        StoreCall::Counts => StepAnswer::Counts(store.counts().await?),
        StoreCall::LiveTasks => StepAnswer::LiveTasks(store.live_tasks().await?),
        StoreCall::SigningKeys(purpose, fresh) => StepAnswer::Keys(store.signing_keys(purpose, fresh).await?),
        StoreCall::EndSession(session, until) => {
            store.end_session(&session, until).await?;
            StepAnswer::Nothing
        }
        StoreCall::SessionEnded(session) => StepAnswer::Truth(store.session_ended(&session).await?),
        StoreCall::PutSchedules(schedules) => StepAnswer::Schedules(store.put_schedules(schedules).await?),
        StoreCall::Schedules(after, limit) => StepAnswer::Schedules(store.schedules(after.as_deref(), limit).await?),
        StoreCall::AdvanceSchedule(name, advance) => {
            StepAnswer::Truth(store.advance_schedule(&name, SCHEDULE_PLAN, advance).await?)
        }
        StoreCall::PauseSchedule(name, paused) => StepAnswer::Truth(store.set_schedule_paused(&name, paused).await?),
        StoreCall::RemoveSchedule(name) => {
            store.remove_schedules(vec![name]).await?;
            StepAnswer::Nothing
        }
        StoreCall::Reopen => StepAnswer::Nothing,
    })
}

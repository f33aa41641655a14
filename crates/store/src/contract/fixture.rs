//! Short constructors of tasks and changes.

use super::NewSubject;
use longhaul_core::{
    AnsweredBy, AttemptEnd, Block, BlockReason, Entry, EntryKey, EntryKind, Event, Fence, HostId, Input, InputKey,
    Json, Millis, NodeId, Origin, Outcome, Owner, Principal, RpcFailure, Scope, SessionKey, SpecId, StartRate, Store,
    Task, TaskHeader, TaskId, ToolSpec, UnixMillis,
    store::{ApplyError, Change, Claim, Claimed, Created, NewTask, Record},
};
use std::sync::Arc;

pub(super) use super::Subject;

pub(super) const HOUR: Millis = 3_600_000;

/// A subject with one node and one definition.
pub(super) struct Fixture {
    pub(super) subject: Box<dyn Subject>,
    pub(super) store: Arc<dyn Store>,
    pub(super) node: NodeId,
}

impl Fixture {
    pub(super) async fn new(new_subject: NewSubject) -> Self {
        let subject = new_subject().await;
        let store = subject.store();
        store.put_spec(spec("spec")).await.expect("a definition is put");
        let lease = store.open_node(&host().into(), UnixMillis(0)).await;
        let node = lease.expect("a node is opened").node;
        Self { subject, store, node }
    }

    /// Closes and opens the store, and continues as the next node.
    pub(super) async fn restart(mut self) -> Self {
        self.store.end_lease(self.node).await.expect("a lease ends");
        drop(self.store);
        self.subject.reopen().await;
        self.store = self.subject.store();
        self.node = self
            .store
            .open_node(&host().into(), UnixMillis(0))
            .await
            .expect("a node is opened")
            .node;
        self
    }

    pub(super) async fn create(&self, new: NewTask) -> Task {
        match self.store.create(new).await {
            Ok(Created::New(task)) => task,
            other => panic!("a task is created, and not {other:?}"),
        }
    }

    /// A task whose attempt runs on this node.
    pub(super) async fn running(&self, name: &str, at: i64) -> (Task, Fence) {
        let mut new = new_task(name, self.node, at);
        new.claim = Some((self.node, None));
        let task = self.create(new).await;
        let fence = fence(&task);
        (task, fence)
    }

    pub(super) async fn apply(
        &self,
        id: &TaskId,
        fence: Option<Fence>,
        events: Vec<Event>,
        at: i64,
    ) -> Result<Task, ApplyError> {
        self.store.apply(change(id, fence, events, at)).await
    }

    /// The `nth` question of a task.
    pub(super) async fn input(&self, task: &TaskId, nth: u32) -> Option<Input> {
        self.store.input(task, &InputKey::nth(nth)).await.expect("a read")
    }

    pub(super) async fn get_unscoped(&self, id: &TaskId) -> Record {
        self.store
            .get_unscoped(id)
            .await
            .expect("a task is read")
            .expect("the task exists")
    }

    pub(super) async fn journal(&self, id: &TaskId) -> Vec<Entry> {
        self.store.journal(id, 0, 1_000).await.expect("a journal is read")
    }

    pub(super) async fn get(&self, who: &str, id: &TaskId) -> Option<Record> {
        self.store.get(&scope(who), id).await.expect("a task is read")
    }

    pub(super) async fn claim(&self, tool: &str, limit: usize, at: i64) -> Vec<Claimed> {
        self.claim_at_rate(tool, None, limit, at).await
    }

    pub(super) async fn claim_at_rate(
        &self,
        tool: &str,
        rate: Option<StartRate>,
        limit: usize,
        at: i64,
    ) -> Vec<Claimed> {
        let claim = Claim {
            tool: tool.into(),
            node: self.node,
            host: None,
            limit,
            at: UnixMillis(at),
            rate,
        };
        self.store.claim(claim).await.expect("a claim is answered")
    }
}

/// Ids of equal length, in the order of their names.
pub(super) fn id(name: &str) -> TaskId {
    name.parse().expect("a task id")
}

pub(crate) fn host() -> HostId {
    HostId("here".into())
}

pub(super) fn scope(who: &str) -> Scope {
    Scope::of(Principal::named(who))
}

pub(crate) fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        id: SpecId::named(name),
        kind: "command".into(),
        definition: Json::trusted(format!(r#"{{"command":["{name}"]}}"#)),
    }
}

/// An announced task of `alice`, in the queue of `tool`, with a retention of an hour.
pub(crate) fn new_task(name: &str, accepted_by: NodeId, at: i64) -> NewTask {
    NewTask {
        header: TaskHeader {
            id: id(name),
            owner: Owner {
                principal: Principal::named("alice"),
                session: None,
            },
            tool: "tool".into(),
            spec: SpecId::named("spec"),
            origin: Origin::Modern,
            accepted_by,
            created_at: UnixMillis(at),
            deadline: None,
            queue_timeout: None,
            retention: HOUR,
            lineage: None,
            labels: longhaul_core::Labels::default(),
            group: None,
        },
        announced: true,
        in_memory: false,
        priority: longhaul_core::Priority::default(),
        arguments: Json::trusted(format!(r#"{{"of":"{name}"}}"#)),
        requestor: Json::trusted(format!(r#"{{"by":"{name}"}}"#)),
        claim: None,
        confirmation: None,
        outcome: None,
        idempotency: None,
        unique: None,
        quota: longhaul_core::Quota::default(),
        parent: None,
        history: None,
        replaces: None,
        schedule: None,
    }
}

pub(super) fn of_session(mut new: NewTask, session: &str) -> NewTask {
    new.header.owner.session = Some(SessionKey::named(session));
    new
}

pub(crate) fn change(id: &TaskId, fence: Option<Fence>, events: Vec<Event>, at: i64) -> Change {
    Change {
        task: id.clone(),
        fence,
        events,
        at: UnixMillis(at),
        number: None,
        can_wait: false,
    }
}

pub(crate) fn fence(task: &Task) -> Fence {
    task.active_attempt().expect("an active attempt").fence()
}

pub(super) fn answer_text(text: &str) -> Outcome {
    Outcome::result(Json::from(
        serde_json::json!({"content": [{"type": "text", "text": text}]}),
    ))
}

pub(crate) fn finished(text: &str) -> Event {
    Event::AttemptEnded(AttemptEnd::Finished(answer_text(text)))
}

pub(crate) fn asked(nth: u32) -> Event {
    Event::InputRequested {
        key: InputKey::nth(nth),
        name: (nth % 2 == 1).then(|| "odd".into()),
        request: Json::trusted(format!(r#"{{"method":"elicitation/create","params":{{"nth":{nth}}}}}"#)),
    }
}

pub(crate) fn answered(nth: u32, text: &str) -> Event {
    Event::InputAnswered {
        key: InputKey::nth(nth),
        answer: Json::trusted(format!(r#"{{"action":"accept","content":{{"is":"{text}"}}}}"#)),
        by: AnsweredBy::Client,
    }
}

/// The result of a step called `name`.
pub(crate) fn step(seq: u32, name: &str) -> Entry {
    Entry {
        seq,
        key: EntryKey {
            path: "".into(),
            kind: EntryKind::Step,
            name: name.into(),
            nth: 1,
        },
        beside: false,
        value: Json::trusted(format!(r#"{{"is":{seq}}}"#)),
        at: UnixMillis(2),
        epoch: 1,
    }
}

/// Drives futures concurrently: each has started before the first is awaited.
pub(super) async fn together<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
    use std::{pin::Pin, task::Poll};
    let mut answers: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, answer) in futures.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let Poll::Ready(ready) = Pin::new(future).poll(context)
            {
                *answer = Some(ready);
            }
        }
        if answers.iter().all(Option::is_some) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    answers.into_iter().flatten().collect()
}

/// The end of an attempt of `code` that could not go on.
pub(crate) fn block(code: &str, retry_at: i64, until: i64) -> Event {
    Event::AttemptEnded(AttemptEnd::Blocked(Block {
        reason: BlockReason::NonDeterminism,
        failure: RpcFailure {
            code: -32603,
            message: "na\u{ef}ve \u{1F40C}".into(),
            data: Some(Json::trusted(r#"{"reason":"diverged"}"#)),
        },
        code: code.into(),
        retry_at: UnixMillis(retry_at),
        until: UnixMillis(until),
    }))
}

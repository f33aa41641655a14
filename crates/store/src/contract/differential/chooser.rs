//! Chooses the next step: likely ones, unlikely ones, and sometimes an illegal one.

mod events;
mod keys;
mod schedules;

use super::step::{Refusal, StepAnswer, StoreCall};
use crate::MemoryStore;
use fastrand::Rng;
use longhaul_core::{
    AnsweredBy, AttemptEnd, CancelMode, ChildEntry, Entry, EntryKey, EntryKind, Event, Fence, HostId, Input, InputKey,
    InputState, Json, Label, Labels, Lineage, NodeId, Origin, Owner, Principal, Priority, Quota, Scope, SessionKey,
    SpecId, State, Task, TaskHeader, TaskId, ToolSpec, UnixMillis, Verdict,
    store::{
        Change, Claim, Created, History, NewTask, ParentEntry, SearchOrder, SearchStore, SigningKey, TaskFilter,
        TaskLookup, TaskSearch, TaskStore,
    },
};

const TOOLS: [&str; 3] = ["hash", "pack", "hash_all"];
const PRINCIPALS: [&str; 3] = ["alice", "bob", "local"];
const SESSIONS: [&str; 2] = ["s1", "s2"];
const SPECS: [&str; 3] = ["one", "two", "never put"];
const NAMES: [&str; 2] = ["which licence", "who"];
const LABELS: [&str; 4] = ["team=infra", "team=web", "env=prod", "env=a b, c"];
const HOSTS: [&str; 2] = ["here", "there"];
/// A run mostly picks its latest tasks, so that they make progress.
const LATEST: usize = 12;

pub(crate) struct Chooser {
    rng: Rng,
    now: i64,
    node: i64,
    ids: Vec<TaskId>,
    answered: Vec<(TaskId, InputKey)>,
    parents: Vec<TaskId>,
    emitters: Vec<TaskId>,
    blocked: Vec<TaskId>,
    setup: Vec<StoreCall>,
}

impl Chooser {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            now: 1_000,
            node: 0,
            ids: Vec::new(),
            answered: Vec::new(),
            parents: Vec::new(),
            emitters: Vec::new(),
            blocked: Vec::new(),
            setup: vec![
                StoreCall::OpenNode(NodeId(0), HostId(HOSTS[0].into()), UnixMillis(1)),
                StoreCall::PutSpec(spec(SPECS[0])),
                StoreCall::PutSpec(spec(SPECS[1])),
                StoreCall::PutLimit(TOOLS[0].into(), Some(1)),
                StoreCall::PutLimit(TOOLS[1].into(), Some(2)),
                // Later there are always some.
                StoreCall::Find(TaskLookup::ChildrenOfFinishedParents, 1),
            ],
        }
    }

    pub(crate) fn learn(&mut self, step: &StoreCall, answer: &Result<StepAnswer, Refusal>) {
        match (step, answer) {
            (StoreCall::OpenNode(..), Ok(StepAnswer::Node(node))) => self.node = node.0,
            (StoreCall::Create(_), Ok(StepAnswer::Created(Created::New(task)))) => {
                self.ids.push(task.id.clone());
                self.parents
                    .extend(task.lineage.as_ref().map(|lineage| lineage.parent.clone()));
            }
            (StoreCall::Apply(change), Ok(_)) => {
                let keys = change.events.iter().filter_map(|event| match event {
                    Event::InputAnswered { key, .. } => Some(key.clone()),
                    _ => None,
                });
                self.answered.extend(keys.map(|key| (change.task.clone(), key)));
                let emits =
                    |event: &Event| matches!(event, Event::Journaled(entry) if entry.key.kind == EntryKind::Emit);
                self.emitters
                    .extend(change.events.iter().any(emits).then(|| change.task.clone()));
                let blocks = |event: &Event| matches!(event, Event::AttemptEnded(AttemptEnd::Blocked(_)));
                self.blocked
                    .extend(change.events.iter().any(blocks).then(|| change.task.clone()));
            }
            _ => {}
        }
    }

    /// Every task there ever was, oldest first.
    pub(super) fn ids(&self) -> &[TaskId] {
        &self.ids
    }

    pub(super) fn every_get(&self, id: &TaskId) -> Vec<StoreCall> {
        let get = |who: &&'static str| StoreCall::Get(Scope::of(Principal::named(*who)), id.clone());
        PRINCIPALS.iter().map(get).collect()
    }

    pub(super) fn every_question(&self) -> Vec<StoreCall> {
        let node = NodeId(self.node);
        let now = UnixMillis(self.now);
        let mut all = vec![
            StoreCall::Counts,
            StoreCall::LiveTasks,
            StoreCall::QueuedTools,
            StoreCall::NextWake,
            StoreCall::Find(TaskLookup::DueTimers(now), 10_000),
            StoreCall::Expired(now, 10_000),
            StoreCall::Find(TaskLookup::OrphanedCalls(node), 10_000),
            StoreCall::Find(TaskLookup::ChildrenOfFinishedParents, 10_000),
            StoreCall::Find(TaskLookup::BlockedAfter(None), 10_000),
        ];
        all.extend(TOOLS.map(|tool| StoreCall::NextReady(tool.into(), now)));
        all.extend(SPECS.map(|name| StoreCall::Spec(SpecId::named(name))));
        all.extend(SESSIONS.map(|name| StoreCall::SessionEnded(SessionKey::named(name))));
        all.push(StoreCall::Schedules(None, 10_000));
        all.push(StoreCall::Usage(None));
        all.extend(PRINCIPALS.map(|who| StoreCall::Usage(Some(Principal::named(who)))));
        all.extend(PRINCIPALS.map(|who| StoreCall::List(Scope::of(Principal::named(who)), None, 10_000)));
        all
    }

    pub(crate) async fn next(&mut self, model: &MemoryStore) -> StoreCall {
        if let Some(step) = self.setup.pop() {
            return step;
        }
        self.pass_time();
        let now = UnixMillis(self.now);
        let limit = self.rng.usize(0..4);
        match self.rng.u32(0..1000) {
            0..150 => StoreCall::Create(Box::new(self.new_task(model).await)),
            150..600 => StoreCall::Apply(self.change(model).await),
            600..680 => StoreCall::Claim(Claim {
                tool: self.pick(&TOOLS).into(),
                node: NodeId(self.node),
                host: self.host(),
                limit,
                at: now,
                rate: self.one_in(4).then(|| "10/s".parse().ok()).flatten(),
            }),
            680..700 => StoreCall::OpenNode(NodeId(self.node), HostId(self.pick(&HOSTS).into()), now),
            700..720 => StoreCall::Adopt(NodeId(self.node), HostId(self.pick(&HOSTS).into()), limit, now),
            720..730 => StoreCall::Find(TaskLookup::OrphanedCalls(NodeId(self.node)), limit),
            730..735 => StoreCall::Renew(NodeId(self.node - i64::from(self.one_in(4)))),
            735..740 => StoreCall::Held(NodeId(self.node), self.id()),
            740..750 => StoreCall::QueuedTools,
            750..765 => StoreCall::NextReady(self.pick(&TOOLS).into(), now),
            765..800 => StoreCall::Get(self.scope(), self.id()),
            800..810 => StoreCall::GetUnscoped(self.id_or_unknown()),
            810..815 => StoreCall::Keyed(
                Principal::named(self.pick(&PRINCIPALS)),
                self.pick(&TOOLS).into(),
                self.any_idempotency(),
            ),
            815..840 => self.question(),
            840..842 => StoreCall::Requestor(self.id_or_unknown()),
            842..844 => StoreCall::Arguments(self.id_or_unknown()),
            844..846 => StoreCall::Journal(self.parent_or_any(), self.rng.u32(0..3), limit),
            846..850 => StoreCall::Emitted(self.emitter_or_any(), self.rng.u32(0..3), limit),
            850..852 => StoreCall::Find(TaskLookup::ChildrenOf(self.parent_or_any()), limit),
            852..855 => {
                let parent = self.parent_or_any();
                let after = self.rng.bool().then(|| self.id());
                StoreCall::Find(TaskLookup::StartedBy { parent, after }, limit)
            }
            855..856 => StoreCall::Find(TaskLookup::ChildrenOfFinishedParents, limit),
            856..858 => StoreCall::Find(TaskLookup::BlockedAfter(self.rng.bool().then(|| self.id())), limit),
            858..862 => StoreCall::Search(Box::new(self.search(limit + 1))),
            862..867 => {
                let limit = if self.one_in(4) { 10_000 } else { limit };
                StoreCall::List(self.scope(), self.rng.bool().then(|| self.id()), limit)
            }
            867..872 => {
                let owner = Principal::named(self.pick(&PRINCIPALS));
                let (session, after) = (self.session(), self.rng.bool().then(|| self.id()));
                StoreCall::Find(TaskLookup::LiveInSession { owner, session, after }, limit)
            }
            872..880 => StoreCall::Find(TaskLookup::DueTimers(now), limit),
            880..885 => StoreCall::NextWake,
            885..905 => StoreCall::Expired(now, limit),
            905..925 => StoreCall::Delete((0..self.rng.usize(0..6)).map(|_| self.any_id()).collect(), now),
            925..930 => StoreCall::DeleteEnded((0..self.rng.usize(0..3)).map(|_| self.any_id()).collect(), now),
            930..933 => StoreCall::Counts,
            933..935 => StoreCall::LiveTasks,
            935..940 => StoreCall::Usage(self.rng.bool().then(|| Principal::named(self.pick(&PRINCIPALS)))),
            940..950 => {
                let (id, secret) = (self.rng.u32(0..400), [self.rng.u8(..); 32]);
                StoreCall::SigningKeys(self.pick(&["cursor", "session"]), SigningKey { id, secret })
            }
            950..960 => StoreCall::EndSession(self.session(), UnixMillis(self.now + self.rng.i64(0..100_000))),
            960..975 => StoreCall::SessionEnded(self.session()),
            975..979 => StoreCall::PutSpec(spec(self.pick(&SPECS[..2]))),
            979..983 => self.group_call(),
            983..990 => self.schedule_call(model).await,
            990..993 => StoreCall::Spec(SpecId::named(self.pick(&SPECS))),
            _ => StoreCall::Reopen,
        }
    }

    fn pass_time(&mut self) {
        self.now += match self.rng.u32(0..100) {
            0..60 => self.rng.i64(0..3),
            60..97 => self.rng.i64(0..500),
            _ => self.rng.i64(0..100_000),
        };
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.usize(0..from.len())]
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.rng.u32(0..n) == 0
    }

    fn host(&mut self) -> Option<HostId> {
        self.rng.bool().then(|| HostId(self.pick(&HOSTS).into()))
    }

    fn session(&mut self) -> SessionKey {
        SessionKey::named(self.pick(&SESSIONS))
    }

    fn scope(&mut self) -> Scope {
        Scope {
            principal: Principal::named(if self.one_in(8) {
                "nobody"
            } else {
                self.pick(&PRINCIPALS)
            }),
            session: self.one_in(3).then(|| self.session()),
        }
    }

    /// Looks at as many tasks as it takes: how many these are depends on the indices of a store.
    fn search(&mut self, limit: usize) -> TaskSearch {
        let states = match self.rng.u32(0..5) {
            0 => vec![State::Queued, State::Running],
            1 => vec![State::Suspended, State::Blocked],
            2 => vec![
                State::Done(Verdict::ToolError),
                State::Done(Verdict::RpcError),
                State::Done(Verdict::Cancelled),
            ],
            3 => vec![State::Done(Verdict::Succeeded), State::Running],
            _ => Vec::new(),
        };
        let filter = TaskFilter {
            principal: self.one_in(3).then(|| Principal::named(self.pick(&PRINCIPALS))),
            tool: self.one_in(4).then(|| self.pick(&TOOLS).into()),
            tools: self
                .one_in(6)
                .then(|| vec![self.pick(&TOOLS).into(), self.pick(&TOOLS).into()]),
            states,
            origin: self.one_in(6).then_some(Origin::Legacy),
            parent: self.one_in(6).then(|| self.parent_or_any()),
            labels: match self.rng.u32(0..8) {
                0 => vec![self.label()],
                1 => vec![self.label(), self.label()],
                _ => Vec::new(),
            },
            asks: self.one_in(6),
            since: self.one_in(6).then(|| UnixMillis(self.now - self.rng.i64(0..1_000))),
            before: self.one_in(6).then(|| UnixMillis(self.now - self.rng.i64(0..1_000))),
            text: self.one_in(6).then(|| "E".to_owned()),
        };
        TaskSearch {
            filter,
            order: self.pick(&[SearchOrder::NewestFirst, SearchOrder::OldestFirst]),
            after: self.rng.bool().then(|| self.id()),
            limit,
            most_examined: usize::MAX,
        }
    }

    fn label(&mut self) -> Label {
        self.pick(&LABELS).parse().expect("a label")
    }

    fn key(&mut self) -> InputKey {
        InputKey::nth(self.rng.u32(1..5))
    }

    fn question(&mut self) -> StoreCall {
        match self.rng.choice(&self.answered) {
            Some((id, key)) if self.rng.bool() => StoreCall::Answer(id.clone(), key.clone()),
            _ => StoreCall::Answer(self.id(), self.key()),
        }
    }

    /// One of the latest, rarely an older one, or one that never was.
    fn id(&mut self) -> TaskId {
        if self.ids.is_empty() || self.one_in(30) {
            return fixed_id(1_000_000);
        }
        let oldest = if self.one_in(10) {
            0
        } else {
            self.ids.len().saturating_sub(LATEST)
        };
        self.ids[self.rng.usize(oldest..self.ids.len())].clone()
    }

    fn id_or_unknown(&mut self) -> TaskId {
        if self.one_in(6) { fixed_id(1_000_000) } else { self.id() }
    }

    /// One that has lately started another, if there is one.
    fn parent_or_any(&mut self) -> TaskId {
        let latest = self.parents.iter().rev().take(LATEST / 3);
        match self.rng.choice(latest.collect::<Vec<_>>()) {
            Some(parent) if self.rng.bool() => parent.clone(),
            _ => self.id_or_unknown(),
        }
    }

    /// One that has emitted output, if there is one.
    fn emitter_or_any(&mut self) -> TaskId {
        match self.rng.choice(&self.emitters) {
            Some(emitter) if self.rng.bool() => emitter.clone(),
            _ => self.id_or_unknown(),
        }
    }

    /// Sometimes the task that was blocked last: few are blocked, and not for long.
    fn blocked_or_any(&mut self) -> TaskId {
        match self.blocked.last() {
            Some(blocked) if self.rng.u32(0..20) == 0 => blocked.clone(),
            _ => self.id(),
        }
    }

    fn any_id(&mut self) -> TaskId {
        let unknown = || fixed_id(1_000_001);
        self.rng.choice(&self.ids).cloned().unwrap_or_else(unknown)
    }

    async fn new_task(&mut self, model: &MemoryStore) -> NewTask {
        let mut new = self.any_task();
        if self.one_in(3)
            && let Some((lineage, parent)) = self.parent(model, &new.id).await
        {
            new.header.lineage = Some(lineage);
            new.parent = Some(parent);
        } else if self.one_in(10) {
            self.replace(model, &mut new).await;
        }
        if self.one_in(6) {
            new.schedule = self.scheduled_start(model).await.map(Box::new);
        }
        if self.one_in(6) {
            new.quota = self.tight_quota(model, &new.owner.principal).await;
        }
        new
    }

    /// Has the new task take the place of another one, mostly of one of its principal's.
    async fn replace(&mut self, model: &MemoryStore, new: &mut NewTask) {
        let id = self.id_or_unknown();
        let record = model.get_unscoped(&id).await.ok().flatten();
        if let Some(record) = record.filter(|_| !self.one_in(6)) {
            new.header.owner.principal = record.task.owner.principal.clone();
        }
        let mode = self.pick(&[CancelMode::Cooperative, CancelMode::AtOnce]);
        let end = Change::of(&id, Event::CancelRequested(mode), UnixMillis(self.now));
        new.replaces = Some(Box::new(end));
    }

    /// Mostly one that can start a task.
    async fn parent(&mut self, model: &MemoryStore, child: &TaskId) -> Option<(Lineage, ParentEntry)> {
        let id = if self.one_in(30) {
            fixed_id(1_000_000)
        } else {
            self.id()
        };
        let task = model.get_unscoped(&id).await.ok().flatten().map(|record| record.task);
        let unheld = Fence {
            node: NodeId(self.node),
            epoch: 1,
        };
        let held = task
            .as_ref()
            .and_then(Task::active_attempt)
            .map(|attempt| attempt.fence());
        if task.is_some() && held.is_none() && !self.one_in(6) {
            return None;
        }
        let mut entry = self.entry(task.as_ref());
        entry.key.kind = EntryKind::Child;
        let started = ChildEntry {
            task: child.clone(),
            outcome: None,
        };
        entry.value = started.to_json();
        let lineage = Lineage {
            parent: id.clone(),
            entry: entry.seq,
            root: id,
            depth: self.rng.u32(1..9),
        };
        let fence = held.filter(|_| !self.one_in(20)).unwrap_or(unheld);
        Some((lineage, ParentEntry { fence, entry }))
    }

    /// Mostly the next one, sometimes one that is there, rarely one out of order.
    fn entry(&mut self, task: Option<&Task>) -> Entry {
        let next = task.map_or(0, |task| task.journaled) + 1;
        let seq = match self.rng.u32(0..20) {
            0 => next + 1,
            1 => 0,
            2..7 => self.rng.u32(1..=next),
            _ => next,
        };
        Entry {
            seq,
            key: EntryKey {
                path: self.pick(&["", "0", "1.0"]).into(),
                kind: self.pick(&EntryKind::ALL),
                name: self.pick(&NAMES).into(),
                nth: self.rng.u32(..),
            },
            beside: self.rng.bool(),
            value: self.json("value"),
            at: UnixMillis(self.now),
            epoch: task
                .and_then(|task| task.attempt.as_ref())
                .map_or(1, |attempt| attempt.epoch),
        }
    }

    /// One that is full, or nearly.
    async fn tight_quota(&mut self, model: &MemoryStore, principal: &Principal) -> Quota {
        let mine = model.usage(Some(principal)).await.unwrap_or_default();
        let all = model.usage(None).await.unwrap_or_default();
        let mut near = |has: u64, room: u64| self.one_in(3).then(|| has + self.rng.u64(0..room));
        Quota {
            live_per_principal: near(mine.live, 2),
            live_in_all: near(all.live, 2),
            bytes_per_principal: near(mine.bytes, 400),
            bytes_in_all: near(all.bytes, 400),
        }
    }

    fn any_task(&mut self) -> NewTask {
        let taken = !self.ids.is_empty() && self.one_in(40);
        let claimed = self.one_in(4);
        let over = self.one_in(12);
        NewTask {
            header: TaskHeader {
                id: if taken { self.any_id() } else { fixed_id(self.ids.len()) },
                owner: Owner {
                    principal: Principal::named(self.pick(&PRINCIPALS)),
                    session: self.rng.bool().then(|| self.session()),
                },
                tool: self.pick(&TOOLS).into(),
                spec: SpecId::named(if self.one_in(40) {
                    SPECS[2]
                } else {
                    self.pick(&SPECS[..2])
                }),
                origin: self.pick(&[Origin::Legacy, Origin::Modern]),
                accepted_by: NodeId(self.node),
                created_at: UnixMillis(self.now),
                deadline: self.length(),
                queue_timeout: self.length(),
                retention: self.pick(&[0, 1, 50, 1_000, 90_000, u64::MAX]),
                lineage: None,
                labels: Labels::new((0..self.rng.u32(0..3)).map(|_| self.label()).collect::<Vec<_>>()),
                group: self.group(),
            },
            announced: !self.one_in(4),
            in_memory: false,
            priority: Priority::new(self.pick(&[0, 0, 0, 3, 9])).unwrap_or_default(),
            arguments: self.json("arguments"),
            requestor: self.json("client"),
            claim: if claimed {
                Some((NodeId(self.node), self.host()))
            } else {
                None
            },
            confirmation: self.confirmation().map(Box::new),
            outcome: over.then(|| self.outcome()),
            idempotency: self.idempotency(),
            unique: self.uniqueness(),
            quota: Quota::default(),
            parent: None,
            history: if self.one_in(25) {
                self.history().map(Box::new)
            } else {
                None
            },
            replaces: None,
            schedule: None,
        }
    }

    /// As of a task that has asked a few questions, and whose journal is cut somewhere.
    fn history(&mut self) -> Option<History> {
        let entries = (1..=self.rng.u32(0..6)).map(|seq| Entry {
            seq,
            ..self.entry(None)
        });
        let entries = entries.collect();
        let asked = self.rng.u32(0..4);
        let inputs = (1..=asked).map(|nth| Input {
            key: InputKey::nth(nth),
            name: self.one_in(3).then(|| self.pick(&NAMES).into()),
            request: self.json("question"),
            state: match self.one_in(3) {
                true => InputState::Withdrawn,
                false => InputState::Answered(self.json("answer")),
            },
            asked_at: UnixMillis(self.now),
            settled_at: self.rng.bool().then_some(UnixMillis(self.now)),
            answered_by: self.rng.bool().then(|| self.answered_by()),
        });
        History::new(entries, inputs.collect(), asked + self.rng.u32(0..2))
    }

    fn answered_by(&mut self) -> AnsweredBy {
        self.pick(&[AnsweredBy::Client, AnsweredBy::Operator, AnsweredBy::Server])
    }

    fn length(&mut self) -> Option<u64> {
        self.one_in(3).then(|| self.pick(&[0, 1, 100, 2_000, 60_000, u64::MAX]))
    }

    fn json(&mut self, name: &str) -> Json {
        let text = "\u{e4}\u{1F40C}x".repeat(self.rng.usize(0..40));
        Json::from(serde_json::json!({ name: text, "n": self.rng.u32(..) }))
    }

    async fn change(&mut self, model: &MemoryStore) -> Change {
        let id = self.blocked_or_any();
        let task = model.get_unscoped(&id).await.ok().flatten().map(|record| record.task);
        let count = match self.rng.u32(0..10) {
            0 => 0,
            1..8 => 1,
            _ => self.rng.usize(2..5),
        };
        let due = task
            .as_ref()
            .map(|task| task.due(UnixMillis(self.now)))
            .unwrap_or_default();
        let events: Vec<Event> = if !due.is_empty() && self.rng.bool() {
            due
        } else {
            let mut asked = task.as_ref().map_or(0, |task| task.inputs_asked);
            (0..count).map(|_| self.event(task.as_ref(), &mut asked)).collect()
        };
        let made = task.as_ref().and_then(|task| task.attempt.as_ref());
        let made = made.map_or(0, |attempt| attempt.changes);
        Change {
            task: id,
            fence: self.fence(task.as_ref(), &events),
            events,
            at: UnixMillis(self.now),
            number: (self.rng.u8(0..4) == 0).then(|| self.rng.u32(made.saturating_sub(1)..made + 3)),
            can_wait: false,
        }
    }
}

fn fixed_id(number: usize) -> TaskId {
    format!("t{number:07}").parse().expect("a task id")
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        id: SpecId::named(name),
        kind: "command".into(),
        definition: Json::from(serde_json::json!({ "name": name })),
    }
}

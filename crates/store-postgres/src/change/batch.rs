//! Many changes in one transaction.
//!
//! A batch takes two rounds to the database, and each round sends all its statements at once: the first locks and reads the rows of all tasks that the
//! changes name, in order of their ids, so that two transactions do not wait for each other; the second writes what has changed, with one statement
//! for each table, and commits. In between every change is decided here, one after the other, each on what those before it have left.

use super::{
    Ledger, Part, Request, RequestAnswer, groups,
    quota_turns::{NearQuotas, QuotaTurns, TAKE_TURNS},
    schedules,
    writes::Writes,
};
use crate::{
    event::{
        Effects,
        pauses::{KnownPauses, PAUSE_VERSION},
    },
    statement::{Execute, Fault, Param, Then, Tx, encode, row, row::InsertedRow, select_tasks, texts},
};
use longhaul_core::{
    ConcurrencyGroup, NodeId, Principal, QuotaScope, SessionKey, SpecId, Task, TaskId, UnixMillis, Usage,
    store::{CreateError, Created, Idempotency, NewTask, ScheduleRecord, StoreError, Uniqueness},
};
use longhaul_store::{
    backend::{self, Backend, Insertion},
    decision::{Decision, EntryWrite},
    refusal,
    task_row::MORE,
    usage,
};
use parking_lot::Mutex;
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    convert::Infallible,
    sync::Arc,
};

/// Locks tasks, and the parents of those that may end.
const LOCK: &str = select_tasks!(
    "",
    "WHERE id = ANY(ARRAY(SELECT unnest($1::text[]) UNION SELECT parent FROM tasks WHERE id = ANY($2::text[]) AND parent IS NOT NULL)) \
     ORDER BY id FOR UPDATE"
);
/// Locks tasks of which the time changes something, unless others change them now.
const LOCK_FREE: &str = select_tasks!("", "WHERE id = ANY($1::text[]) ORDER BY id FOR UPDATE SKIP LOCKED");
const KEYED: &str = select_tasks!(
    ", idempotency_key, idempotency_digest",
    "JOIN unnest($1::text[], $2::text[], $3::text[]) AS calls (caller, called, key) \
     ON principal = caller AND tool = called AND idempotency_key = key"
);
/// Not locked: what is answered is the state of this moment.
const UNIQUE: &str = select_tasks!(
    ", unique_value, unique_arguments",
    "JOIN unnest($1::text[], $2::bytea[]) AS calls (called, value) ON tool = called AND unique_value = value AND state < 3"
);
/// Locks the rows of nodes that write new tasks: so that the lease of one that claims a task is not lost before the commit, and so that a node can wait for what
/// it has written before ([`longhaul_core::store::LeaseStore::await_earlier_writes`]).
pub(crate) const LOCK_NODES: &str = "SELECT id, lost_at FROM nodes WHERE id = ANY($1::bigint[]) ORDER BY id FOR SHARE";
const SPECS: &str = "SELECT id FROM specs WHERE id = ANY($1::text[])";
/// The lengths of entries that may get another value: those that changes name, and those for the ends of children.
const LENGTHS: &str = "SELECT journal.task, journal.seq, octet_length(value) FROM journal \
     JOIN unnest($1::text[], $2::bigint[]) AS named (task, seq) ON journal.task = named.task AND journal.seq = named.seq \
     UNION SELECT journal.task, journal.seq, octet_length(value) FROM tasks \
     JOIN journal ON journal.task = tasks.parent AND journal.seq = tasks.parent_entry WHERE tasks.id = ANY($3::text[])";

/// The definitions that are known to be stored. None is ever deleted.
pub(crate) type KnownSpecs = Mutex<HashSet<SpecId>>;

/// A principal's name for a call of a tool.
type Call = (Principal, Arc<str>, Arc<str>);

/// A unique value of a tool.
type UniqueValue = (Arc<str>, [u8; 32]);

/// A task as the batch sees it.
struct BatchTask {
    task: Task,
    /// Of all its payloads.
    bytes: i64,
    row: RowState,
}

/// How a task's row is to be written.
enum RowState {
    Unchanged,
    Changed,
    New(Option<Idempotency>, Option<Uniqueness>),
}

/// A transaction's view of what its changes are about, and what they write.
#[derive(Default)]
pub(crate) struct Batch {
    tasks: BTreeMap<TaskId, BatchTask>,
    /// Calls with an idempotency key, with the digest of their arguments.
    keyed: HashMap<Call, (TaskId, [u8; 32])>,
    /// Tasks with a unique value, live at first, with the digest of their arguments.
    unique: HashMap<UniqueValue, (Task, [u8; 32])>,
    unknown_specs: HashSet<SpecId>,
    dead_nodes: HashSet<NodeId>,
    /// The bytes of the values of entries.
    lengths: HashMap<(TaskId, u32), i64>,
    /// With whether the task that was started last is live.
    schedules: HashMap<Arc<str>, (ScheduleRecord, bool)>,
    ledger: Ledger,
    turns: QuotaTurns,
    /// What this process knows of pauses is old, so nothing is claimed.
    have_pauses_changed: bool,
    writes: Writes,
    sessions: BTreeMap<SessionKey, UnixMillis>,
    effects: Effects,
}

/// What a batch has done, to be told now that it is committed.
pub(crate) struct Done {
    pub(crate) answers: Vec<RequestAnswer>,
    pub(crate) effects: Effects,
    pub(crate) sessions: BTreeMap<SessionKey, UnixMillis>,
    pub(crate) have_pauses_changed: bool,
}

/// Makes changes in a transaction, and commits it.
pub(crate) async fn run(
    tx: Tx<'_>,
    requests: &[&Request],
    specs: &KnownSpecs,
    near: &NearQuotas,
    pauses: &KnownPauses,
    part: Part,
) -> Result<Done, Fault> {
    let mut batch = Batch::load(&tx, requests, specs, near, pauses).await?;
    let answers = requests.iter().map(|request| batch.decide(request)).collect();
    near.learn(&batch.turns)?;
    batch.writes.groups.check()?;
    let filled = batch.commit(&tx, part).await?;
    groups::note(&filled, &mut batch.effects)?;
    Ok(Done {
        answers,
        effects: batch.effects,
        sessions: batch.sessions,
        have_pauses_changed: batch.have_pauses_changed,
    })
}

impl Batch {
    /// Reads and locks what the changes are about.
    async fn load(
        tx: &Tx<'_>,
        requests: &[&Request],
        specs: &KnownSpecs,
        near: &NearQuotas,
        pauses: &KnownPauses,
    ) -> Result<Self, Fault> {
        let mut batch = Self::default();
        let new: Vec<&NewTask> = requests.iter().filter_map(|request| created(request)).collect();
        let nodes: BTreeSet<i64> = requests
            .iter()
            .flat_map(|request| request.writers())
            .map(|node| node.0)
            .collect();
        let nodes: Vec<i64> = nodes.into_iter().collect();
        let others = requests.iter().filter(|request| request.timed().is_none());
        let ids: BTreeSet<&TaskId> = others.flat_map(|request| request.tasks()).collect();
        let timed: BTreeSet<&TaskId> = requests.iter().filter_map(|request| request.timed()).collect();
        let timed = texts(timed.difference(&ids).copied());
        let ids = texts(ids);
        let may_end = requests.iter().filter_map(|request| request.may_end());
        let may_end = texts(may_end.collect::<BTreeSet<_>>());
        let entries: BTreeSet<(&TaskId, u32)> = requests.iter().flat_map(|request| request.entries()).collect();
        let entry_tasks = texts(entries.iter().map(|(task, _)| *task));
        let entry_places: Vec<i64> = entries.iter().map(|(_, seq)| i64::from(*seq)).collect();
        let calls: Vec<Call> = new.iter().filter_map(|new| call(new)).collect();
        let callers: Vec<Cow<'_, str>> = calls.iter().map(|(caller, ..)| encode(caller.as_str())).collect();
        let called: Vec<Cow<'_, str>> = calls.iter().map(|(_, tool, _)| encode(tool)).collect();
        let keys: Vec<Cow<'_, str>> = calls.iter().map(|(.., key)| encode(key)).collect();
        let unique: BTreeSet<(&str, &[u8])> = new.iter().filter_map(|new| unique(new)).collect();
        let unique_tools: Vec<Cow<'_, str>> = unique.iter().map(|(tool, _)| encode(tool)).collect();
        let unique_values: Vec<&[u8]> = unique.iter().map(|(_, value)| *value).collect();
        let unknown = unknown_specs(requests, specs);
        let spec_ids: Vec<&str> = unknown.iter().map(SpecId::as_str).collect();
        let groups: BTreeSet<&[u8]> = new.iter().filter_map(|new| group(new)).collect();
        let groups: Vec<&[u8]> = groups.into_iter().collect();
        let may_regroup = requests.iter().filter_map(|request| request.may_regroup());
        let may_regroup = texts(may_regroup.collect::<BTreeSet<_>>());
        let starts = new.iter().filter_map(|new| new.schedule.as_deref());
        let scheduled: BTreeSet<&str> = starts.map(|start| &*start.name).collect();
        let scheduled: Vec<Cow<'_, str>> = scheduled.into_iter().map(encode).collect();

        let mut questions: Vec<(&str, Vec<Param<'_>>)> = Vec::new();
        let mut ask = |is_needed: bool, sql, params| {
            is_needed.then(|| {
                questions.push((sql, params));
                questions.len() - 1
            })
        };
        let quotas = new.iter().map(|new| (&new.owner.principal, new.quota));
        let turns = near.turns(quotas);
        let (names, alone) = turns.columns();
        // Before any row, so that nobody who holds one waits for a turn.
        ask(!names.is_empty(), TAKE_TURNS, vec![&names, &alone]);
        let has_groups = !groups.is_empty() || !may_regroup.is_empty();
        let groups_at = ask(has_groups, groups::LOCK, vec![&groups, &may_regroup]);
        // Locked first: see `take`.
        let nodes_at = ask(!nodes.is_empty(), LOCK_NODES, vec![&nodes]);
        let claims = new.iter().any(|new| new.claim.is_some());
        ask(!scheduled.is_empty(), schedules::LOCK, vec![&scheduled]);
        let schedules_at = ask(!scheduled.is_empty(), schedules::LOADED, vec![&scheduled]);
        let pauses_at = ask(claims, PAUSE_VERSION, Vec::new());
        let tasks_at = ask(true, LOCK, vec![&ids, &may_end]);
        let timed_at = ask(!timed.is_empty(), LOCK_FREE, vec![&timed]);
        let keyed_at = ask(!calls.is_empty(), KEYED, vec![&callers, &called, &keys]);
        let unique_at = ask(!unique.is_empty(), UNIQUE, vec![&unique_tools, &unique_values]);
        let specs_at = ask(!unknown.is_empty(), SPECS, vec![&spec_ids]);
        let lengths_needed = !entries.is_empty() || !may_end.is_empty();
        let lengths_at = ask(lengths_needed, LENGTHS, vec![&entry_tasks, &entry_places, &may_end]);
        let mut rows = tx.rows_of_all(&questions).await?;
        let mut answer = |at: Option<usize>| at.map(|at| std::mem::take(&mut rows[at])).unwrap_or_default();

        batch.dead_nodes = dead(&answer(nodes_at))?;
        batch.turns = turns;
        batch.writes.groups.locked(&answer(groups_at))?;
        batch.have_pauses_changed = pauses.have_changed(&answer(pauses_at))?;
        for row in &answer(schedules_at) {
            let loaded = schedules::loaded(row)?;
            batch.schedules.insert(Arc::clone(&loaded.0.name), loaded);
        }
        for at in [tasks_at, timed_at] {
            for row in &answer(at) {
                batch.keep(row)?;
            }
        }
        batch.keep_keyed(&answer(keyed_at))?;
        batch.keep_unique(&answer(unique_at))?;
        batch.unknown_specs = unknown;
        for row in &answer(specs_at) {
            let spec = SpecId::named(row::text(row, 0)?);
            batch.unknown_specs.remove(&spec);
            specs.lock().insert(spec);
        }
        for row in &answer(lengths_at) {
            let place = u32::try_from(row::number(row, 1)?).unwrap_or_default();
            batch.lengths.insert((row::id(row, 0)?, place), row::number(row, 2)?);
        }
        batch.ledger = Ledger::read(tx, &limited(&new)).await?;
        Ok(batch)
    }

    /// Takes a row over, unless its task is here already.
    fn keep(&mut self, found: &tokio_postgres::Row) -> Result<&Task, Fault> {
        let task = row::task(found)?;
        let kept = BatchTask {
            bytes: row::number(found, 0)?,
            row: RowState::Unchanged,
            task: task.clone(),
        };
        Ok(&self.tasks.entry(task.id.clone()).or_insert(kept).task)
    }

    /// Takes over tasks with an idempotency key.
    fn keep_keyed(&mut self, rows: &[tokio_postgres::Row]) -> Result<(), Fault> {
        for row in rows {
            let (key, digest) = (row::text(row, MORE)?, row.try_get::<_, &[u8]>(MORE + 1)?);
            let digest = digest.try_into().map_err(|_| not_a_digest())?;
            let task = self.keep(row)?;
            let call = (task.owner.principal.clone(), Arc::clone(&task.tool), key);
            let id = task.id.clone();
            self.keyed.insert(call, (id, digest));
        }
        Ok(())
    }

    /// Takes over live tasks with a unique value.
    fn keep_unique(&mut self, rows: &[tokio_postgres::Row]) -> Result<(), Fault> {
        for row in rows {
            let digest = |column| row.try_get::<_, &[u8]>(column).ok()?.try_into().ok();
            let (value, arguments) = digest(MORE).zip(digest(MORE + 1)).ok_or_else(not_a_digest)?;
            let task = row::task(row)?;
            self.unique.insert((Arc::clone(&task.tool), value), (task, arguments));
        }
        Ok(())
    }

    fn decide(&mut self, request: &Request) -> RequestAnswer {
        match request {
            Request::Create(new) if new.claim.is_some() && self.have_pauses_changed => {
                let queued = NewTask {
                    claim: None,
                    ..NewTask::clone(new)
                };
                RequestAnswer::Created(Box::new(self.create(&queued)))
            }
            Request::Create(new) => RequestAnswer::Created(Box::new(self.create(new))),
            Request::WriteCall(call, change) => {
                let Ok(written) = backend::write_call(self, call, change);
                RequestAnswer::Applied(Box::new(written))
            }
            Request::Apply(change) => {
                let Ok(applied) = backend::apply(self, change);
                RequestAnswer::Applied(Box::new(applied))
            }
            Request::EndSession(session, until) => {
                let kept = self.sessions.entry(session.clone()).or_insert(*until);
                *kept = (*kept).max(*until);
                RequestAnswer::SessionEnded(Ok(()))
            }
        }
    }

    fn create(&mut self, new: &NewTask) -> Result<Created, CreateError> {
        let claimed_by = new.claim.as_ref().map(|(node, _)| node);
        if claimed_by.is_some_and(|node| self.dead_nodes.contains(node)) {
            return Err(StoreError::LeaseLost.into());
        }
        let Ok(created) = backend::create(self, new, &Decision::of_new(new));
        created
    }

    /// Returns how many bytes of entries of journals a decision replaces.
    fn written_over(&mut self, decision: &Decision<'_>) -> i64 {
        let mut replaced = 0;
        for entry in &decision.entries {
            let (seq, value) = match entry {
                EntryWrite::Appended(entry) => (entry.seq, &entry.value),
                EntryWrite::Rewritten { seq, value, .. } => (*seq, *value),
            };
            let length = usage::bytes(value).cast_signed();
            let before = self.lengths.insert((decision.task.id.clone(), seq), length);
            replaced += before.unwrap_or_default();
        }
        replaced
    }

    /// Writes all that has changed, fills groups, and commits. Returns what was let in.
    async fn commit(&self, tx: &Tx<'_>, part: Part) -> Result<Vec<tokio_postgres::Row>, Fault> {
        let new = self.tasks.values().filter_map(|kept| match &kept.row {
            RowState::New(idempotency, unique) => Some(InsertedRow {
                task: &kept.task,
                idempotency: idempotency.as_ref(),
                unique: unique.as_ref(),
                bytes: kept.bytes,
            }),
            _ => None,
        });
        let changed = self.tasks.values().filter_map(|kept| match &kept.row {
            RowState::Changed => Some((&kept.task, kept.bytes)),
            _ => None,
        });
        let usage = self.ledger.changes(part);
        let writes = self
            .writes
            .write(tx, new, changed, &self.sessions, &usage, Then::Commit);
        writes.await
    }
}

impl Backend for Batch {
    type Error = Infallible;
    type Loaded = ();

    fn load<T>(&mut self, id: &TaskId, read: impl FnOnce(&Task) -> T) -> Result<Option<((), T)>, Infallible> {
        Ok(self.tasks.get(id).map(|kept| ((), read(&kept.task))))
    }

    fn find_repeated(&mut self, new: &NewTask) -> Result<Option<(Task, [u8; 32])>, Infallible> {
        let first = call(new).and_then(|call| self.keyed.get(&call));
        Ok(first.and_then(|(id, digest)| Some((self.tasks.get(id)?.task.clone(), *digest))))
    }

    fn find_live_unique(&mut self, new: &NewTask, unique: &Uniqueness) -> Result<Option<(Task, [u8; 32])>, Infallible> {
        let found = self.unique.get(&(Arc::clone(&new.tool), unique.value));
        let present = found.map(|(found, arguments)| {
            // As earlier changes of this batch have left it.
            let task = self.tasks.get(&found.id).map_or(found, |kept| &kept.task);
            (task, *arguments)
        });
        let live = present.filter(|(task, _)| !task.is_done());
        Ok(live.map(|(task, arguments)| (task.clone(), arguments)))
    }

    fn usage(&mut self, new: &NewTask, scope: QuotaScope, more: Usage) -> Result<Usage, Infallible> {
        let of = scope.principal(&new.owner.principal);
        let (found, has) = (self.ledger.found(of), self.ledger.usage(of));
        self.turns.note(of, new.quota.of(scope), found, has + more);
        Ok(has)
    }

    fn insert(&mut self, new: Insertion<'_>) -> Result<Result<(), StoreError>, Infallible> {
        let Decision { task, outcome, .. } = new.decision;
        if self.unknown_specs.contains(&task.spec) {
            return Ok(Err(refusal::spec_unknown()));
        }
        if self.tasks.contains_key(&task.id) {
            return Ok(Err(refusal::id_taken()));
        }
        self.ledger.add(&task.owner.principal, new.usage.into());
        if let Some(Idempotency { key, digest }) = new.idempotency {
            let call = (task.owner.principal.clone(), Arc::clone(&task.tool), Arc::clone(key));
            self.keyed.insert(call, (task.id.clone(), *digest));
        }
        if let Some(Uniqueness { value, arguments }) = new.unique {
            let value = (Arc::clone(&task.tool), *value);
            self.unique.insert(value, (task.clone(), *arguments));
        }
        let kept = BatchTask {
            task: task.clone(),
            bytes: new.usage.bytes.cast_signed(),
            row: RowState::New(new.idempotency.cloned(), new.unique.copied()),
        };
        self.tasks.insert(task.id.clone(), kept);
        self.writes.arguments(&task.id, new.arguments, new.requestor);
        self.writes.labels(task);
        if let Some(history) = new.history {
            self.writes.history(&task.id, history);
            for entry in history.entries() {
                let length = usage::bytes(&entry.value).cast_signed();
                self.lengths.insert((task.id.clone(), entry.seq), length);
            }
        }
        self.written_over(new.decision);
        self.writes.decision(new.decision);
        self.writes.host(task, None);
        self.effects.changed(task, outcome.as_ref());
        Ok(Ok(()))
    }

    fn write(&mut self, (): (), decision: &Decision<'_>) -> Result<(), Infallible> {
        let written_over = self.written_over(decision);
        self.writes.decision(decision);
        let Some(kept) = self.tasks.get_mut(&decision.task.id) else {
            return Ok(());
        };
        let before = std::mem::replace(&mut kept.task, decision.task.clone());
        if before == kept.task {
            return Ok(());
        }
        if matches!(kept.row, RowState::Unchanged) {
            kept.row = RowState::Changed;
        }
        let change = usage::change_of(decision, before.is_done(), written_over);
        kept.bytes += change.bytes;
        self.writes.host(&kept.task, Some(&before));
        self.ledger.add(&before.owner.principal, change);
        if kept.task.version != before.version {
            self.effects.changed(&kept.task, decision.outcome.as_ref());
        }
        Ok(())
    }

    /// All at once, before the commit.
    fn fill_group(&mut self, tool: &Arc<str>, group: ConcurrencyGroup) -> Result<(), Infallible> {
        self.writes.groups.add(tool, group);
        Ok(())
    }

    fn load_schedule(&mut self, name: &str) -> Result<Option<(ScheduleRecord, bool)>, Infallible> {
        Ok(self.schedules.get(name).cloned())
    }

    /// The task was created in this batch.
    fn write_schedule(&mut self, schedule: &ScheduleRecord) -> Result<(), Infallible> {
        let last = schedule.last_task.as_ref().and_then(|last| self.tasks.get(last));
        let is_live = last.is_some_and(|last| !last.task.is_done());
        self.schedules
            .insert(Arc::clone(&schedule.name), (schedule.clone(), is_live));
        self.writes.schedule(schedule);
        Ok(())
    }
}

fn created<'a>(request: &&'a Request) -> Option<&'a NewTask> {
    match request {
        Request::Create(new) => Some(new),
        _ => None,
    }
}

fn call(new: &NewTask) -> Option<Call> {
    let key = Arc::clone(&new.idempotency.as_ref()?.key);
    Some((new.owner.principal.clone(), Arc::clone(&new.tool), key))
}

fn unique<'a>(new: &&'a NewTask) -> Option<(&'a str, &'a [u8])> {
    Some((&*new.tool, &new.unique.as_ref()?.value[..]))
}

fn group<'a>(new: &&'a NewTask) -> Option<&'a [u8]> {
    Some(&new.group.as_ref()?.0[..])
}

/// The principals of new tasks that a quota limits.
fn limited<'a>(new: &[&'a NewTask]) -> Vec<&'a Principal> {
    let limited = new.iter().filter(|new| {
        [QuotaScope::Principal, QuotaScope::All]
            .iter()
            .any(|scope| new.quota.limits(*scope))
    });
    let limited: BTreeSet<&Principal> = limited.map(|new| &new.owner.principal).collect();
    limited.into_iter().collect()
}

fn unknown_specs(requests: &[&Request], specs: &KnownSpecs) -> HashSet<SpecId> {
    let spec = |request: &&Request| match request {
        Request::Create(new) => Some(new.spec.clone()),
        Request::WriteCall(call, _) => Some(call.task.spec.clone()),
        Request::Apply(_) | Request::EndSession(..) => None,
    };
    let known = specs.lock();
    let named = requests.iter().filter_map(spec);
    named.filter(|spec| !known.contains(spec)).collect()
}

/// Which of these nodes have lost their leases. The others keep theirs until the end of the transaction.
pub(crate) async fn dead_nodes(tx: &Tx<'_>, nodes: &[i64]) -> Result<HashSet<NodeId>, Fault> {
    dead(&tx.rows(LOCK_NODES, &[&nodes]).await?)
}

pub(crate) fn dead(nodes: &[tokio_postgres::Row]) -> Result<HashSet<NodeId>, Fault> {
    let mut dead = HashSet::new();
    for row in nodes {
        if row.try_get::<_, Option<i64>>(1)?.is_some() {
            dead.insert(NodeId(row::number(row, 0)?));
        }
    }
    Ok(dead)
}

fn not_a_digest() -> Fault {
    StoreError::Failed("an idempotency key or a unique value has no digest".to_owned()).into()
}

//! What a batch writes beside the rows of tasks, collected while its changes are decided.

use super::{
    groups::{self, Groups},
    ledger::Changes,
    schedules::StartedSchedules,
};
use crate::statement::{
    Fault, Param, Then, Tx, encode,
    row::{INSERT, InsertedRow, TaskRows, UPDATE},
};
use longhaul_core::{
    AnsweredBy, Entry, HostId, Input, InputKey, InputState, Json, Outcome, SessionKey, Task, TaskId, UnixMillis,
    store::{History, ScheduleRecord},
};
use longhaul_store::{
    code::{self, ANSWERED_BY, ENTRY_KINDS},
    decision::{Decision, EntryWrite, InputWrite},
    task_row::outcome_columns,
};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

const INSERT_ARGUMENTS: &str =
    "INSERT INTO arguments (task, json, requestor) SELECT * FROM unnest($1::text[], $2::text[], $3::text[])";
const INSERT_LABELS: &str = "INSERT INTO task_labels (label, task) SELECT * FROM unnest($1::text[], $2::text[])";
const INSERT_OUTCOMES: &str = "INSERT INTO outcomes (task, json, code, message) \
     SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])";
const INSERT_INPUTS: &str = "INSERT INTO inputs (task, key, name, request, state, answer, asked_at, settled_at, answered_by) \
     SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[])";
/// A question is settled once.
const SETTLE_INPUTS: &str = "UPDATE inputs SET state = new.state, answer = new.answer, settled_at = new.at, answered_by = new.by \
     FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[]) AS new (task, key, state, answer, at, by) \
     WHERE inputs.task = new.task AND inputs.key = new.key";
const INSERT_ENTRIES: &str = "INSERT INTO journal (task, seq, kind, nth, beside, at, epoch, path, name, value) \
     SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], \
     $8::text[], $9::text[], $10::text[])";
const REWRITE_ENTRIES: &str = "UPDATE journal SET value = new.value, epoch = coalesce(new.epoch, journal.epoch) \
     FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[]) AS new (task, seq, value, epoch) \
     WHERE journal.task = new.task AND journal.seq = new.seq";
const INSERT_HOSTS: &str =
    "INSERT INTO task_hosts (task, host) SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING";
const END_SESSIONS: &str = "INSERT INTO ended_sessions (session, until) SELECT * FROM unnest($1::text[], $2::bigint[]) \
     ON CONFLICT (session) DO UPDATE SET until = excluded.until, written_by = excluded.written_by WHERE ended_sessions.until < excluded.until";

/// A question that was answered or withdrawn.
struct SettledInput {
    task: TaskId,
    key: InputKey,
    answer: Option<(Json, AnsweredBy)>,
    at: UnixMillis,
}

/// The last value of an entry that was there already, and the attempt that wrote it, if one did.
struct RewrittenEntry {
    value: Json,
    epoch: Option<u32>,
}

/// Rows to be written, for each table.
#[derive(Default)]
pub(crate) struct Writes {
    arguments: Vec<(TaskId, Json, Json)>,
    /// Each as `name=value`.
    labels: Vec<(String, TaskId)>,
    outcomes: Vec<(TaskId, Outcome)>,
    inputs: Vec<(TaskId, Input)>,
    settled: Vec<SettledInput>,
    appended: Vec<(TaskId, Entry)>,
    rewritten: BTreeMap<(TaskId, u32), RewrittenEntry>,
    hosts: BTreeSet<(TaskId, HostId)>,
    schedules: BTreeMap<Arc<str>, ScheduleRecord>,
    /// What is filled at last.
    pub(crate) groups: Groups,
}

impl Writes {
    pub(crate) fn arguments(&mut self, task: &TaskId, arguments: &Json, requestor: &Json) {
        self.arguments
            .push((task.clone(), arguments.clone(), requestor.clone()));
    }

    pub(crate) fn labels(&mut self, task: &Task) {
        let labels = task.labels.iter().map(|label| (label.to_string(), task.id.clone()));
        self.labels.extend(labels);
    }

    pub(crate) fn outcome(&mut self, task: &TaskId, outcome: &Outcome) {
        self.outcomes.push((task.clone(), outcome.clone()));
    }

    /// A schedule that has started a task.
    pub(crate) fn schedule(&mut self, schedule: &ScheduleRecord) {
        self.schedules.insert(Arc::clone(&schedule.name), schedule.clone());
    }

    /// What a new task takes over of another one.
    pub(crate) fn history(&mut self, task: &TaskId, history: &History) {
        let entries = history.entries().iter().map(|entry| (task.clone(), entry.clone()));
        self.appended.extend(entries);
        let inputs = history.inputs().iter().map(|input| (task.clone(), input.clone()));
        self.inputs.extend(inputs);
    }

    /// The host of the task's attempt, if it was not bound to it before.
    pub(crate) fn host(&mut self, task: &Task, before: Option<&Task>) {
        let bound_to = |task: &Task| task.attempt.as_ref().and_then(|attempt| attempt.host.clone());
        if let Some(host) = bound_to(task)
            && before.and_then(bound_to).as_ref() != Some(&host)
        {
            self.hosts.insert((task.id.clone(), host));
        }
    }

    /// All that belongs to the task, and is not its row.
    pub(crate) fn decision(&mut self, decision: &Decision<'_>) {
        let task = &decision.task.id;
        if let Some(outcome) = &decision.outcome {
            self.outcome(task, outcome);
        }
        for input in &decision.inputs {
            self.input(task, input);
        }
        for entry in &decision.entries {
            match entry {
                EntryWrite::Appended(entry) => self.appended.push((task.clone(), (*entry).clone())),
                EntryWrite::Rewritten { seq, value, epoch } => {
                    let before = self.rewritten.remove(&(task.clone(), *seq));
                    let epoch = epoch.or_else(|| before?.epoch);
                    let value = (*value).clone();
                    self.rewritten
                        .insert((task.clone(), *seq), RewrittenEntry { value, epoch });
                }
            }
        }
    }

    fn input(&mut self, task: &TaskId, input: &InputWrite<'_>) {
        let task = task.clone();
        match input {
            InputWrite::Asked { key, name, request, at } => {
                let input = Input {
                    key: key.clone(),
                    name: name.cloned(),
                    request: (*request).clone(),
                    state: InputState::Open,
                    asked_at: *at,
                    settled_at: None,
                    answered_by: None,
                };
                self.inputs.push((task, input));
            }
            InputWrite::Answered { key, answer, by, at } => self.settled.push(SettledInput {
                task,
                key: key.clone(),
                answer: Some(((*answer).clone(), *by)),
                at: *at,
            }),
            InputWrite::Withdrawn { key, at } => self.settled.push(SettledInput {
                task,
                key: key.clone(),
                answer: None,
                at: *at,
            }),
        }
    }

    /// Writes everything, and the rows of tasks; then fills groups, and returns the tasks that were let in. What other transactions may wait for comes first, and in one order.
    ///
    /// # Errors
    /// [`Fault::Conflict`] also if one of the new tasks was written by another transaction meanwhile, under its id, its
    /// idempotency key or its unique value.
    pub(crate) async fn write<'a>(
        &'a self,
        tx: &Tx<'_>,
        new: impl Iterator<Item = InsertedRow<'a>>,
        changed: impl Iterator<Item = (&'a Task, i64)>,
        sessions: &'a BTreeMap<SessionKey, UnixMillis>,
        usage: &Changes<'_>,
        then: Then,
    ) -> Result<Vec<tokio_postgres::Row>, Fault> {
        let (new, changed) = (TaskRows::inserted(new), TaskRows::updated(changed));
        let columns = Columns::of(self, sessions);
        let schedules = StartedSchedules::of(&self.schedules);
        let filled = self.groups.columns();
        let mut statements: Vec<(&str, Vec<Param<'_>>)> = Vec::new();
        schedules.add_to(&mut statements);
        // First, since a task that ends here gives up its unique value. No other transaction is waited for: its row is locked.
        if !changed.is_empty() {
            statements.push((&UPDATE, changed.params()));
        }
        if !new.is_empty() {
            statements.push((&INSERT, new.params()));
        }
        columns.add_to(self, &mut statements);
        if !sessions.is_empty() {
            statements.push((END_SESSIONS, vec![&columns.sessions, &columns.until]));
        }
        usage.add_to(&mut statements);
        if self.groups.is_empty() {
            tx.execute_all(&statements, then).await?;
            return Ok(Vec::new());
        }
        // Last, since it counts what the others have left.
        statements.push((groups::FILL, filled.params()));
        let rows = tx.query_all(&statements, then).await?;
        Ok(rows.into_iter().last().unwrap_or_default())
    }
}

/// The rows as columns, as statements take them.
struct Columns<'a> {
    argument_tasks: Vec<&'a str>,
    arguments: Vec<&'a str>,
    requestors: Vec<&'a str>,
    labels: Vec<&'a str>,
    labelled_tasks: Vec<&'a str>,
    outcome_tasks: Vec<&'a str>,
    outcome_jsons: Vec<Option<&'a str>>,
    outcome_codes: Vec<Option<i64>>,
    outcome_messages: Vec<Option<Cow<'a, str>>>,
    input_tasks: Vec<&'a str>,
    input_keys: Vec<&'a str>,
    input_names: Vec<Option<Cow<'a, str>>>,
    input_requests: Vec<&'a str>,
    input_states: Vec<i64>,
    input_answers: Vec<Option<&'a str>>,
    input_asked_at: Vec<i64>,
    input_settled_at: Vec<Option<i64>>,
    input_answered_by: Vec<Option<i64>>,
    settled_tasks: Vec<&'a str>,
    settled_keys: Vec<&'a str>,
    settled_states: Vec<i64>,
    settled_answers: Vec<Option<&'a str>>,
    settled_at: Vec<i64>,
    settled_by: Vec<Option<i64>>,
    entry_tasks: Vec<&'a str>,
    entry_seqs: Vec<i64>,
    entry_kinds: Vec<i64>,
    entry_nths: Vec<i64>,
    entry_besides: Vec<i64>,
    entry_ats: Vec<i64>,
    entry_epochs: Vec<i64>,
    entry_paths: Vec<Cow<'a, str>>,
    entry_names: Vec<Cow<'a, str>>,
    entry_values: Vec<&'a str>,
    rewritten_tasks: Vec<&'a str>,
    rewritten_seqs: Vec<i64>,
    rewritten_values: Vec<&'a str>,
    rewritten_epochs: Vec<Option<i64>>,
    host_tasks: Vec<&'a str>,
    hosts: Vec<Cow<'a, str>>,
    sessions: Vec<Cow<'a, str>>,
    until: Vec<i64>,
}

/// The columns `state, answer` of a question.
fn state_columns(state: &InputState) -> (i64, Option<&str>) {
    match state {
        InputState::Open => (0, None),
        InputState::Answered(answer) => (1, Some(answer.as_str())),
        InputState::Withdrawn => (2, None),
    }
}

/// What `value` makes of each row.
fn column<'a, R, V>(rows: impl IntoIterator<Item = R>, value: impl Fn(R) -> V + 'a) -> Vec<V> {
    rows.into_iter().map(value).collect()
}

impl<'a> Columns<'a> {
    fn of(writes: &'a Writes, sessions: &'a BTreeMap<SessionKey, UnixMillis>) -> Self {
        let Writes {
            arguments,
            labels,
            outcomes,
            inputs,
            settled,
            appended,
            rewritten,
            hosts,
            schedules: _,
            groups: _,
        } = writes;
        let stored = |(task, outcome): &'a (TaskId, Outcome)| Some((task.as_str(), outcome_columns(outcome)?));
        let outcomes: Vec<_> = outcomes.iter().filter_map(stored).collect();
        Self {
            argument_tasks: column(arguments, |(task, ..)| task.as_str()),
            arguments: column(arguments, |(_, json, _)| json.as_str()),
            requestors: column(arguments, |(.., requestor)| requestor.as_str()),
            labels: column(labels, |(label, _)| label.as_str()),
            labelled_tasks: column(labels, |(_, task)| task.as_str()),
            outcome_tasks: column(&outcomes, |(task, _)| *task),
            outcome_jsons: column(&outcomes, |(_, (json, ..))| json.map(Json::as_str)),
            outcome_codes: column(&outcomes, |(_, (_, code, _))| *code),
            outcome_messages: column(&outcomes, |(_, (.., message))| message.map(encode)),
            input_tasks: column(inputs, |(task, _)| task.as_str()),
            input_keys: column(inputs, |(_, input)| input.key.as_str()),
            input_names: column(inputs, |(_, input)| input.name.as_deref().map(encode)),
            input_requests: column(inputs, |(_, input)| input.request.as_str()),
            input_states: column(inputs, |(_, input)| state_columns(&input.state).0),
            input_answers: column(inputs, |(_, input)| state_columns(&input.state).1),
            input_asked_at: column(inputs, |(_, input)| input.asked_at.0),
            input_settled_at: column(inputs, |(_, input)| input.settled_at.map(|at| at.0)),
            input_answered_by: column(inputs, |(_, input)| {
                input.answered_by.map(|by| code::of(&ANSWERED_BY, by))
            }),
            settled_tasks: column(settled, |settled| settled.task.as_str()),
            settled_keys: column(settled, |settled| settled.key.as_str()),
            settled_states: column(settled, |settled| if settled.answer.is_some() { 1 } else { 2 }),
            settled_answers: column(settled, |settled| {
                settled.answer.as_ref().map(|(answer, _)| answer.as_str())
            }),
            settled_at: column(settled, |settled| settled.at.0),
            settled_by: column(settled, |settled| {
                settled.answer.as_ref().map(|(_, by)| code::of(&ANSWERED_BY, *by))
            }),
            entry_tasks: column(appended, |(task, _)| task.as_str()),
            entry_seqs: column(appended, |(_, entry)| entry.seq.into()),
            entry_kinds: column(appended, |(_, entry)| code::of(&ENTRY_KINDS, entry.key.kind)),
            entry_nths: column(appended, |(_, entry)| entry.key.nth.into()),
            entry_besides: column(appended, |(_, entry)| entry.beside.into()),
            entry_ats: column(appended, |(_, entry)| entry.at.0),
            entry_epochs: column(appended, |(_, entry)| entry.epoch.into()),
            entry_paths: column(appended, |(_, entry)| encode(&entry.key.path)),
            entry_names: column(appended, |(_, entry)| encode(&entry.key.name)),
            entry_values: column(appended, |(_, entry)| entry.value.as_str()),
            rewritten_tasks: column(rewritten.keys(), |(task, _)| task.as_str()),
            rewritten_seqs: column(rewritten.keys(), |(_, seq)| i64::from(*seq)),
            rewritten_values: column(rewritten.values(), |new| new.value.as_str()),
            rewritten_epochs: column(rewritten.values(), |new| new.epoch.map(i64::from)),
            host_tasks: column(hosts, |(task, _)| task.as_str()),
            hosts: column(hosts, |(_, host)| encode(&host.0)),
            sessions: column(sessions.keys(), |session| encode(session.as_str())),
            until: column(sessions.values(), |until| until.0),
        }
    }

    /// Adds the statements of the tables that have rows to be written.
    fn add_to<'s>(&'s self, writes: &Writes, statements: &mut Vec<(&'s str, Vec<Param<'s>>)>) {
        let mut add = |is_empty: bool, sql, params: Vec<Param<'s>>| {
            if !is_empty {
                statements.push((sql, params));
            }
        };
        add(
            writes.arguments.is_empty(),
            INSERT_ARGUMENTS,
            vec![&self.argument_tasks, &self.arguments, &self.requestors],
        );
        add(
            writes.labels.is_empty(),
            INSERT_LABELS,
            vec![&self.labels, &self.labelled_tasks],
        );
        add(
            self.outcome_tasks.is_empty(),
            INSERT_OUTCOMES,
            vec![
                &self.outcome_tasks,
                &self.outcome_jsons,
                &self.outcome_codes,
                &self.outcome_messages,
            ],
        );
        add(
            writes.inputs.is_empty(),
            INSERT_INPUTS,
            vec![
                &self.input_tasks,
                &self.input_keys,
                &self.input_names,
                &self.input_requests,
                &self.input_states,
                &self.input_answers,
                &self.input_asked_at,
                &self.input_settled_at,
                &self.input_answered_by,
            ],
        );
        add(
            writes.settled.is_empty(),
            SETTLE_INPUTS,
            vec![
                &self.settled_tasks,
                &self.settled_keys,
                &self.settled_states,
                &self.settled_answers,
                &self.settled_at,
                &self.settled_by,
            ],
        );
        add(
            writes.appended.is_empty(),
            INSERT_ENTRIES,
            vec![
                &self.entry_tasks,
                &self.entry_seqs,
                &self.entry_kinds,
                &self.entry_nths,
                &self.entry_besides,
                &self.entry_ats,
                &self.entry_epochs,
                &self.entry_paths,
                &self.entry_names,
                &self.entry_values,
            ],
        );
        add(
            writes.rewritten.is_empty(),
            REWRITE_ENTRIES,
            vec![
                &self.rewritten_tasks,
                &self.rewritten_seqs,
                &self.rewritten_values,
                &self.rewritten_epochs,
            ],
        );
        add(
            writes.hosts.is_empty(),
            INSERT_HOSTS,
            vec![&self.host_tasks, &self.hosts],
        );
    }
}

//! What a run has seen, and what it still must see.

use super::{
    step::{Refusal, StepAnswer, StoreCall},
    tasks_of,
};
use longhaul_core::{
    AttemptEnd, Event, QuotaExceeded, QuotaScope, Reason, State,
    store::{ApplyError, Change, CreateError, Created, ScheduleConflict, StoreError, TaskLookup},
};
use std::collections::BTreeSet;

/// Every operation with every kind of answer.
const ALL: &[&str] = &[
    "reopen",
    "open node",
    "put spec",
    "spec: some",
    "spec: none",
    "create: queued",
    "create: claimed",
    "create: over",
    "create: unconfirmed",
    "create: refused",
    "create: existing",
    "create: key taken",
    "create: joined",
    "create: not unique",
    "create: another's is live",
    "create: child",
    "create: child, over",
    "create: parent out of order",
    "create: parent stopping",
    "create: parent stale",
    "create: parent unknown",
    "create: replaced",
    "create: replaced unknown",
    "create: replaced cannot end",
    "create: scheduled",
    "create: schedule moved",
    "create: schedule paused",
    "create: schedule live",
    "create: too many live of one",
    "create: too many live",
    "create: too many bytes of one",
    "create: too many bytes",
    "usage",
    "apply: claimed",
    "apply: adopted",
    "apply: reclaimed",
    "apply: started",
    "apply: reported",
    "apply: input_requested",
    "apply: input_answered",
    "apply: input_withdrawn",
    "apply: confirmed",
    "apply: not confirmed",
    "apply: journaled",
    "apply: timer_fired",
    "apply: child_ended",
    "apply: blocked",
    "apply: unblocked",
    "apply: raised",
    "apply: blocked_timed_out",
    "apply: suspended",
    "apply: suspended, woken",
    "apply: attempt_ended",
    "apply: cancel_requested",
    "apply: deadline_passed",
    "apply: queue_timed_out",
    "apply: promoted",
    "apply: retry_awaited",
    "apply: abandoned",
    "apply: ttl_extended",
    "apply: a child's end",
    "apply: nothing",
    "apply: several",
    "apply: not found",
    "apply: stale",
    "illegal: done",
    "illegal: wrong state",
    "illegal: wrong attempt",
    "illegal: input not open",
    "illegal: key out of order",
    "illegal: too early",
    "put limit",
    "fill groups: some",
    "fill groups: none",
    "illegal: not for clients",
    "claim: some",
    "claim: none",
    "adopt: some",
    "adopt: none",
    "renew: some",
    "renew: none",
    "renew: lost",
    "held: some",
    "held: none",
    "orphaned calls: some",
    "orphaned calls: none",
    "queued tools: some",
    "next ready: some",
    "next ready: none",
    "get: live",
    "get: over",
    "get: asking",
    "get: none",
    "keyed: some",
    "keyed: none",
    "get_unscoped: some",
    "get_unscoped: none",
    "answer: some",
    "answer: none",
    "journal: some",
    "journal: none",
    "emitted: some",
    "emitted: none",
    "children: some",
    "started by: some",
    "started by: none",
    "children: none",
    "children of finished parents: some",
    "children of finished parents: none",
    "blocked: some",
    "blocked: none",
    "requestor: some",
    "requestor: none",
    "arguments: some",
    "arguments: none",
    "search: more",
    "search: last",
    "search: empty",
    "list: more",
    "list: last",
    "list: empty",
    "live: some",
    "live: none",
    "due: some",
    "due: none",
    "next wake: some",
    "expired: some",
    "expired: none",
    "delete: some",
    "delete ended: some",
    "delete ended: none",
    "delete: none",
    "counts",
    "live tasks: some",
    "signing keys",
    "end session",
    "session ended: true",
    "session ended: false",
    "put schedules",
    "schedules: some",
    "advance schedule: true",
    "advance schedule: false",
    "pause schedule",
    "remove schedule",
];

#[derive(Default)]
pub(super) struct SeenCases(BTreeSet<&'static str>);

impl SeenCases {
    pub(super) fn missing(&self) -> Vec<&'static str> {
        ALL.iter().copied().filter(|name| !self.0.contains(name)).collect()
    }

    pub(super) fn note(&mut self, name: &'static str) {
        assert!(ALL.contains(&name), "{name} is not in the list of what there is to see");
        self.0.insert(name);
    }

    pub(super) fn step(&mut self, step: &StoreCall, answer: &Result<StepAnswer, Refusal>) {
        match answer {
            Ok(answer) => self.success(step, answer),
            Err(error) => self.note(match (step, error) {
                (_, Refusal::Create(error)) => match error {
                    CreateError::Store(_) => "create: refused",
                    CreateError::IdempotencyKeyConflict => "create: key taken",
                    CreateError::NotUnique { live: Some(_) } => "create: not unique",
                    CreateError::NotUnique { live: None } => "create: another's is live",
                    CreateError::Quota(exceeded) => over(exceeded),
                    CreateError::Parent(ApplyError::NotFound) => "create: parent unknown",
                    CreateError::Parent(ApplyError::Stale) => "create: parent stale",
                    CreateError::Parent(ApplyError::Illegal(illegal)) => match illegal.reason {
                        Reason::Stopping => "create: parent stopping",
                        _ => "create: parent out of order",
                    },
                    CreateError::Replaced(ApplyError::NotFound) => "create: replaced unknown",
                    CreateError::Replaced(ApplyError::Illegal(_)) => "create: replaced cannot end",
                    CreateError::Schedule(ScheduleConflict::Moved) => "create: schedule moved",
                    CreateError::Schedule(ScheduleConflict::Paused) => "create: schedule paused",
                    CreateError::Schedule(ScheduleConflict::Live(_)) => "create: schedule live",
                    CreateError::Parent(ApplyError::Store(_)) | CreateError::Replaced(_) => {
                        panic!("both refused {step:?}: {error:?}")
                    }
                },
                (_, Refusal::Apply(ApplyError::NotFound)) => "apply: not found",
                (_, Refusal::Apply(ApplyError::Stale)) => "apply: stale",
                (_, Refusal::Apply(ApplyError::Illegal(illegal))) => match illegal.reason {
                    Reason::Done => "illegal: done",
                    Reason::WrongState => "illegal: wrong state",
                    Reason::WrongAttempt => "illegal: wrong attempt",
                    Reason::InputNotOpen => "illegal: input not open",
                    Reason::KeyOutOfOrder => "illegal: key out of order",
                    Reason::TooEarly => "illegal: too early",
                    Reason::NotForClients => "illegal: not for clients",
                    // An awaited retry of a task that is to stop: too rare to wait for it in each run.
                    Reason::Stopping => return,
                },
                (StoreCall::Renew(..), Refusal::Store(StoreError::LeaseLost)) => "renew: lost",
                _ => panic!("both refused {step:?}: {error:?}"),
            }),
        }
    }

    fn success(&mut self, step: &StoreCall, answer: &StepAnswer) {
        let some = match answer {
            StepAnswer::Tools(tools) => !tools.is_empty(),
            StepAnswer::Timestamp(at) => at.is_some(),
            StepAnswer::Place(place) => place.is_some(),
            StepAnswer::Record(record) => record.is_some(),
            StepAnswer::Input(input) => input.is_some(),
            StepAnswer::Json(json) => json.is_some(),
            StepAnswer::Entries(entries) => !entries.is_empty(),
            StepAnswer::Spec(spec) => spec.is_some(),
            StepAnswer::Held(held) => !held.is_empty(),
            StepAnswer::Ids(ids) => !ids.is_empty(),
            StepAnswer::Number(number) => *number > 0,
            StepAnswer::Truth(truth) => *truth,
            StepAnswer::Schedules(schedules) => !schedules.is_empty(),
            StepAnswer::LiveTasks(groups) => !groups.is_empty(),
            other => !tasks_of(other).is_empty(),
        };
        let either = |yes, no| if some { yes } else { no };
        let name = match step {
            StoreCall::OpenNode(..) => "open node",
            StoreCall::PutSpec(_) => "put spec",
            StoreCall::Spec(_) => either("spec: some", "spec: none"),
            StoreCall::Create(new) => match answer {
                StepAnswer::Created(Created::Existing(_)) => "create: existing",
                StepAnswer::Created(Created::Joined(_)) => "create: joined",
                StepAnswer::Created(Created::New(_)) if new.schedule.is_some() => "create: scheduled",
                StepAnswer::Created(Created::New(_)) if new.replaces.is_some() => "create: replaced",
                StepAnswer::Created(Created::New(task)) if task.lineage.is_some() && task.is_done() => {
                    "create: child, over"
                }
                StepAnswer::Created(Created::New(task)) if task.lineage.is_some() => "create: child",
                StepAnswer::Created(Created::New(task)) if task.is_done() => "create: over",
                StepAnswer::Created(Created::New(task)) if task.state == State::Running => "create: claimed",
                StepAnswer::Created(Created::New(task)) if task.awaits_confirmation() => "create: unconfirmed",
                _ => "create: queued",
            },
            StoreCall::Apply(change) => return self.applied(change, answer),
            StoreCall::PutLimit(..) => "put limit",
            StoreCall::FillGroups => either("fill groups: some", "fill groups: none"),
            StoreCall::Claim(_) => either("claim: some", "claim: none"),
            StoreCall::Adopt(..) => either("adopt: some", "adopt: none"),
            StoreCall::Renew(..) => either("renew: some", "renew: none"),
            StoreCall::Held(..) => either("held: some", "held: none"),
            StoreCall::Find(TaskLookup::OrphanedCalls(_), _) => either("orphaned calls: some", "orphaned calls: none"),
            StoreCall::QueuedTools if some => "queued tools: some",
            StoreCall::NextReady(..) => either("next ready: some", "next ready: none"),
            StoreCall::Get(..) => match answer {
                StepAnswer::Record(Some(record)) if record.task.is_done() => "get: over",
                StepAnswer::Record(Some(record)) if !record.inputs.is_empty() => "get: asking",
                StepAnswer::Record(Some(_)) => "get: live",
                _ => "get: none",
            },
            StoreCall::Keyed(..) => either("keyed: some", "keyed: none"),
            StoreCall::GetUnscoped(_) => either("get_unscoped: some", "get_unscoped: none"),
            StoreCall::Answer(..) => either("answer: some", "answer: none"),
            StoreCall::Journal(..) => either("journal: some", "journal: none"),
            StoreCall::Emitted(..) => either("emitted: some", "emitted: none"),
            StoreCall::Find(TaskLookup::ChildrenOf(_), _) => either("children: some", "children: none"),
            StoreCall::Find(TaskLookup::StartedBy { .. }, _) => either("started by: some", "started by: none"),
            StoreCall::Find(TaskLookup::ChildrenOfFinishedParents, _) => either(
                "children of finished parents: some",
                "children of finished parents: none",
            ),
            StoreCall::Find(TaskLookup::BlockedAfter(_), _) => either("blocked: some", "blocked: none"),
            StoreCall::Requestor(..) => either("requestor: some", "requestor: none"),
            StoreCall::Arguments(..) => either("arguments: some", "arguments: none"),
            StoreCall::Search(..) => match answer {
                StepAnswer::Found(found) if found.tasks.is_empty() => "search: empty",
                StepAnswer::Found(found) if found.next.is_some() => "search: more",
                _ => "search: last",
            },
            StoreCall::List(..) => match answer {
                StepAnswer::Page(page) if page.more => "list: more",
                StepAnswer::Page(page) if page.tasks.is_empty() => "list: empty",
                _ => "list: last",
            },
            StoreCall::Find(TaskLookup::LiveInSession { .. }, _) => either("live: some", "live: none"),
            StoreCall::Find(TaskLookup::DueTimers(_), _) => either("due: some", "due: none"),
            StoreCall::NextWake if some => "next wake: some",
            StoreCall::Expired(..) => either("expired: some", "expired: none"),
            StoreCall::Delete(..) => either("delete: some", "delete: none"),
            StoreCall::DeleteEnded(..) => either("delete ended: some", "delete ended: none"),
            StoreCall::Counts => "counts",
            StoreCall::LiveTasks if some => "live tasks: some",
            StoreCall::Usage(_) => "usage",
            StoreCall::SigningKeys(..) => "signing keys",
            StoreCall::EndSession(..) => "end session",
            StoreCall::SessionEnded(_) => either("session ended: true", "session ended: false"),
            StoreCall::PutSchedules(_) => "put schedules",
            StoreCall::Schedules(..) if some => "schedules: some",
            StoreCall::AdvanceSchedule(..) => either("advance schedule: true", "advance schedule: false"),
            StoreCall::PauseSchedule(..) => "pause schedule",
            StoreCall::RemoveSchedule(_) => "remove schedule",
            StoreCall::Schedules(..) => return,
            StoreCall::QueuedTools | StoreCall::NextWake | StoreCall::LiveTasks | StoreCall::Reopen => return,
        };
        self.note(name);
    }

    fn applied(&mut self, change: &Change, answer: &StepAnswer) {
        if let StepAnswer::Task(task) = answer {
            if task.lineage.is_some() && task.is_done() && task.active_attempt().is_none() {
                self.note("apply: a child's end");
            }
            let is_answered = matches!(&change.events[..], [Event::InputAnswered { .. }]);
            if is_answered && task.confirm_by.is_some() && task.attempt.is_none() {
                self.note(match task.state {
                    State::Queued => "apply: confirmed",
                    _ => "apply: not confirmed",
                });
            }
            if let [Event::AttemptEnded(AttemptEnd::Suspended { .. })] = &change.events[..] {
                self.note(match task.state {
                    State::Suspended => "apply: suspended",
                    _ => "apply: suspended, woken",
                });
            }
        }
        if let [Event::AttemptEnded(AttemptEnd::Blocked(_))] = &change.events[..] {
            self.note("apply: blocked");
        }
        match change.events.len() {
            0 => self.note("apply: nothing"),
            1 => {}
            _ => self.note("apply: several"),
        }
        for event in &change.events {
            let name = ALL
                .iter()
                .find(|name| name.strip_prefix("apply: ") == Some(event.name()));
            self.note(name.unwrap_or_else(|| panic!("{} is not in the list", event.name())));
        }
    }
}

fn over(exceeded: &QuotaExceeded) -> &'static str {
    match exceeded {
        QuotaExceeded::TooManyLive {
            scope: QuotaScope::Principal,
            ..
        } => "create: too many live of one",
        QuotaExceeded::TooManyLive {
            scope: QuotaScope::All, ..
        } => "create: too many live",
        QuotaExceeded::TooManyBytes {
            scope: QuotaScope::Principal,
            ..
        } => "create: too many bytes of one",
        QuotaExceeded::TooManyBytes {
            scope: QuotaScope::All, ..
        } => "create: too many bytes",
    }
}

//! Where a task can stand, and tasks that stand there.

use longhaul_core::{
    Attempt, AttemptState, Block, BlockReason, Blocked, ConfirmBy, Entry, EntryKey, EntryKind, Event, Failure,
    IllegalEvent, InputKey, Json, NodeId, Origin, Outcome, Owner, Principal, Progress, SpecId, State, Stop, StopReason,
    Task, TaskHeader, UnixMillis, Verdict,
};
use std::sync::Arc;

/// The moment of every event of the table, and the node that takes part in it.
pub(crate) const NOW: UnixMillis = UnixMillis(10_000);
pub(crate) const NODE: NodeId = NodeId(2);

/// `task` after `event`, and its outcome if it ended; a refused event must leave the task as it was.
pub(crate) fn transition(task: &Task, event: &Event, at: UnixMillis) -> Result<(Task, Option<Outcome>), IllegalEvent> {
    let mut next = task.clone();
    let changed = longhaul_core::transition(&mut next, event, at);
    if changed.is_err() {
        assert_eq!(&next, task, "{event:?} was refused and changed the task");
    }
    changed.map(|outcome| (next, outcome))
}

/// Where a task and its attempt can stand together: suspended without an attempt it awaits its confirmation. No other pair can arise; `any_history_keeps_the_invariants` says so.
pub(crate) const PLACES: [(&str, &str); 11] = [
    ("Queued", "None"),
    ("Queued", "Ended"),
    ("Running", "Starting"),
    ("Running", "Live"),
    ("Running", "Stopping"),
    ("Suspended", "None"),
    ("Suspended", "Ended"),
    ("Blocked", "Ended"),
    ("Done", "None"),
    ("Done", "Stopping"),
    ("Done", "Ended"),
];

/// An announced task of one minute's retention whose deadline and queue timeout have passed, in the given place.
pub(crate) fn task_at(state: &str, attempt: &str) -> Task {
    let attempt = match attempt {
        "None" => None,
        "Starting" => Some(AttemptState::Starting),
        "Live" => Some(AttemptState::Live),
        "Stopping" => Some(AttemptState::Stopping),
        _ => Some(AttemptState::Ended),
    };
    let state = match state {
        "Queued" => State::Queued,
        "Running" => State::Running,
        "Suspended" => State::Suspended,
        "Blocked" => State::Blocked,
        _ if attempt == Some(AttemptState::Stopping) => State::Done(Verdict::Cancelled),
        _ => State::Done(Verdict::Succeeded),
    };
    let begun = matches!(state, State::Running | State::Suspended | State::Blocked);
    let awaits = state == State::Suspended && attempt.is_none();
    Task {
        header: Arc::new(TaskHeader {
            id: "task".parse().unwrap(),
            owner: Owner {
                principal: Principal::local(),
                session: None,
            },
            tool: "tool".into(),
            spec: SpecId::named("spec"),
            origin: Origin::Legacy,
            accepted_by: NodeId(1),
            created_at: UnixMillis(1_000),
            queue_timeout: Some(5_000),
            deadline: Some(8_000),
            retention: 60_000,
            lineage: None,
            labels: longhaul_core::Labels::default(),
            group: None,
        }),
        announced: true,
        keyed: false,
        confirm_by: awaits.then_some(ConfirmBy::Client),
        state,
        waits_for_group: false,
        stop: (attempt == Some(AttemptState::Stopping)).then_some(Stop {
            reason: StopReason::Cancel,
            at: UnixMillis(3_000),
        }),
        attempts_used: u32::from(attempt.is_some()),
        attempt: attempt.map(|state| Attempt {
            epoch: 1,
            node: NodeId(1),
            host: None,
            state,
            changes: 0,
        }),
        updated_at: UnixMillis(4_000),
        priority: longhaul_core::Priority::default(),
        ready_at: UnixMillis(2_000),
        announced_until: UnixMillis(61_000),
        retry_until: None,
        ended_at: matches!(state, State::Done(_)).then_some(UnixMillis(4_000)),
        status: None,
        progress: Some(Progress {
            current: 1.0,
            total: None,
        }),
        open_inputs: if begun { vec![InputKey::nth(1)] } else { Vec::new() },
        inputs_asked: 1,
        journaled: u32::from(begun && !awaits),
        woken: 3,
        resume_at: matches!(state, State::Suspended | State::Blocked).then_some(NOW),
        blocked: (state == State::Blocked).then(|| blocked_until(NOW)),
        version: 7,
    }
}

pub(crate) fn entry(seq: u32, kind: EntryKind) -> Entry {
    Entry {
        seq,
        key: EntryKey {
            path: "".into(),
            kind,
            name: "build".into(),
            nth: 1,
        },
        beside: false,
        value: Json::trusted("1"),
        at: NOW,
        epoch: 1,
    }
}

/// The end of an attempt of code `v2`.
pub(crate) fn block(retry_at: UnixMillis, until: UnixMillis) -> Block {
    let Outcome::RpcError(failure) = Failure::Diverged("as the test says".to_owned()).into() else {
        panic!("a failure is an error");
    };
    Block {
        reason: BlockReason::NonDeterminism,
        failure,
        code: "v2".into(),
        retry_at,
        until,
    }
}

pub(crate) fn blocked_until(until: UnixMillis) -> Arc<Blocked> {
    Arc::new(Blocked {
        reason: BlockReason::NonDeterminism,
        failure: block(until, until).failure,
        codes: vec!["v2".into()],
        since: UnixMillis(3_000),
        until,
        tries: 0,
    })
}

pub(crate) fn state_name(state: State) -> &'static str {
    match state {
        State::Queued => "Queued",
        State::Running => "Running",
        State::Suspended => "Suspended",
        State::Blocked => "Blocked",
        State::Done(_) => "Done",
    }
}

pub(crate) fn attempt_name(task: &Task) -> &'static str {
    match task.attempt.as_ref().map(|attempt| attempt.state) {
        None => "None",
        Some(AttemptState::Starting) => "Starting",
        Some(AttemptState::Live) => "Live",
        Some(AttemptState::Stopping) => "Stopping",
        Some(AttemptState::Ended) => "Ended",
    }
}

//! The transition function against a table of its own, and its laws under random events.
#![allow(clippy::unwrap_used, missing_docs)]

use longhaul_core::{
    Attempt, AttemptEnd, AttemptState, CancelMode, Entry, EntryKey, EntryKind, Event, HostId, InputKey, Json, Millis,
    NodeId, Origin, Outcome, Owner, Principal, Progress, Reason, SpecId, State, Stop, StopReason, Task, TaskId,
    UnixMillis, Verdict,
    store::{Idempotency, NewTask},
    transition,
};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// The moment of every event of the table, and the node that takes part in it.
const NOW: UnixMillis = UnixMillis(10_000);
const NODE: NodeId = NodeId(2);

/// Where a task and its attempt can stand together. No other pair can arise; `any_history_keeps_the_laws` says so.
const PLACES: [(&str, &str); 9] = [
    ("Queued", "None"),
    ("Queued", "Ended"),
    ("Running", "Starting"),
    ("Running", "Live"),
    ("Running", "Stopping"),
    ("Parked", "Ended"),
    ("Done", "None"),
    ("Done", "Stopping"),
    ("Done", "Ended"),
];

/// What each event does in each place. A cell is the state and the attempt afterwards (`RL`: Running, Live), or why it is illegal.
///
/// States: `Q`ueued, `R`unning, `P`arked, `D`one before already; ended by this event: `s`ucceeded, tool `e`rror, `r`pc error,
/// `c`ancelled. Attempts: `N`one, `S`tarting, `L`ive, s`T`opping, `E`nded.
///
/// A stopping attempt in a live task has been asked to by a cancel. The last but one column is a task that was cancelled at once.
#[rustfmt::skip]
const TABLE: [(&str, &str); 42] = [
    //                      Queued          Running                 Parked  Done
    //                      None    Ended   Start   Live    Stop    Ended   None    Stop    Ended
    ("claimed",            "RS      RS      state   state   state   state   done    done    done"),
    ("claimed too early",  "early   early   state   state   state   state   done    done    done"),
    ("adopted",            "attempt attempt RS      RL      RT      attempt attempt DT      attempt"),
    ("started",            "attempt attempt RL      attempt RT      attempt attempt DT      attempt"),
    ("reported",           "state   state   RS      RL      RT      state   done    done    done"),
    ("asked",              "state   state   RS      RL      RT      state   done    done    done"),
    ("asked out of order", "state   state   key     key     key     state   done    done    done"),
    ("answered",           "input   input   RS      RL      RT      QE      done    done    done"),
    ("answered, kept",     "QN      QE      RS      RL      RT      QE      done    done    done"),
    ("answered another",   "input   input   input   input   input   input   done    done    done"),
    ("withdrawn",          "input   input   RS      RL      RT      QE      done    done    done"),
    ("journaled",          "state   state   RS      RL      RT      state   done    done    done"),
    ("journaled again",    "state   state   RS      RL      RT      state   done    done    done"),
    ("journaled, a gap",   "state   state   key     key     key     state   done    done    done"),
    ("journaled, place 0", "state   state   key     key     key     state   done    done    done"),
    ("timer fired",        "state   state   state   state   state   QE      done    done    done"),
    ("timer too early",    "state   state   state   state   state   early   done    done    done"),
    ("child ended",        "QN      QE      RS      RL      RT      QE      done    done    done"),
    ("child of no place",  "key     key     key     key     key     key     done    done    done"),
    ("finished",           "attempt attempt sE      sE      sE      attempt attempt DE      attempt"),
    ("failed",             "attempt attempt eE      eE      cE      attempt attempt DE      attempt"),
    ("failed, to retry",   "attempt attempt QE      QE      cE      attempt attempt DE      attempt"),
    ("stopped",            "attempt attempt cE      cE      cE      attempt attempt DE      attempt"),
    ("stopped, deadline",  "attempt attempt eE      eE      eE      attempt attempt DE      attempt"),
    ("never started",      "attempt attempt QE      QE      cE      attempt attempt DE      attempt"),
    ("suspended",          "attempt attempt PE      PE      cE      attempt attempt DE      attempt"),
    ("suspended, late",    "attempt attempt QE      QE      cE      attempt attempt DE      attempt"),
    ("suspended too long", "attempt attempt QE      QE      cE      attempt attempt DE      attempt"),
    ("cancel at once",     "cN      cE      cT      cT      cT      cE      done    done    done"),
    ("cancel",             "cN      cE      RT      RT      RT      cE      done    done    done"),
    ("deadline",           "eN      eE      RT      RT      RT      eE      done    done    done"),
    ("deadline too early", "early   early   early   early   early   early   done    done    done"),
    ("deadline, not set",  "state   state   state   state   state   state   done    done    done"),
    ("queue timeout",      "rN      rE      state   state   state   state   done    done    done"),
    ("queue, too early",   "early   early   state   state   state   state   done    done    done"),
    ("queue, journal",     "early   early   state   state   state   state   done    done    done"),
    ("promoted",           "QN      QE      RS      RL      state   PE      done    done    done"),
    ("promoted again",     "state   state   state   state   state   state   done    done    done"),
    ("promoted, keyed",    "QN      QE      RS      RL      RT      PE      DN      DT      DE"),
    ("abandoned",          "rN      rE      state   state   state   state   done    done    done"),
    ("kept longer",        "QN      QE      RS      RL      RT      PE      done    done    done"),
    ("kept no longer",     "early   early   early   early   early   early   done    done    done"),
];

#[test]
fn every_event_does_in_every_place_what_the_table_says() {
    for (name, row) in TABLE {
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells.len(), PLACES.len(), "{name}");
        for ((state, attempt), expected) in PLACES.into_iter().zip(cells) {
            let mut task = task_at(state, attempt);
            let event = event_named(name, &mut task);
            let found = transition(&task, &event, NOW);
            let context = format!("{name} for a task {state} with attempt {attempt}");
            match &found {
                Ok((next, outcome)) => {
                    assert_eq!(cell(&task, next), expected, "{context}");
                    assert_eq!(outcome.is_some(), next.is_done() && !task.is_done(), "{context}");
                    assert_eq!(
                        outcome.as_ref().map(|outcome| State::Done(outcome.verdict())),
                        outcome.as_ref().map(|_| next.state)
                    );
                    keeps_the_laws(&task, next);
                }
                Err(illegal) => {
                    assert_eq!(reason(illegal.reason), expected, "{context}");
                    assert_eq!((illegal.state, illegal.event), (task.state, event.name()), "{context}");
                }
            }
        }
    }
}

/// No event is left out of the table.
#[test]
fn the_table_has_every_event() {
    let mut task = task_at("Running", "Live");
    let in_table: BTreeSet<&str> = TABLE
        .iter()
        .map(|(name, _)| event_named(name, &mut task).name())
        .collect();
    // Exhaustive: a new event does not compile before someone has been here, and given it its rows.
    let seventeen = |event: &Event| match event {
        Event::Claimed { .. } | Event::Adopted { .. } | Event::Started | Event::Reported { .. } => {}
        Event::InputRequested { .. } | Event::InputAnswered { .. } | Event::InputWithdrawn { .. } => {}
        Event::AttemptEnded(_) | Event::CancelRequested(_) => {}
        Event::DeadlinePassed | Event::QueueTimedOut | Event::Promoted => {}
        Event::Abandoned(_) | Event::TtlExtended { .. } => {}
        Event::Journaled(_) | Event::TimerFired | Event::ChildEnded { .. } => {}
    };
    seventeen(&Event::Started);
    assert_eq!(in_table.len(), 17);
}

fn cell(before: &Task, after: &Task) -> String {
    let state = match after.state {
        State::Queued => 'Q',
        State::Running => 'R',
        State::Parked => 'P',
        State::Done(_) if before.is_done() => 'D',
        State::Done(Verdict::Succeeded) => 's',
        State::Done(Verdict::ToolError) => 'e',
        State::Done(Verdict::RpcError) => 'r',
        State::Done(Verdict::Cancelled) => 'c',
    };
    let attempt = match after.attempt.as_ref().map(|attempt| attempt.state) {
        None => 'N',
        Some(AttemptState::Starting) => 'S',
        Some(AttemptState::Live) => 'L',
        Some(AttemptState::Stopping) => 'T',
        Some(AttemptState::Ended) => 'E',
    };
    [state, attempt].into_iter().collect()
}

fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Done => "done",
        Reason::WrongState => "state",
        Reason::WrongAttempt => "attempt",
        Reason::InputNotOpen => "input",
        Reason::KeyOutOfOrder => "key",
        Reason::TooEarly => "early",
        Reason::Stopping => "stopping",
    }
}

/// An announced task of one minute's retention whose deadline and queue timeout have passed, in the given place.
fn task_at(state: &str, attempt: &str) -> Task {
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
        "Parked" => State::Parked,
        _ if attempt == Some(AttemptState::Stopping) => State::Done(Verdict::Cancelled),
        _ => State::Done(Verdict::Succeeded),
    };
    let begun = matches!(state, State::Running | State::Parked);
    Task {
        id: "task".parse().unwrap(),
        owner: Owner {
            principal: Principal::local(),
            session: None,
        },
        tool: "tool".into(),
        spec: SpecId::named("spec"),
        origin: Origin::Legacy,
        front: NodeId(1),
        announced: true,
        keyed: false,
        state,
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
        }),
        created_at: UnixMillis(1_000),
        updated_at: UnixMillis(4_000),
        ready_at: UnixMillis(2_000),
        queue_timeout: Some(5_000),
        deadline: Some(8_000),
        retention: 60_000,
        announced_until: UnixMillis(61_000),
        ended_at: matches!(state, State::Done(_)).then_some(UnixMillis(4_000)),
        status: None,
        progress: Some(Progress {
            current: 1.0,
            total: None,
        }),
        open_inputs: if begun { vec![InputKey::nth(1)] } else { Vec::new() },
        inputs_asked: 1,
        journaled: u32::from(begun),
        woken: 3,
        resume_at: (state == State::Parked).then_some(NOW),
        lineage: None,
        version: 7,
    }
}

/// The event of a row; what makes it come too early is done to the task.
fn event_named(name: &str, task: &mut Task) -> Event {
    let node = NODE;
    let json = || Json::trusted("{}");
    let failed = |retry_at| AttemptEnd::Failed {
        outcome: Outcome::tool_error("exit 1"),
        retry_at,
    };
    match name {
        "claimed" => Event::Claimed { node, host: None },
        "claimed too early" => {
            task.ready_at = NOW.plus(1);
            Event::Claimed { node, host: None }
        }
        "adopted" => Event::Adopted { node },
        "started" => Event::Started,
        "reported" => Event::Reported {
            status: Some("half".into()),
            progress: None,
        },
        "asked" => Event::InputRequested {
            key: InputKey::nth(2),
            name: None,
            request: json(),
        },
        "asked out of order" => Event::InputRequested {
            key: InputKey::nth(1),
            name: None,
            request: json(),
        },
        "answered" => Event::InputAnswered {
            key: InputKey::nth(1),
            answer: json(),
        },
        "answered another" => Event::InputAnswered {
            key: InputKey::nth(2),
            answer: json(),
        },
        "answered, kept" => {
            if task.state == State::Queued {
                (task.journaled, task.open_inputs) = (1, vec![InputKey::nth(1)]);
            }
            Event::InputAnswered {
                key: InputKey::nth(1),
                answer: json(),
            }
        }
        "journaled" => Event::Journaled(entry(2, EntryKind::Step)),
        "journaled again" => Event::Journaled(entry(1, EntryKind::Step)),
        "journaled, a gap" => Event::Journaled(entry(3, EntryKind::Step)),
        "journaled, place 0" => Event::Journaled(entry(0, EntryKind::Step)),
        "timer fired" => Event::TimerFired,
        "timer too early" => {
            task.resume_at = task.resume_at.map(|at| at.plus(1));
            Event::TimerFired
        }
        "child ended" => {
            task.journaled = 1;
            Event::ChildEnded {
                entry: 1,
                value: json(),
            }
        }
        "child of no place" => Event::ChildEnded {
            entry: 2,
            value: json(),
        },
        "withdrawn" => Event::InputWithdrawn { key: InputKey::nth(1) },
        "finished" => Event::AttemptEnded(AttemptEnd::Finished(Outcome::result(json()))),
        "failed" => Event::AttemptEnded(failed(None)),
        "failed, to retry" => Event::AttemptEnded(failed(Some(NOW.plus(1)))),
        "stopped" => Event::AttemptEnded(AttemptEnd::Stopped(StopReason::Cancel)),
        "stopped, deadline" => Event::AttemptEnded(AttemptEnd::Stopped(StopReason::Deadline)),
        "never started" => Event::AttemptEnded(AttemptEnd::NeverStarted),
        "suspended" => Event::AttemptEnded(AttemptEnd::Suspended {
            until: Some(NOW.plus(1)),
            woken: task.woken,
        }),
        "suspended, late" => Event::AttemptEnded(AttemptEnd::Suspended {
            until: None,
            woken: task.woken - 1,
        }),
        "suspended too long" => Event::AttemptEnded(AttemptEnd::Suspended {
            until: Some(NOW),
            woken: task.woken,
        }),
        "cancel at once" => Event::CancelRequested(CancelMode::AtOnce),
        "cancel" => Event::CancelRequested(CancelMode::Cooperative),
        "deadline" => Event::DeadlinePassed,
        "deadline too early" => {
            task.deadline = Some(9_001);
            Event::DeadlinePassed
        }
        "deadline, not set" => {
            task.deadline = None;
            Event::DeadlinePassed
        }
        "queue timeout" => Event::QueueTimedOut,
        "queue, too early" => {
            task.queue_timeout = Some(8_001);
            Event::QueueTimedOut
        }
        "queue, journal" => {
            task.journaled = 1;
            Event::QueueTimedOut
        }
        "promoted" => {
            task.announced = false;
            Event::Promoted
        }
        "promoted, keyed" => {
            (task.announced, task.keyed) = (false, true);
            Event::Promoted
        }
        "promoted again" => Event::Promoted,
        "abandoned" => Event::Abandoned(longhaul_core::Failure::Interrupted.into()),
        "kept longer" => Event::TtlExtended {
            until: UnixMillis(61_001),
        },
        "kept no longer" => Event::TtlExtended {
            until: UnixMillis(61_000),
        },
        other => panic!("no event is called {other}"),
    }
}

fn entry(seq: u32, kind: EntryKind) -> Entry {
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
    }
}

/// What holds between any task and what any legal event makes of it.
fn keeps_the_laws(before: &Task, after: &Task) {
    assert_eq!(after.version, before.version + 1);
    assert!(after.updated_at >= before.updated_at);
    assert!(after.announced_until >= before.announced_until);
    assert!(after.inputs_asked >= before.inputs_asked);
    assert!(after.announced || !before.announced);
    assert!(
        before.stop.is_none() || after.stop == before.stop,
        "the first reason counts"
    );
    assert!(after.wake_at().is_none() || !after.is_done());
    assert!(
        after.delete_at().is_none() || (after.is_done() && after.active_attempt().is_none()),
        "invariant 6"
    );
    if after.is_done() {
        assert!(after.open_inputs.is_empty());
    }
    assert!(after.journaled >= before.journaled && after.journaled <= before.journaled + 1);
    assert!(after.woken >= before.woken);
    assert!(
        after.resume_at.is_none() || after.is_suspended(),
        "who works, or waits for a slot, waits for no timer"
    );
    assert!(
        !after.is_suspended() || after.stop.is_none(),
        "nobody is left who could follow a request to stop"
    );
    assert!(
        after.is_done() == before.is_done() || after.updated_at >= after.ended_at.unwrap(),
        "the end is seen"
    );
    if before.is_done() {
        // Invariant 2: all that a reader sees.
        let seen = |task: &Task| {
            let times = (task.ended_at, task.updated_at, task.announced_until);
            (task.state, times, task.stop, task.status.clone(), task.progress)
        };
        assert_eq!(seen(after), seen(before));
        assert!(after.announced == before.announced || before.keyed);
    }
    let epoch = |task: &Task| task.attempt.as_ref().map_or(0, |attempt| attempt.epoch);
    if epoch(after) != epoch(before) {
        assert_eq!(epoch(after), epoch(before) + 1, "an epoch is never used twice");
        assert!(before.active_attempt().is_none(), "at most one attempt is active");
    }
    assert!(after.attempts_used <= epoch(after));
    let open: BTreeSet<&InputKey> = after.open_inputs.iter().collect();
    assert_eq!(open.len(), after.open_inputs.len(), "open questions are unique");
    let place = (state_name(after.state), attempt_name(after));
    assert!(PLACES.contains(&place), "{place:?} is no place");
    let unchanged = (
        &before.id,
        &before.owner,
        before.created_at,
        before.deadline,
        before.retention,
        before.front,
        &before.lineage,
    );
    assert_eq!(
        (
            &after.id,
            &after.owner,
            after.created_at,
            after.deadline,
            after.retention,
            after.front,
            &after.lineage
        ),
        unchanged
    );
}

/// Nothing that suspended work waits for passes unnoticed, whether it comes before or after the work is suspended.
fn keeps_its_wake_ups(before: &Task, event: &Event, after: &Task, now: UnixMillis) {
    match event {
        Event::InputAnswered { .. } | Event::InputWithdrawn { .. } | Event::ChildEnded { .. } => {
            assert_eq!(after.woken, before.woken + 1);
            assert!(!after.is_suspended());
        }
        Event::TimerFired => assert!(!after.is_suspended()),
        Event::AttemptEnded(AttemptEnd::Suspended { until, woken }) if !before.is_done() && before.stop.is_none() => {
            let came = *woken != before.woken || until.is_some_and(|until| until <= now);
            assert_eq!(after.is_suspended(), !came);
            assert_eq!(after.state == State::Queued, came);
            assert_eq!(after.open_inputs, before.open_inputs, "what is asked stays asked");
            assert!(after.wake_at() <= after.resume_at || after.resume_at.is_none());
        }
        _ => {}
    }
}

/// An attempt that has come further was not in vain, so those before it count no more; a noted failure is no step further.
#[test]
fn an_entry_takes_back_the_attempts_before_it() {
    for kind in EntryKind::ALL {
        let mut task = task_at("Running", "Live");
        task.attempt.as_mut().unwrap().epoch = 5;
        for (used, expected) in [(4, 1), (1, 1), (0, 0)] {
            task.attempts_used = used;
            let (next, _) = transition(&task, &Event::Journaled(entry(2, kind)), NOW).unwrap();
            let expected = if kind == EntryKind::Failure { used } else { expected };
            assert_eq!(next.attempts_used, expected, "{kind:?} after {used}");
            assert_eq!((next.journaled, next.updated_at), (2, task.updated_at));
        }
    }
}

/// Waiting costs no attempt, however often the work is woken.
#[test]
fn to_be_suspended_costs_no_attempt() {
    let mut task = task_at("Queued", "None");
    for round in 1..5 {
        let claimed = Event::Claimed { node: NODE, host: None };
        task = transition(&task, &claimed, NOW).unwrap().0;
        assert_eq!((task.attempts_used, task.attempt.as_ref().unwrap().epoch), (1, round));
        let end = AttemptEnd::Suspended {
            until: Some(NOW.plus(1)),
            woken: task.woken,
        };
        task = transition(&task, &Event::AttemptEnded(end), NOW).unwrap().0;
        assert!(task.is_suspended());
        assert_eq!(task.attempts_used, 0);
        task = transition(&task, &Event::TimerFired, NOW.plus(1)).unwrap().0;
        assert_eq!((task.state, task.ready_at), (State::Queued, NOW.plus(1)));
        task.ready_at = NOW;
    }
}

/// What is in the journal is asked for again under the same key, so an attempt that failed leaves its questions open; and work that has come to
/// something is not given up because no slot is free.
#[test]
fn a_journal_outlives_its_attempt() {
    for (journaled, kept) in [(0, false), (1, true)] {
        for name in ["failed, to retry", "never started"] {
            let mut task = task_at("Running", "Live");
            task.journaled = journaled;
            let event = event_named(name, &mut task);
            let (next, _) = transition(&task, &event, NOW).unwrap();
            assert_eq!(next.state, State::Queued);
            assert_eq!(next.open_inputs == task.open_inputs, kept, "{name}");
            assert_eq!(next.queue_until().is_none(), kept, "{name}");
        }
    }
}

/// Suspended work has nobody who could follow a request to stop, so it ends with the request.
#[test]
fn a_stop_ends_suspended_work_and_work_that_would_be_suspended() {
    let suspended = task_at("Parked", "Ended");
    let stops = [Event::CancelRequested(CancelMode::Cooperative), Event::DeadlinePassed];
    for stop in &stops {
        let (next, outcome) = transition(&suspended, stop, NOW).unwrap();
        assert!(next.is_done() && outcome.is_some() && next.wake_at().is_none());
    }
    for stop in &stops {
        let (stopping, none) = transition(&task_at("Running", "Live"), stop, NOW).unwrap();
        assert_eq!(none, None);
        let late = NOW.plus(7);
        let end = AttemptEnd::Suspended {
            until: None,
            woken: stopping.woken,
        };
        let (next, outcome) = transition(&stopping, &Event::AttemptEnded(end), late).unwrap();
        assert!(next.is_done() && outcome.is_some());
        assert_eq!(next.updated_at, late, "an end is seen");
    }
}

/// A task that waits for days keeps its promises to readers, and wakes for nothing else.
#[test]
fn suspended_work_wakes_for_its_timer_its_deadline_and_its_readers() {
    let mut task = task_at("Parked", "Ended");
    task.resume_at = Some(UnixMillis(500_000));
    task.deadline = None;
    assert_eq!(
        task.wake_at(),
        Some(UnixMillis(31_000)),
        "half a retention before its readers' time is up"
    );
    assert_eq!(
        task.due(UnixMillis(31_000)),
        [Event::TtlExtended {
            until: UnixMillis(91_000)
        }]
    );
    task.announced_until = UnixMillis(i64::MAX);
    assert_eq!(task.wake_at(), task.resume_at);
    assert_eq!(task.due(UnixMillis(499_999)), []);
    assert_eq!(task.due(UnixMillis(500_000)), [Event::TimerFired]);
    task.deadline = Some(499_000);
    assert_eq!(
        task.due(UnixMillis(500_000)),
        [Event::DeadlinePassed],
        "nothing comes after its end"
    );
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Queued => "Queued",
        State::Running => "Running",
        State::Parked => "Parked",
        State::Done(_) => "Done",
    }
}

fn attempt_name(task: &Task) -> &'static str {
    match task.attempt.as_ref().map(|attempt| attempt.state) {
        None => "None",
        Some(AttemptState::Starting) => "Starting",
        Some(AttemptState::Live) => "Live",
        Some(AttemptState::Stopping) => "Stopping",
        Some(AttemptState::Ended) => "Ended",
    }
}

/// Something that may happen next; half of it fits the task by chance.
#[derive(Debug, Clone)]
enum Next {
    Say(Event),
    Ask,
    Answer,
    Journal(EntryKind),
    /// With `woken` as it is, or as it was some wake-ups ago.
    Suspend {
        until: Option<Millis>,
        late: u32,
    },
    Due,
}

fn length() -> impl Strategy<Value = Option<Millis>> {
    prop_oneof![
        3 => Just(None),
        2 => (0u64..5_000).prop_map(Some),
        1 => prop_oneof![Just(0), Just(u64::MAX), Just(u64::MAX / 2), Just(i64::MAX as u64 - 1)].prop_map(Some),
    ]
}

fn moment() -> impl Strategy<Value = UnixMillis> {
    prop_oneof![8 => 0i64..20_000, 1 => Just(i64::MAX), 1 => Just(i64::MIN)].prop_map(UnixMillis)
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::result(Json::trusted("{}"))),
        Just(Outcome::tool_error("no")),
        Just(longhaul_core::Failure::Interrupted.into()),
        Just(Outcome::Cancelled),
    ]
}

fn attempt_end() -> impl Strategy<Value = AttemptEnd> {
    prop_oneof![
        1 => outcome().prop_map(AttemptEnd::Finished),
        3 => (outcome(), proptest::option::of(moment())).prop_map(|(outcome, retry_at)| AttemptEnd::Failed { outcome, retry_at }),
        1 => prop_oneof![Just(StopReason::Cancel), Just(StopReason::Deadline)].prop_map(AttemptEnd::Stopped),
        1 => Just(AttemptEnd::NeverStarted),
        2 => (proptest::option::of(moment()), 0u32..4).prop_map(|(until, woken)| AttemptEnd::Suspended { until, woken }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let key = || (1u32..6).prop_map(InputKey::nth);
    let json = || Just(Json::trusted("{}"));
    let node = || (1i64..4).prop_map(NodeId);
    prop_oneof![
        (node(), proptest::option::of(Just(HostId("here".into()))))
            .prop_map(|(node, host)| Event::Claimed { node, host }),
        node().prop_map(|node| Event::Adopted { node }),
        Just(Event::Started),
        Just(Event::Reported {
            status: Some("s".into()),
            progress: Some(Progress {
                current: 1.0,
                total: None
            })
        }),
        (key(), json()).prop_map(|(key, request)| Event::InputRequested {
            key,
            name: None,
            request
        }),
        (key(), json()).prop_map(|(key, answer)| Event::InputAnswered { key, answer }),
        key().prop_map(|key| Event::InputWithdrawn { key }),
        (0u32..4).prop_map(|seq| Event::Journaled(entry(seq, EntryKind::Step))),
        Just(Event::TimerFired),
        (0u32..4).prop_map(|entry| Event::ChildEnded {
            entry,
            value: Json::trusted("{}")
        }),
        attempt_end().prop_map(Event::AttemptEnded),
        prop_oneof![Just(CancelMode::AtOnce), Just(CancelMode::Cooperative)].prop_map(Event::CancelRequested),
        Just(Event::DeadlinePassed),
        Just(Event::QueueTimedOut),
        Just(Event::Promoted),
        outcome().prop_map(Event::Abandoned),
        moment().prop_map(|until| Event::TtlExtended { until }),
    ]
}

fn next() -> impl Strategy<Value = Next> {
    prop_oneof![
        10 => event().prop_map(Next::Say),
        3 => (1i64..4).prop_map(|node| Next::Say(Event::Claimed { node: NodeId(node), host: None })),
        2 => Just(Next::Ask),
        2 => Just(Next::Answer),
        3 => proptest::sample::select(&EntryKind::ALL[..]).prop_map(Next::Journal),
        3 => (proptest::option::of(0u64..5_000), prop_oneof![3 => Just(0u32), 1 => 1u32..3])
            .prop_map(|(until, late)| Next::Suspend { until, late }),
        2 => Just(Next::Due),
    ]
}

prop_compose! {
    fn new_task()(
        announced in any::<bool>(),
        deadline in length(),
        queue_timeout in length(),
        retention in length(),
        claim in any::<bool>(),
        keyed in any::<bool>(),
    ) -> Task {
        let new = NewTask {
            id: "task".parse::<TaskId>().unwrap(),
            owner: Owner { principal: Principal::local(), session: None },
            tool: "tool".into(),
            spec: SpecId::named("spec"),
            origin: Origin::Modern,
            front: NodeId(1),
            announced,
            arguments: Json::trusted("{}"),
            requestor: Json::trusted("{}"),
            at: UnixMillis(0),
            deadline,
            queue_timeout,
            retention: retention.unwrap_or(60_000),
            claim: claim.then_some((NodeId(1), None)),
            outcome: None,
            idempotency: keyed.then(|| Idempotency { key: "key".into(), digest: [0; 32] }),
            quota: longhaul_core::Quota::default(),
            parent: None,
        };
        new.task().0
    }
}

/// Also back: clocks jump, and nothing may break.
fn step() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 0i64..2_000, 1 => -5_000i64..0, 1 => 0i64..200_000]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_history_keeps_the_laws(task in new_task(), history in proptest::collection::vec((next(), step()), 0..40)) {
        let mut task = task;
        let mut now = UnixMillis(0);
        let mut asked = BTreeSet::new();
        for (next, step) in history {
            now = UnixMillis(now.0 + step);
            let events = match next {
                Next::Say(event) => vec![event],
                Next::Ask => vec![Event::InputRequested {
                    key: InputKey::nth(task.inputs_asked + 1),
                    name: None,
                    request: Json::trusted("{}"),
                }],
                Next::Answer => task.open_inputs.first().cloned().into_iter().map(|key| Event::InputAnswered {
                    key,
                    answer: Json::trusted("{}"),
                }).collect(),
                Next::Journal(kind) => vec![Event::Journaled(entry(task.journaled + 1, kind))],
                Next::Suspend { until, late } => vec![Event::AttemptEnded(AttemptEnd::Suspended {
                    until: until.map(|length| now.plus(length)),
                    woken: task.woken.saturating_sub(late),
                })],
                Next::Due => {
                    let mut woken = task.clone();
                    // Twice: work that a timer wakes waits for a slot, and how long it may can be over at once.
                    for _ in 0..2 {
                        for event in woken.due(now) {
                            let woke = transition(&woken, &event, now);
                            prop_assert!(woke.is_ok(), "due, and not legal: {event:?} {woke:?}");
                            woken = woke.unwrap().0;
                        }
                    }
                    prop_assert!(woken.wake_at().is_none_or(|wake| wake > now), "it would be woken for ever");
                    task.due(now)
                }
            };
            for event in events {
                let Ok((after, outcome)) = transition(&task, &event, now) else { continue };
                keeps_the_laws(&task, &after);
                keeps_its_wake_ups(&task, &event, &after, now);
                prop_assert_eq!(outcome.is_some(), after.is_done() && !task.is_done());
                if let Event::InputRequested { key, .. } = &event {
                    prop_assert!(asked.insert(key.clone()), "{key:?} was used before");
                }
                task = after;
            }
        }
    }
}

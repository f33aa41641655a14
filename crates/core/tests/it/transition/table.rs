//! What each event does in each place, written out.

use super::{
    invariants::keeps_the_invariants,
    place::{NODE, NOW, PLACES, block, blocked_until, entry, task_at, transition},
};
use longhaul_core::{
    AnsweredBy, AttemptEnd, AttemptState, CancelMode, ConfirmBy, EntryKind, Event, InputKey, Json, Outcome, Reason,
    State, StopReason, Task, UnixMillis, Verdict,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What each event does in each place. A cell is the state and the attempt afterwards (`RL`: Running, Live), or why it is illegal.
///
/// States: `Q`ueued, `R`unning, `P`arked, `B`locked, `D`one before already; ended by this event: `s`ucceeded, tool `e`rror, `r`pc error,
/// `c`ancelled. Attempts: `N`one, `S`tarting, `L`ive, s`T`opping, `E`nded.
///
/// A stopping attempt in a live task has been asked to by a cancel. The last but one column is a task that was cancelled at once.
#[rustfmt::skip]
const TABLE: [(&str, &str); 56] = [
    //                      Queued          Running                 Suspended       Blocked Done
    //                      None    Ended   Start   Live    Stop    None    Ended   Ended   None    Stop    Ended
    ("claimed",            "RS      RS      state   state   state   state   state   state   done    done    done"),
    ("claimed too early",  "early   early   state   state   state   state   state   state   done    done    done"),
    ("adopted",            "attempt attempt RS      RL      RT      attempt attempt attempt attempt DT      attempt"),
    ("reclaimed",          "attempt attempt RS      RL      RT      attempt attempt attempt attempt DT      attempt"),
    ("started",            "attempt attempt RL      attempt RT      attempt attempt attempt attempt DT      attempt"),
    ("reported",           "state   state   RS      RL      RT      state   state   state   done    done    done"),
    ("asked",              "state   state   RS      RL      RT      state   state   state   done    done    done"),
    ("asked out of order", "state   state   key     key     key     state   state   state   done    done    done"),
    ("answered",           "input   input   RS      RL      RT      QN      QE      BE      done    done    done"),
    ("answered, kept",     "QN      QE      RS      RL      RT      QN      QE      BE      done    done    done"),
    ("declined",           "input   input   RS      RL      RT      rN      QE      BE      done    done    done"),
    ("dismissed",          "input   input   RS      RL      RT      rN      QE      BE      done    done    done"),
    ("answered by another","input   input   RS      RL      RT      clients QE      BE      done    done    done"),
    ("answered another",   "input   input   input   input   input   input   input   input   done    done    done"),
    ("withdrawn",          "input   input   RS      RL      RT      state   QE      BE      done    done    done"),
    ("journaled",          "state   state   RS      RL      RT      state   state   state   done    done    done"),
    ("journaled again",    "state   state   RS      RL      RT      state   state   state   done    done    done"),
    ("came further",       "state   state   RS      RL      RT      state   state   state   done    done    done"),
    ("journaled, a gap",   "state   state   key     key     key     state   state   state   done    done    done"),
    ("journaled, place 0", "state   state   key     key     key     state   state   state   done    done    done"),
    ("timer fired",        "state   state   state   state   state   rN      QE      QE      done    done    done"),
    ("timer too early",    "state   state   state   state   state   early   early   early   done    done    done"),
    ("unblocked, later",   "state   state   state   state   state   state   state   BE      done    done    done"),
    ("unblocked",          "state   state   state   state   state   state   state   QE      done    done    done"),
    ("raised",             "QN      QE      state   state   state   state   state   state   done    done    done"),
    ("child ended",        "QN      QE      RS      RL      RT      state   QE      BE      done    done    done"),
    ("child of no place",  "key     key     key     key     key     state   key     key     done    done    done"),
    ("finished",           "attempt attempt sE      sE      sE      attempt attempt attempt attempt DE      attempt"),
    ("failed",             "attempt attempt eE      eE      cE      attempt attempt attempt attempt DE      attempt"),
    ("failed, to retry",   "attempt attempt QE      QE      cE      attempt attempt attempt attempt DE      attempt"),
    ("stopped",            "attempt attempt cE      cE      cE      attempt attempt attempt attempt DE      attempt"),
    ("stopped, deadline",  "attempt attempt eE      eE      eE      attempt attempt attempt attempt DE      attempt"),
    ("never started",      "attempt attempt QE      QE      cE      attempt attempt attempt attempt DE      attempt"),
    ("suspended",          "attempt attempt PE      PE      cE      attempt attempt attempt attempt DE      attempt"),
    ("suspended, late",    "attempt attempt QE      QE      cE      attempt attempt attempt attempt DE      attempt"),
    ("suspended too long", "attempt attempt QE      QE      cE      attempt attempt attempt attempt DE      attempt"),
    ("blocked",            "attempt attempt BE      BE      cE      attempt attempt attempt attempt DE      attempt"),
    ("cancel at once",     "cN      cE      cT      cT      cT      cN      cE      cE      done    done    done"),
    ("cancel",             "cN      cE      RT      RT      RT      cN      cE      cE      done    done    done"),
    ("deadline",           "eN      eE      RT      RT      RT      eN      eE      eE      done    done    done"),
    ("deadline too early", "early   early   early   early   early   early   early   early   done    done    done"),
    ("deadline, not set",  "state   state   state   state   state   state   state   state   done    done    done"),
    ("queue timeout",      "rN      rE      state   state   state   state   state   state   done    done    done"),
    ("queue, too early",   "early   early   state   state   state   state   state   state   done    done    done"),
    ("queue, journal",     "early   early   state   state   state   state   state   state   done    done    done"),
    ("blocked too long",   "state   state   state   state   state   state   state   rE      done    done    done"),
    ("blocked, too early", "state   state   state   state   state   state   state   early   done    done    done"),
    ("promoted",           "QN      QE      RS      RL      state   PN      PE      BE      done    done    done"),
    ("promoted again",     "state   state   state   state   state   state   state   state   done    done    done"),
    ("promoted, keyed",    "QN      QE      RS      RL      RT      PN      PE      BE      DN      DT      DE"),
    ("abandoned",          "rN      rE      state   state   state   rN      rE      rE      done    done    done"),
    ("retry awaited",      "QN      QE      RS      RL      stopping PN      PE      BE      done    done    done"),
    ("no later retry",     "early   early   early   early   stopping early   early   early   done    done    done"),
    ("retry of a task",    "state   state   state   state   state   state   state   state   done    done    done"),
    ("kept longer",        "QN      QE      RS      RL      RT      PN      PE      BE      done    done    done"),
    ("kept no longer",     "early   early   early   early   early   early   early   early   done    done    done"),
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
                    keeps_the_invariants(&task, next);
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
    // Exhaustive, so that a new event does not compile until it has its rows here.
    let all = |event: &Event| match event {
        Event::Claimed { .. } | Event::Adopted { .. } | Event::Reclaimed { .. } => {}
        Event::Started | Event::Reported { .. } => {}
        Event::InputRequested { .. } | Event::InputAnswered { .. } | Event::InputWithdrawn { .. } => {}
        Event::AttemptEnded(_) | Event::CancelRequested(_) => {}
        Event::DeadlinePassed | Event::QueueTimedOut | Event::Promoted => {}
        Event::Abandoned(_) | Event::RetryAwaited { .. } | Event::TtlExtended { .. } => {}
        Event::Unblocked { .. } | Event::Raised { .. } | Event::BlockedTimedOut => {}
        Event::Journaled(_) | Event::Advanced | Event::TimerFired | Event::ChildEnded { .. } => {}
    };
    all(&Event::Started);
    assert_eq!(in_table.len(), 23);
}

fn cell(before: &Task, after: &Task) -> String {
    let state = match after.state {
        State::Queued => 'Q',
        State::Running => 'R',
        State::Suspended => 'P',
        State::Blocked => 'B',
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
        Reason::NotForClients => "clients",
    }
}

fn answered(answer: &str, by: AnsweredBy) -> Event {
    Event::InputAnswered {
        key: InputKey::nth(1),
        answer: Json::parse(answer).unwrap(),
        by,
    }
}

/// The event of a row; what makes it come too early is done to the task.
pub(crate) fn event_named(name: &str, task: &mut Task) -> Event {
    let node = NODE;
    let json = || Json::trusted("{}");
    let failed = |retry_at| AttemptEnd::Failed {
        outcome: Outcome::tool_error("exit 1"),
        retry_at,
        asks_again: false,
    };
    match name {
        "claimed" => Event::Claimed { node, host: None },
        "claimed too early" => {
            task.ready_at = NOW.plus(1);
            Event::Claimed { node, host: None }
        }
        "adopted" => Event::Adopted { node },
        "reclaimed" => Event::Reclaimed { node },
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
        "answered" => answered(r#"{"action":"accept"}"#, AnsweredBy::Client),
        "declined" => answered(r#"{"action":"decline"}"#, AnsweredBy::Operator),
        "dismissed" => answered("{}", AnsweredBy::Client),
        "answered by another" => {
            task.confirm_by = task.confirm_by.map(|_| ConfirmBy::Operator);
            answered(r#"{"action":"accept"}"#, AnsweredBy::Client)
        }
        "answered another" => Event::InputAnswered {
            key: InputKey::nth(2),
            answer: json(),
            by: AnsweredBy::Client,
        },
        "answered, kept" => {
            if task.state == State::Queued {
                (task.journaled, task.open_inputs) = (1, vec![InputKey::nth(1)]);
            }
            answered(r#"{"action":"accept"}"#, AnsweredBy::Client)
        }
        "journaled" => Event::Journaled(entry(2, EntryKind::Step)),
        "journaled again" => Event::Journaled(entry(1, EntryKind::Step)),
        "came further" => Event::Advanced,
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
        "never started" => Event::AttemptEnded(AttemptEnd::NeverStarted { retry_at: None }),
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
        "blocked" => Event::AttemptEnded(AttemptEnd::Blocked(block(NOW.plus(1), NOW.plus(2)))),
        "unblocked, later" => Event::Unblocked { ready_at: NOW.plus(1) },
        "unblocked" => Event::Unblocked { ready_at: NOW },
        "raised" => Event::Raised {
            ready_at: UnixMillis(-1),
        },
        "blocked too long" => Event::BlockedTimedOut,
        "blocked, too early" => {
            if task.state == State::Blocked {
                task.blocked = Some(blocked_until(NOW.plus(1)));
            }
            Event::BlockedTimedOut
        }
        "cancel at once" => Event::CancelRequested(CancelMode::AtOnce),
        "cancel" => Event::CancelRequested(CancelMode::Cooperative),
        "deadline" => Event::DeadlinePassed,
        "deadline too early" => {
            Arc::make_mut(&mut task.header).deadline = Some(9_001);
            Event::DeadlinePassed
        }
        "deadline, not set" => {
            Arc::make_mut(&mut task.header).deadline = None;
            Event::DeadlinePassed
        }
        "queue timeout" => Event::QueueTimedOut,
        "queue, too early" => {
            Arc::make_mut(&mut task.header).queue_timeout = Some(8_001);
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
        "retry awaited" => {
            task.announced = false;
            task.retry_until = Some(UnixMillis(61_000));
            Event::RetryAwaited {
                until: UnixMillis(61_001),
            }
        }
        "no later retry" => {
            task.announced = false;
            task.retry_until = Some(UnixMillis(61_000));
            Event::RetryAwaited {
                until: UnixMillis(61_000),
            }
        }
        "retry of a task" => Event::RetryAwaited {
            until: UnixMillis(61_001),
        },
        "kept longer" => Event::TtlExtended {
            until: UnixMillis(61_001),
        },
        "kept no longer" => Event::TtlExtended {
            until: UnixMillis(61_000),
        },
        other => panic!("no event is called {other}"),
    }
}

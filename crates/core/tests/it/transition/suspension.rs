//! Work that was let go until something comes.

use super::place::{NODE, NOW, task_at, transition};
use longhaul_core::{AttemptEnd, CancelMode, Event, State, UnixMillis};
use std::sync::Arc;

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

/// Suspended work has nobody who could follow a request to stop, so it ends with the request.
#[test]
fn a_stop_ends_suspended_work_and_work_that_would_be_suspended() {
    let suspended = task_at("Suspended", "Ended");
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
    let mut task = task_at("Suspended", "Ended");
    task.resume_at = Some(UnixMillis(500_000));
    Arc::make_mut(&mut task.header).deadline = None;
    assert_eq!(
        task.wake_at(),
        Some(UnixMillis(31_000)),
        "half a retention before its readers' time is up"
    );
    assert_eq!(
        task.due(UnixMillis(31_000)),
        [Event::TtlExtended {
            until: UnixMillis(331_000)
        }]
    );
    task.announced_until = UnixMillis(i64::MAX);
    assert_eq!(task.wake_at(), task.resume_at);
    assert_eq!(task.due(UnixMillis(499_999)), []);
    assert_eq!(task.due(UnixMillis(500_000)), [Event::TimerFired]);
    Arc::make_mut(&mut task.header).deadline = Some(499_000);
    assert_eq!(
        task.due(UnixMillis(500_000)),
        [Event::DeadlinePassed],
        "nothing comes after its end"
    );
}

//! What a journal does for its task.

use super::place::{NOW, entry, task_at, transition};
use longhaul_core::{AttemptEnd, EntryKind, Event, Outcome, State};

/// An attempt that has come further was not in vain, so those before it count no more; a noted failure is no step further, nor is a checkpoint.
#[test]
fn an_entry_takes_back_the_attempts_before_it() {
    for kind in EntryKind::ALL {
        let mut task = task_at("Running", "Live");
        task.attempt.as_mut().unwrap().epoch = 5;
        for (used, expected) in [(4, 1), (1, 1), (0, 0)] {
            task.attempts_used = used;
            let (next, _) = transition(&task, &Event::Journaled(entry(2, kind)), NOW).unwrap();
            let expected = match kind {
                EntryKind::Failure | EntryKind::Checkpoint => used,
                _ => expected,
            };
            assert_eq!(next.attempts_used, expected, "{kind:?} after {used}");
            assert_eq!((next.journaled, next.updated_at), (2, task.updated_at));
        }
    }
}

/// A place that is written again may be where every attempt ends, so it forgives nothing; to have come further without a new place does.
#[test]
fn an_entry_that_is_overwritten_takes_back_no_attempt() {
    let mut task = task_at("Running", "Live");
    (task.attempts_used, task.attempt.as_mut().unwrap().epoch) = (4, 5);
    let overwritten = transition(&task, &Event::Journaled(entry(1, EntryKind::Poll)), NOW)
        .unwrap()
        .0;
    assert_eq!((overwritten.attempts_used, overwritten.journaled), (4, 1));
    let further = transition(&overwritten, &Event::Advanced, NOW).unwrap().0;
    assert_eq!((further.attempts_used, further.journaled), (1, 1));
}

/// What the next attempt asks again, by its journal or by name, an attempt that failed leaves open, and one that was never started has asked
/// nothing; and work that has come to something is not given up because no slot is free.
#[test]
fn what_is_asked_again_outlives_its_attempt() {
    let failed = |asks_again| AttemptEnd::Failed {
        outcome: Outcome::tool_error("exit 1"),
        retry_at: Some(NOW.plus(1)),
        asks_again,
    };
    for journaled in [0, 1] {
        let ends = [
            (failed(false), journaled > 0),
            (failed(true), true),
            (AttemptEnd::NeverStarted { retry_at: None }, true),
        ];
        for (end, kept) in ends {
            let mut task = task_at("Running", "Live");
            task.journaled = journaled;
            let (next, _) = transition(&task, &Event::AttemptEnded(end.clone()), NOW).unwrap();
            assert_eq!(next.state, State::Queued);
            assert_eq!(
                next.open_inputs == task.open_inputs,
                kept,
                "{end:?} after {journaled} entries"
            );
            assert_eq!(next.queue_until().is_none(), journaled > 0, "{end:?}");
        }
    }
}

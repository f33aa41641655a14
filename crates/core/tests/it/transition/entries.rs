//! What a journal does for its task.

use super::{
    place::{NOW, entry, task_at},
    table::event_named,
};
use longhaul_core::{EntryKind, Event, State, transition};

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

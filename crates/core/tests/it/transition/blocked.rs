//! Work that cannot go on with the code there is.

use super::place::{NODE, NOW, block, entry, task_at, transition};
use longhaul_core::{AttemptEnd, Blocked, EntryKind, Event, State, Task, UnixMillis};
use std::sync::Arc;

fn apply(task: &Task, event: Event, at: UnixMillis) -> Task {
    transition(task, &event, at).unwrap().0
}

/// One try: claimed, and blocked again by `code`.
fn blocked_again(task: &Task, code: &str, at: UnixMillis) -> Task {
    let running = apply(task, Event::Claimed { node: NODE, host: None }, at);
    let block = longhaul_core::Block {
        code: code.into(),
        ..block(at.plus(50), at.plus(1_000))
    };
    apply(&running, Event::AttemptEnded(AttemptEnd::Blocked(block)), at)
}

/// However often it is tried again, it costs no attempt, and the clock of the first block runs on.
#[test]
fn to_be_blocked_costs_no_attempt() {
    let mut task = task_at("Queued", "Ended");
    (task.attempts_used, task.ready_at) = (4, NOW);
    for round in 0..20 {
        let at = NOW.plus(round * 10);
        task = blocked_again(&task, &format!("v{}", round % 10), at);
        let blocked = task.block().unwrap();
        assert_eq!((task.attempts_used, blocked.tries), (4, u32::try_from(round).unwrap()));
        assert_eq!((blocked.since, blocked.until), (NOW, NOW.plus(1_000)));
        assert_eq!(
            blocked.codes.len(),
            usize::try_from(round + 1).unwrap().min(Blocked::MOST_CODES)
        );
        assert!(blocked.is_known_for(&format!("v{}", round % 10)) && !blocked.is_known_for("good"));
        task = apply(&task, Event::Unblocked { ready_at: at }, at);
        assert_eq!((task.state, task.ready_at, task.resume_at), (State::Queued, at, None));
        assert!(task.block().is_none(), "its readers are told that it goes on");
    }
}

#[test]
fn a_new_entry_clears_the_block() {
    let blocked = blocked_again(&task_at("Queued", "Ended"), "v2", NOW);
    let queued = apply(&blocked, Event::Unblocked { ready_at: NOW }, NOW);
    let running = apply(&queued, Event::Claimed { node: NODE, host: None }, NOW);
    for kind in EntryKind::ALL {
        let after = apply(&running, Event::Journaled(entry(running.journaled + 1, kind)), NOW);
        assert_eq!(
            after.blocked.is_some(),
            matches!(kind, EntryKind::Failure | EntryKind::Checkpoint),
            "{kind:?}"
        );
    }
    assert_eq!(apply(&running, Event::Advanced, NOW).blocked, None);
}

/// Readers learn of the block and of its end, and what ends it is the failure it was blocked with.
#[test]
fn a_block_and_its_end_are_seen() {
    let blocked = blocked_again(&task_at("Queued", "Ended"), "v2", NOW.plus(1));
    assert_eq!(blocked.updated_at, NOW.plus(1));
    assert_eq!(
        blocked.block().unwrap().to_string(),
        "blocked (non-determinism): the tool's code does not follow its journal: as the test says"
    );
    let (mut waiting, later) = (blocked.clone(), NOW.plus(51));
    Arc::make_mut(&mut waiting.header).deadline = None;
    assert_eq!(waiting.due(later), [Event::TimerFired]);
    assert_eq!(apply(&waiting, Event::TimerFired, later).updated_at, later);
    let put_off = apply(
        &waiting,
        Event::Unblocked {
            ready_at: later.plus(7),
        },
        later,
    );
    assert_eq!(
        (put_off.resume_at, put_off.updated_at),
        (Some(later.plus(7)), waiting.updated_at)
    );
    let end = NOW.plus(1_001);
    assert_eq!(waiting.due(end), [Event::BlockedTimedOut], "and is not tried once more");
    let (over, outcome) = transition(&waiting, &Event::BlockedTimedOut, end).unwrap();
    assert!(over.is_done() && over.blocked.is_none() && over.wake_at().is_none());
    let failure = longhaul_core::Outcome::from(longhaul_core::Failure::Diverged("as the test says".to_owned()));
    assert_eq!(outcome, Some(failure));
}

/// Its caller would wait for days, and no later process would go on with it.
#[test]
fn a_plain_call_without_a_key_fails_instead() {
    for (announced, keyed) in [(false, false), (true, false), (false, true)] {
        let mut task = task_at("Running", "Live");
        (task.announced, task.keyed) = (announced, keyed);
        let end = Event::AttemptEnded(AttemptEnd::Blocked(block(NOW, NOW.plus(1))));
        let (next, outcome) = transition(&task, &end, NOW).unwrap();
        let fails = !announced && !keyed;
        assert_eq!(
            (next.is_done(), outcome.is_some()),
            (fails, fails),
            "{announced} {keyed}"
        );
        assert_eq!(next.blocked.is_some(), !fails);
    }
}

#[test]
fn a_block_is_read_as_it_was_kept() {
    let blocked = blocked_again(&task_at("Queued", "Ended"), "v2", NOW).blocked.unwrap();
    assert_eq!(Blocked::from_json(blocked.to_json().as_str()).unwrap(), *blocked);
    assert!(Blocked::from_json("{}").is_err());
}

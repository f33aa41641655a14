//! What holds whatever happens.

use super::place::{PLACES, attempt_name, state_name};
use longhaul_core::{
    AnsweredBy, AttemptEnd, ConfirmBy, Event, InputKey, MAX_STATUS_BYTES, State, Task, UnixMillis, Verdict,
};
use std::collections::BTreeSet;

/// An answer that confirms.
pub(crate) const ACCEPTED: &str = r#"{"action":"accept"}"#;

/// What holds between any task and what any legal event makes of it.
pub(crate) fn keeps_the_invariants(before: &Task, after: &Task) {
    assert_eq!(after.version, before.version + 1);
    assert!(after.updated_at >= before.updated_at);
    assert!(after.announced_until >= before.announced_until);
    assert!(after.retry_until >= before.retry_until);
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
    assert_eq!(
        after.awaits_confirmation(),
        after.is_suspended() && after.attempt.is_none()
    );
    assert!(
        !after.awaits_confirmation() || after.open_inputs.len() == 1,
        "it asks once"
    );
    if matches!(after.state, State::Done(Verdict::ToolError | Verdict::RpcError)) {
        let why = after.status.as_deref().unwrap_or_default();
        assert!(
            !why.is_empty() && why.lines().count() == 1,
            "it says why it failed: {why:?}"
        );
        assert!(why.len() <= MAX_STATUS_BYTES);
    }
    assert!(after.journaled >= before.journaled && after.journaled <= before.journaled + 1);
    assert!(after.woken >= before.woken);
    assert!(
        after.resume_at.is_none() || after.is_suspended() || after.state == State::Blocked,
        "who works, or waits for a slot, waits for no timer"
    );
    assert!(
        !(after.is_suspended() || after.state == State::Blocked) || after.stop.is_none(),
        "nobody is left who could follow a request to stop"
    );
    assert!(
        after.state != State::Blocked || after.block().is_some(),
        "a blocked task says why"
    );
    assert!(
        !after.is_done() || after.blocked.is_none(),
        "what ended it is its outcome"
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
        before.accepted_by,
        &before.lineage,
        before.confirm_by,
    );
    assert_eq!(
        (
            &after.id,
            &after.owner,
            after.created_at,
            after.deadline,
            after.retention,
            after.accepted_by,
            &after.lineage,
            after.confirm_by,
        ),
        unchanged
    );
}

/// Nothing but a change of the code, an operator or its timers ends a block.
pub(crate) fn keeps_its_block(before: &Task, event: &Event, after: &Task) {
    if before.state != State::Blocked || after.state == State::Blocked {
        return;
    }
    let ends = matches!(
        event,
        Event::Unblocked { .. }
            | Event::TimerFired
            | Event::BlockedTimedOut
            | Event::CancelRequested(_)
            | Event::DeadlinePassed
            // Whoever restores a backup is an operator, too.
            | Event::Abandoned(_)
    );
    assert!(ends, "{event:?} ended a block");
    assert!(
        after.is_done() || after.blocked == before.blocked,
        "it is forgiven by an entry only"
    );
}

/// Nothing but an answer that says so lets a task begin that has to be confirmed.
pub(crate) fn keeps_its_confirmation(before: &Task, event: &Event, after: &Task) {
    if !before.awaits_confirmation() {
        assert!(!after.awaits_confirmation(), "it asks once");
    } else if !after.awaits_confirmation() && !after.is_done() {
        let Event::InputAnswered { answer, by, .. } = event else {
            panic!("{event:?} lets it begin")
        };
        assert_eq!(answer.as_str(), ACCEPTED);
        assert!(before.confirm_by == Some(ConfirmBy::Client) || *by != AnsweredBy::Client);
        assert_eq!((after.state, &after.status), (State::Queued, &None));
    }
}

/// Nothing that suspended work waits for passes unnoticed, whether it comes before or after the work is suspended.
pub(crate) fn keeps_its_wake_ups(before: &Task, event: &Event, after: &Task, now: UnixMillis) {
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

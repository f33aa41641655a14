//! The numbers that databases store for enum values. A value's number is its position in its table; tables only grow at their end.

use longhaul_core::{
    AnsweredBy, AttemptState, ConfirmBy, EntryKind, Origin, State, StopReason, Verdict,
    store::{EventDelivery, NodeRole},
};

const STATES: [State; 7] = [
    State::Queued,
    State::Running,
    State::Suspended,
    State::Done(Verdict::Succeeded),
    State::Done(Verdict::ToolError),
    State::Done(Verdict::RpcError),
    State::Done(Verdict::Cancelled),
];
/// The one state that is not in the table: what is live stands below [`State::Done`], in the indices too, and there the table is full.
const BLOCKED: i64 = -1;
/// States of attempts.
pub const ATTEMPT_STATES: [AttemptState; 4] = [
    AttemptState::Starting,
    AttemptState::Live,
    AttemptState::Stopping,
    AttemptState::Ended,
];
/// Why a task is to stop.
pub const STOP_REASONS: [StopReason; 2] = [StopReason::Cancel, StopReason::Deadline];
/// Generations of the protocol.
pub const ORIGINS: [Origin; 2] = [Origin::Legacy, Origin::Modern];
/// Roles of nodes.
pub const NODE_ROLES: [NodeRole; 3] = [NodeRole::Both, NodeRole::Front, NodeRole::Worker];
/// How the events of nodes reach others.
pub const DELIVERIES: [EventDelivery; 3] = [EventDelivery::Own, EventDelivery::Other, EventDelivery::Lost];
/// Who answers questions.
pub const ANSWERED_BY: [AnsweredBy; 3] = [AnsweredBy::Client, AnsweredBy::Operator, AnsweredBy::Server];
/// Who confirms tasks.
pub const CONFIRM_BY: [ConfirmBy; 2] = [ConfirmBy::Client, ConfirmBy::Operator];
/// Kinds of entries of a journal.
pub const ENTRY_KINDS: [EntryKind; 12] = [
    EntryKind::Step,
    EntryKind::Timer,
    EntryKind::Input,
    EntryKind::Child,
    EntryKind::Poll,
    EntryKind::Emit,
    EntryKind::Now,
    EntryKind::Random,
    EntryKind::Select,
    EntryKind::Version,
    EntryKind::Failure,
    EntryKind::Checkpoint,
];

/// The number of `word`. The test below checks that every value is in its table; the compiler cannot.
pub fn of<T: PartialEq>(table: &[T], word: T) -> i64 {
    let place = table.iter().position(|other| *other == word);
    place.and_then(|place| i64::try_from(place).ok()).unwrap_or(-1)
}

/// The number of a state.
pub fn of_state(state: State) -> i64 {
    match state {
        State::Blocked => BLOCKED,
        other => of(&STATES, other),
    }
}

/// The state with this number.
pub fn state(number: i64) -> Option<State> {
    match number {
        BLOCKED => Some(State::Blocked),
        _ => word(&STATES, number),
    }
}

/// The word with this number; `None` for a number that this release never wrote.
pub fn word<T: Copy>(table: &[T], number: i64) -> Option<T> {
    let place = usize::try_from(number).ok()?;
    table.get(place).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The matches are exhaustive, so a new value does not compile until it is added here.
    #[test]
    fn every_word_keeps_its_number() {
        for state in STATES.into_iter().chain([State::Blocked]) {
            let expected = match state {
                State::Blocked => -1,
                State::Queued => 0,
                State::Running => 1,
                State::Suspended => 2,
                State::Done(Verdict::Succeeded) => 3,
                State::Done(Verdict::ToolError) => 4,
                State::Done(Verdict::RpcError) => 5,
                State::Done(Verdict::Cancelled) => 6,
            };
            assert_eq!((of_state(state), super::state(expected)), (expected, Some(state)));
        }
        for (number, state) in (0..).zip(ATTEMPT_STATES) {
            let expected = match state {
                AttemptState::Starting => 0,
                AttemptState::Live => 1,
                AttemptState::Stopping => 2,
                AttemptState::Ended => 3,
            };
            assert_eq!((number, of(&ATTEMPT_STATES, state)), (expected, expected));
        }
        for reason in STOP_REASONS {
            let expected = match reason {
                StopReason::Cancel => 0,
                StopReason::Deadline => 1,
            };
            assert_eq!(of(&STOP_REASONS, reason), expected);
        }
        for origin in ORIGINS {
            let expected = match origin {
                Origin::Legacy => 0,
                Origin::Modern => 1,
            };
            assert_eq!(of(&ORIGINS, origin), expected);
        }
        for by in ANSWERED_BY {
            let expected = match by {
                AnsweredBy::Client => 0,
                AnsweredBy::Operator => 1,
                AnsweredBy::Server => 2,
            };
            assert_eq!(of(&ANSWERED_BY, by), expected);
        }
        for by in CONFIRM_BY {
            let expected = match by {
                ConfirmBy::Client => 0,
                ConfirmBy::Operator => 1,
            };
            assert_eq!(of(&CONFIRM_BY, by), expected);
        }
        for kind in EntryKind::ALL {
            let expected = match kind {
                EntryKind::Step => 0,
                EntryKind::Timer => 1,
                EntryKind::Input => 2,
                EntryKind::Child => 3,
                EntryKind::Poll => 4,
                EntryKind::Emit => 5,
                EntryKind::Now => 6,
                EntryKind::Random => 7,
                EntryKind::Select => 8,
                EntryKind::Version => 9,
                EntryKind::Failure => 10,
                EntryKind::Checkpoint => 11,
            };
            assert_eq!(of(&ENTRY_KINDS, kind), expected);
        }
    }
}

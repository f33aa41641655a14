//! Tasks that have to be confirmed are written with their question, and do not run before its answer.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{
    AnsweredBy, CancelMode, ChildEntry, ConfirmBy, Confirmation, Entry, EntryKey, EntryKind, Event, Failure, Fence,
    Input, InputKey, InputState, Json, Lineage, Outcome, Reason, State, Task, UnixMillis,
    store::{ApplyError, Created, Idempotency, NewTask, ParentEntry, TaskLookup},
};

const REQUEST: &str = r#"{"method":"elicitation/create","params":{"message":"Deploy?"}}"#;
const UNTIL: i64 = 100;

fn unconfirmed(name: &str, fixture: &Fixture, by: ConfirmBy) -> NewTask {
    NewTask {
        confirmation: Some(Box::new(Confirmation {
            by,
            request: Json::trusted(REQUEST),
            until: UnixMillis(UNTIL),
        })),
        // It takes no slot, whoever offers one.
        claim: Some((fixture.node, None)),
        ..new_task(name, fixture.node, 1)
    }
}

fn answer(action: &str, by: AnsweredBy) -> Event {
    Event::InputAnswered {
        key: InputKey::nth(1),
        answer: Json::trusted(format!(r#"{{"action":"{action}"}}"#)),
        by,
    }
}

async fn question_of(fixture: &Fixture, task: &Task) -> Input {
    let found = fixture.store.input(&task.id, &InputKey::nth(1)).await;
    found.expect("it is read").expect("it was written with the task")
}

/// Also over a restart: it waits, holds nothing, and is asked once.
pub async fn a_task_waits_for_its_confirmation(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let mut new = unconfirmed("a", &fixture, ConfirmBy::Client);
    new.idempotency = Some(Idempotency {
        key: "once".into(),
        digest: [1; 32],
    });
    let made = fixture.create(new.clone()).await;
    assert!(made.awaits_confirmation() && made.attempt.is_none());
    assert_eq!(made.open_inputs, [InputKey::nth(1)]);
    let usage = fixture.store.usage(None).await.expect("it is counted");
    assert!(usage.bytes > REQUEST.len() as u64);

    let fixture = fixture.restart().await;
    let record = fixture.get_unscoped(&made.id).await;
    assert_eq!(record.task, made);
    let [open] = &record.inputs[..] else {
        panic!("it asks once, and not {:?}", record.inputs)
    };
    assert_eq!((open.request.as_str(), &open.state), (REQUEST, &InputState::Open));
    assert_eq!(*open, question_of(&fixture, &made).await);
    assert_eq!(fixture.claim("tool", 9, 99).await, []);
    new.header.id = id("b");
    new.header.accepted_by = fixture.node;
    new.claim = Some((fixture.node, None));
    assert_eq!(fixture.store.create(new).await, Ok(Created::Existing(made.clone())));
    assert_eq!(fixture.store.counts().await.expect("counts").suspended, 1);

    let accepted = vec![answer("accept", AnsweredBy::Operator)];
    let queued = fixture
        .apply(&made.id, None, accepted, 50)
        .await
        .expect("it is confirmed");
    assert_eq!((queued.state, queued.ready_at), (State::Queued, UnixMillis(50)));
    assert_eq!((&queued.status, queued.resume_at), (&None, None));
    let fixture = fixture.restart().await;
    let input = question_of(&fixture, &made).await;
    assert!(matches!(input.state, InputState::Answered(_)));
    assert_eq!(input.answered_by, Some(AnsweredBy::Operator));
    let again = fixture
        .apply(&made.id, None, vec![answer("decline", AnsweredBy::Client)], 51)
        .await;
    assert!(matches!(again, Err(ApplyError::Illegal(_))), "{again:?}");
    let claimed = fixture.claim("tool", 9, 52).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].task.confirm_by, Some(ConfirmBy::Client));
}

/// In the write of the answer, or of the time: there is no moment at which it could begin.
pub async fn what_is_not_confirmed_ends(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let ends = [
        (
            "a",
            answer("decline", AnsweredBy::Client),
            Some(Failure::Declined {
                by: "the client's user",
            }),
        ),
        (
            "b",
            answer("cancel", AnsweredBy::Operator),
            Some(Failure::Unconfirmed {
                why: "the question was dismissed".to_owned(),
            }),
        ),
        (
            "c",
            Event::TimerFired,
            Some(Failure::Unconfirmed {
                why: "nobody answered in time".to_owned(),
            }),
        ),
        ("d", Event::CancelRequested(CancelMode::Cooperative), None),
    ];
    for (name, event, failure) in ends {
        let made = fixture.create(unconfirmed(name, &fixture, ConfirmBy::Client)).await;
        let ended = fixture
            .apply(&made.id, None, vec![event], UNTIL)
            .await
            .expect("it ends");
        assert!(ended.is_done() && ended.attempt.is_none(), "{name}");
        let outcome = failure.map_or(Outcome::Cancelled, Outcome::from);
        assert_eq!(ended.status, outcome.failure_line(), "{name}");
        let record = fixture.get_unscoped(&made.id).await;
        assert_eq!((record.outcome, record.inputs), (Some(outcome), Vec::new()), "{name}");
        assert_ne!(question_of(&fixture, &made).await.state, InputState::Open, "{name}");
    }
    assert_eq!(fixture.claim("tool", 9, 200).await, []);
}

/// When the system clock was set, suspended work looks at it again; of these there is none, and their time is not over.
pub async fn a_step_of_the_clock_does_not_end_a_confirmation(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let made = fixture.create(unconfirmed("a", &fixture, ConfirmBy::Operator)).await;
    fixture
        .store
        .make_timers_due(UnixMillis(2))
        .await
        .expect("it is written");
    assert_eq!(fixture.get_unscoped(&made.id).await.task, made);
    let due = |at| fixture.store.find(TaskLookup::DueTimers(UnixMillis(at)), 9);
    assert_eq!(due(UNTIL - 1).await, Ok(Vec::new()));
    assert_eq!(due(UNTIL).await, Ok(vec![made]));
}

/// What a client answers is not written.
pub async fn a_client_does_not_confirm_for_an_operator(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let made = fixture.create(unconfirmed("a", &fixture, ConfirmBy::Operator)).await;
    for action in ["accept", "decline"] {
        let refused = fixture
            .apply(&made.id, None, vec![answer(action, AnsweredBy::Client)], 2)
            .await;
        let Err(ApplyError::Illegal(illegal)) = refused else {
            panic!("a client has answered {action}: {refused:?}")
        };
        assert_eq!(illegal.reason, Reason::NotForClients);
    }
    assert_eq!(fixture.get_unscoped(&made.id).await.task, made);
    assert_eq!(question_of(&fixture, &made).await.state, InputState::Open);
    let accepted = vec![answer("accept", AnsweredBy::Operator)];
    let confirmed = fixture
        .apply(&made.id, None, accepted, 3)
        .await
        .expect("it is confirmed");
    assert_eq!(confirmed.state, State::Queued);
}

/// A child that is declined is an end as any other.
pub async fn a_parent_learns_that_its_child_was_declined(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (parent, fence) = fixture.running("p", 1).await;
    let mut child = unconfirmed("c", &fixture, ConfirmBy::Client);
    child.header.lineage = Some(Lineage {
        parent: parent.id.clone(),
        entry: 1,
        root: parent.id.clone(),
        depth: 1,
    });
    child.parent = Some(ParentEntry {
        fence,
        entry: entry_of_child(&child, fence),
    });
    let child = fixture.create(child).await;
    assert!(child.awaits_confirmation());
    let declined = vec![answer("decline", AnsweredBy::Operator)];
    fixture.apply(&child.id, None, declined, 5).await.expect("it ends");
    let journal = fixture.store.journal(&parent.id, 0, 9).await.expect("the journal");
    let end = ChildEntry::from_json(&journal[0].value).expect("an entry of a child");
    let outcome = Outcome::from(Failure::Declined { by: "an operator" });
    assert_eq!(end.outcome, Some(outcome));
}

fn entry_of_child(child: &NewTask, fence: Fence) -> Entry {
    let value = ChildEntry {
        task: child.id.clone(),
        outcome: None,
    };
    Entry {
        seq: 1,
        key: EntryKey {
            path: "".into(),
            kind: EntryKind::Child,
            name: "tool".into(),
            nth: 1,
        },
        beside: false,
        value: value.to_json(),
        at: UnixMillis(1),
        epoch: fence.epoch,
    }
}

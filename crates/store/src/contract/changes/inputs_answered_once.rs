//! Invariant 4: an input key is answered once.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{AnsweredBy, AttemptEnd, Event, InputKey, InputState, Json, UnixMillis, store::ApplyError};

/// Of two concurrent answers one is stored, and the other is refused.
pub async fn invariant_4_an_input_key_is_answered_once(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, fence) = fixture.running("a", 1).await;
    fixture
        .apply(&task.id, Some(fence), vec![asked(1), asked(2)], 2)
        .await
        .expect("two questions");
    let keys = |record: longhaul_core::store::Record| -> Vec<InputKey> {
        record.inputs.into_iter().map(|input| input.key).collect()
    };
    assert_eq!(
        keys(fixture.get_unscoped(&task.id).await),
        [InputKey::nth(1), InputKey::nth(2)],
        "oldest first"
    );
    let open = fixture.input(&task.id, 1).await.expect("the question");
    assert_eq!(
        (open.state, open.settled_at, open.answered_by),
        (InputState::Open, None, None)
    );
    assert_eq!(fixture.input(&task.id, 3).await, None);

    let answers = [
        ("yes", AnsweredBy::Client),
        ("no", AnsweredBy::Operator),
        ("perhaps", AnsweredBy::Server),
    ];
    let tries: Vec<_> = answers
        .iter()
        .map(|(text, by)| Box::pin(fixture.apply(&task.id, None, vec![answered_by(text, *by)], 3)))
        .collect();
    let told = together(tries).await;
    let winner = told.iter().position(Result::is_ok).expect("one is taken");
    assert_eq!(told.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert!(
        told.iter()
            .flat_map(|answer| answer.as_ref().err())
            .all(|error| matches!(error, ApplyError::Illegal(_)))
    );

    let kept = fixture.input(&task.id, 1).await.expect("the answer");
    let (text, by) = answers[winner];
    assert_eq!(kept.state, InputState::Answered(answer_of(text)));
    assert_eq!(kept.answered_by, Some(by));
    assert_eq!((kept.asked_at, kept.settled_at), (UnixMillis(2), Some(UnixMillis(3))));
    assert_eq!(keys(fixture.get_unscoped(&task.id).await), [InputKey::nth(2)]);
    let again = fixture.apply(&task.id, None, vec![answered(1, "later")], 4).await;
    assert!(matches!(again, Err(ApplyError::Illegal(_))));
    assert_eq!(fixture.input(&task.id, 1).await, Some(kept));
}

/// Who has answered is written with the answer; nobody has answered what is open or withdrawn.
pub async fn who_has_answered_is_kept(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, fence) = fixture.running("a", 1).await;
    let by = [AnsweredBy::Client, AnsweredBy::Operator, AnsweredBy::Server];
    for (nth, by) in (1..).zip(by) {
        // In one change, too.
        let answered = Event::InputAnswered {
            key: InputKey::nth(nth),
            answer: Json::trusted("{}"),
            by,
        };
        fixture
            .apply(&task.id, Some(fence), vec![asked(nth), answered], 2)
            .await
            .expect("a question with its answer");
    }
    fixture
        .apply(&task.id, Some(fence), vec![asked(4), asked(5)], 3)
        .await
        .expect("two more");
    let withdrawn = Event::InputWithdrawn { key: InputKey::nth(4) };
    fixture
        .apply(&task.id, Some(fence), vec![withdrawn], 4)
        .await
        .expect("withdrawn");
    let fixture = fixture.restart().await;
    let inputs = fixture.store.inputs(&task.id, 9).await.expect("the questions");
    let kept: Vec<_> = inputs.iter().map(|input| input.answered_by).collect();
    let expected: Vec<_> = by.map(Some).into_iter().chain([None, None]).collect();
    assert_eq!(kept, expected);
}

/// An answer to the first question.
fn answered_by(text: &str, by: AnsweredBy) -> Event {
    Event::InputAnswered {
        key: InputKey::nth(1),
        answer: answer_of(text),
        by,
    }
}

fn answer_of(text: &str) -> Json {
    let Event::InputAnswered { answer, .. } = answered(1, text) else {
        unreachable!("an answer")
    };
    answer
}

/// The next attempt asks again, under new keys; the old question can no longer be answered.
pub async fn questions_are_withdrawn_with_their_attempt(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, old) = fixture.running("a", 1).await;
    fixture
        .apply(&task.id, Some(old), vec![asked(1)], 2)
        .await
        .expect("a question");
    let failed = AttemptEnd::Failed {
        outcome: answer_text("no"),
        retry_at: Some(UnixMillis(3)),
        asks_again: false,
    };
    fixture
        .apply(&task.id, Some(old), vec![Event::AttemptEnded(failed)], 3)
        .await
        .expect("queued again");
    assert_eq!(fixture.get_unscoped(&task.id).await.inputs, []);
    let late = fixture.apply(&task.id, None, vec![answered(1, "late")], 4).await;
    assert!(matches!(late, Err(ApplyError::Illegal(_))));
    let claimed = fixture.claim("tool", 1, 5).await;
    let fence = fence(&claimed[0].task);
    fixture
        .apply(&task.id, Some(fence), vec![asked(2)], 6)
        .await
        .expect("a new key");
    let withdraw = Event::InputWithdrawn { key: InputKey::nth(2) };
    fixture
        .apply(&task.id, Some(fence), vec![withdraw], 7)
        .await
        .expect("withdrawn");
    assert_eq!(fixture.get_unscoped(&task.id).await.inputs, []);
    for (nth, at) in [(1, 3), (2, 7)] {
        let withdrawn = fixture.input(&task.id, nth).await.expect("the question");
        assert_eq!(
            (withdrawn.state, withdrawn.settled_at),
            (InputState::Withdrawn, Some(UnixMillis(at)))
        );
    }
}

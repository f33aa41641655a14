//! Invariant 4: an input key is answered once.

use super::{NewSubject, fixture::*};
use longhaul_core::{AttemptEnd, Event, InputKey, InputState, Json, UnixMillis, store::ApplyError};

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
    assert_eq!((open.state, open.settled_at), (InputState::Open, None));
    assert_eq!(fixture.input(&task.id, 3).await, None);

    let answers = ["yes", "no", "perhaps"];
    let tries: Vec<_> = answers
        .iter()
        .map(|text| Box::pin(fixture.apply(&task.id, None, vec![answered(1, text)], 3)))
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
    assert_eq!(kept.state, InputState::Answered(answer_of(answers[winner])));
    assert_eq!((kept.asked_at, kept.settled_at), (UnixMillis(2), Some(UnixMillis(3))));
    assert_eq!(keys(fixture.get_unscoped(&task.id).await), [InputKey::nth(2)]);
    let again = fixture.apply(&task.id, None, vec![answered(1, "later")], 4).await;
    assert!(matches!(again, Err(ApplyError::Illegal(_))));
    assert_eq!(fixture.input(&task.id, 1).await, Some(kept));
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

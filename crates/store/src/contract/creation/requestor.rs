//! The requestor is stored with the arguments, and a question's name with the question.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{InputState, Json, UnixMillis};

/// The requestor is returned to the claimer, to the adopter after a restart, and to a read by id.
pub async fn the_requestor_is_kept_with_the_arguments(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    fixture.create(new_task("a", fixture.node, 1)).await;
    let arguments = Json::trusted(r#"{"of":"a"}"#);
    let requestor = Json::trusted(r#"{"by":"a"}"#);
    let claimed = fixture.claim("tool", 1, 2).await;
    assert_eq!((&claimed[0].arguments, &claimed[0].requestor), (&arguments, &requestor));

    let fixture = fixture.restart().await;
    let adopted = fixture.store.adopt(fixture.node, &host(), 1, UnixMillis(3)).await;
    let adopted = adopted.expect("an answer");
    assert_eq!((&adopted[0].arguments, &adopted[0].requestor), (&arguments, &requestor));
    assert_eq!(fixture.store.requestor(&id("a")).await, Ok(Some(requestor)));
    assert_eq!(fixture.store.requestor(&id("never-made")).await, Ok(None));
}

/// A question without a name has none; names need not be unique.
pub async fn a_question_keeps_its_name(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, fence) = fixture.running("a", 1).await;
    let questions = vec![asked(1), asked(2), asked(3)];
    fixture
        .apply(&task.id, Some(fence), questions, 2)
        .await
        .expect("questions");
    let fixture = fixture.restart().await;
    let inputs = fixture.get_unscoped(&task.id).await.inputs;
    let names: Vec<Option<&str>> = inputs.iter().map(|input| input.name.as_deref()).collect();
    assert_eq!(names, [Some("odd"), None, Some("odd")]);

    let answer = fixture.apply(&task.id, None, vec![answered(1, "yes")], 3).await;
    answer.expect("an answer");
    let kept = fixture.input(&task.id, 1).await.expect("the answer");
    assert_eq!(kept.name.as_deref(), Some("odd"));
    // All of them, also the one that is answered.
    let all = fixture.store.inputs(&task.id, 9).await.expect("questions");
    let states: Vec<bool> = all.iter().map(|input| input.state == InputState::Open).collect();
    assert_eq!((states, &all[0]), (vec![false, true, true], &kept));
    let first = fixture.store.inputs(&task.id, 1).await;
    assert_eq!(first, Ok(vec![kept]));
}

//! The requestor is stored with the arguments, and a question's name with the question.

use super::{Fresh, fixture::*};
use longhaul_core::{Json, UnixMillis};

/// The requestor is returned to the claimer, to the adopter after a restart, and to a read by id.
pub async fn the_requestor_is_kept_with_the_arguments(fresh: Fresh) {
    let bench = Bench::fresh(fresh).await;
    bench.create(new_task("a", bench.node, 1)).await;
    let arguments = Json::trusted(r#"{"of":"a"}"#);
    let requestor = Json::trusted(r#"{"by":"a"}"#);
    let claimed = bench.claim("tool", 1, 2).await;
    assert_eq!((&claimed[0].arguments, &claimed[0].requestor), (&arguments, &requestor));

    let bench = bench.restart().await;
    let adopted = bench.store.adopt(bench.node, &host(), 1, UnixMillis(3)).await;
    let adopted = adopted.expect("an answer");
    assert_eq!((&adopted[0].arguments, &adopted[0].requestor), (&arguments, &requestor));
    assert_eq!(bench.store.requestor(&id("a")).await, Ok(Some(requestor)));
    assert_eq!(bench.store.requestor(&id("never-made")).await, Ok(None));
}

/// A question without a name has none; names need not be unique.
pub async fn a_question_keeps_its_name(fresh: Fresh) {
    let bench = Bench::fresh(fresh).await;
    let (task, fence) = bench.running("a", 1).await;
    let questions = vec![asked(1), asked(2), asked(3)];
    bench
        .apply(&task.id, Some(fence), questions, 2)
        .await
        .expect("questions");
    let bench = bench.restart().await;
    let inputs = bench.get_unscoped(&task.id).await.inputs;
    let names: Vec<Option<&str>> = inputs.iter().map(|input| input.name.as_deref()).collect();
    assert_eq!(names, [Some("odd"), None, Some("odd")]);

    let answer = bench.apply(&task.id, None, vec![answered(1, "yes")], 3).await;
    answer.expect("an answer");
    let kept = bench.input(&task.id, 1).await.expect("the answer");
    assert_eq!(kept.name.as_deref(), Some("odd"));
}

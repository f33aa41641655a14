//! A change happens whole or not at all.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{
    Event, InputState, SpecId,
    store::{ApplyError, CreateError, StoreError},
};

/// The last event is not legal, so none of them happened: neither to the task nor to its questions.
pub async fn a_refused_change_leaves_no_trace(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (task, fence) = fixture.running("a", 1).await;
    fixture
        .apply(&task.id, Some(fence), vec![asked(1)], 2)
        .await
        .expect("a question");
    let before = fixture.get_unscoped(&task.id).await;
    let events = vec![Event::Started, asked(2), answered(1, "yes"), finished("done"), asked(3)];
    let refused = fixture.apply(&task.id, Some(fence), events, 3).await;
    assert!(matches!(refused, Err(ApplyError::Illegal(_))), "{refused:?}");
    assert_eq!(fixture.get_unscoped(&task.id).await, before);
    let question = fixture.input(&task.id, 1).await.expect("the question");
    assert_eq!(question.state, InputState::Open);
    fixture
        .apply(&task.id, Some(fence), vec![asked(2)], 4)
        .await
        .expect("the key was not used up");
    let unknown = fixture.apply(&id("nobody"), None, vec![Event::Promoted], 5).await;
    assert_eq!(unknown, Err(ApplyError::NotFound));
}

/// An id that is taken, a definition that was never put.
pub async fn a_refused_task_leaves_no_trace(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let task = fixture.create(new_task("a", fixture.node, 1)).await;
    let mut again = new_task("a", fixture.node, 9);
    again.outcome = Some(answer_text("no"));
    assert!(matches!(
        fixture.store.create(again).await,
        Err(CreateError::Store(StoreError::Failed(_)))
    ));
    assert_eq!(fixture.get_unscoped(&task.id).await.task, task);
    let mut unknown = new_task("b", fixture.node, 2);
    unknown.header.spec = SpecId::named("never put");
    assert!(matches!(
        fixture.store.create(unknown).await,
        Err(CreateError::Store(StoreError::Failed(_)))
    ));
    assert_eq!(fixture.store.get_unscoped(&id("b")).await, Ok(None));
    fixture.create(new_task("b", fixture.node, 3)).await;
}

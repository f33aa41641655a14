//! Invariant 6: live work is not ended by its time to live.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{CancelMode, Event, UnixMillis};

const FAR: UnixMillis = UnixMillis(1 << 50);

/// Neither a task nor an attempt that outlives its task is deleted, however late it is.
pub async fn invariant_6_live_work_is_not_deleted(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let queued = fixture.create(new_task("queued", fixture.node, 1)).await;
    let (running, _) = fixture.running("running", 1).await;
    let (stopping, fence) = fixture.running("stopping", 1).await;
    fixture
        .apply(&stopping.id, None, vec![Event::CancelRequested(CancelMode::AtOnce)], 2)
        .await
        .expect("cancelled");
    let all = vec![queued.id.clone(), running.id.clone(), stopping.id.clone()];
    assert_eq!(fixture.store.expired(FAR, 10).await, Ok(vec![]));
    assert_eq!(fixture.store.delete(&host(), all.clone(), FAR).await, Ok(0));
    for id in &all {
        fixture.get_unscoped(id).await;
    }
    // Its worker is gone: now it has a retention, which ends.
    let over = fixture
        .apply(&stopping.id, Some(fence), vec![finished("late")], 3)
        .await
        .expect("the attempt ends");
    let delete_at = over.delete_at().expect("a moment");
    let just_before = UnixMillis(delete_at.0 - 1);
    assert_eq!(
        fixture.store.delete(&host(), all.clone(), just_before).await,
        Ok(0),
        "an announced task stays"
    );
    assert_eq!(
        fixture.store.expired(delete_at, 10).await,
        Ok(vec![stopping.id.clone()])
    );
    assert_eq!(fixture.store.delete(&host(), all, delete_at).await, Ok(1));
    assert_eq!(fixture.store.get_unscoped(&stopping.id).await, Ok(None));
}

/// The id, the outcome and the answers are deleted, from lists too; other tasks are unchanged.
pub async fn a_deleted_task_leaves_nothing(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    for n in 0..4 {
        let name = format!("t{n}");
        let (task, fence) = fixture.running(&name, n).await;
        let events = vec![asked(1), answered(1, "yes"), finished(&name)];
        fixture
            .apply(&task.id, Some(fence), events, n + 1)
            .await
            .expect("it ends");
    }
    let due = fixture
        .get_unscoped(&id("t1"))
        .await
        .task
        .delete_at()
        .expect("a moment");
    assert_eq!(
        fixture.store.expired(due, 1).await,
        Ok(vec![id("t0")]),
        "earliest first"
    );
    let expired = fixture.store.expired(due, 10).await.expect("a list");
    assert_eq!(expired, [id("t0"), id("t1")]);
    assert_eq!(
        fixture
            .store
            .delete(&host(), [expired, vec![id("unknown")]].concat(), due)
            .await,
        Ok(2)
    );
    for gone in ["t0", "t1"] {
        assert_eq!(fixture.get("alice", &id(gone)).await, None);
        assert_eq!(fixture.input(&id(gone), 1).await, None);
    }
    let left = fixture
        .store
        .list(&scope("alice"), None, 10)
        .await
        .expect("a list")
        .tasks;
    assert_eq!(
        left.iter().map(|task| task.id.clone()).collect::<Vec<_>>(),
        [id("t3"), id("t2")]
    );
    assert_eq!(fixture.get_unscoped(&id("t2")).await.outcome, Some(answer_text("t2")));
    // A new task with the same id has nothing of the deleted one.
    let task = fixture.create(new_task("t0", fixture.node, 50)).await;
    let record = fixture.get_unscoped(&task.id).await;
    assert_eq!((record.outcome, record.inputs), (None, vec![]));
}

/// What is over can be deleted whenever its owner wants that, and what is not over cannot.
pub async fn an_ended_task_can_be_deleted_before_its_time(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let empty = fixture.store.usage(None).await.expect("the usage");
    let (done, fence) = fixture.running("done", 1).await;
    let events = vec![asked(1), answered(1, "yes"), finished("early")];
    fixture.apply(&done.id, Some(fence), events, 2).await.expect("it ends");
    let other = fixture.running("other", 3).await;
    fixture
        .apply(&other.0.id, Some(other.1), vec![finished("stays")], 4)
        .await
        .expect("it ends");
    let queued = fixture.create(new_task("queued", fixture.node, 1)).await;
    let (running, _) = fixture.running("running", 1).await;
    let (stopping, _) = fixture.running("stopping", 1).await;
    fixture
        .apply(&stopping.id, None, vec![Event::CancelRequested(CancelMode::AtOnce)], 2)
        .await
        .expect("cancelled");
    let live = vec![queued.id.clone(), running.id.clone(), stopping.id.clone()];
    let now = UnixMillis(5);
    let ids = [live.clone(), vec![done.id.clone(), id("unknown")]].concat();
    assert_eq!(fixture.store.delete_ended(&host(), ids.clone(), now).await, Ok(1));
    assert_eq!(fixture.store.delete_ended(&host(), ids, now).await, Ok(0));
    let fixture = fixture.restart().await;
    assert_eq!(fixture.store.get_unscoped(&done.id).await, Ok(None));
    assert_eq!(fixture.input(&done.id, 1).await, None);
    assert_eq!(fixture.store.journal(&done.id, 0, 10).await, Ok(vec![]));
    for id in live.iter().chain([&other.0.id]) {
        fixture.get_unscoped(id).await;
    }
    // Its bytes are not counted any more.
    let ids = vec![other.0.id.clone()];
    assert_eq!(fixture.store.delete_ended(&host(), ids, now).await, Ok(1));
    let usage = fixture.store.usage(None).await.expect("the usage");
    assert!(usage.bytes > empty.bytes, "those that are kept are counted");
    assert_eq!(usage.live, empty.live + 2);
}

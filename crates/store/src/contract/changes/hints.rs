//! Events of changes.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{CancelMode, Event, UnixMillis, store::StoreEvent};
use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

/// What is told of changes can be read by then. With one process, the last change of each task and each queued task are told; with many, events
/// may be lost.
pub async fn events_are_never_wrong(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (tell, told) = mpsc::channel::<StoreEvent>();
    let tell = Mutex::new(tell);
    fixture.store.listen(Arc::new(move |events: &[StoreEvent]| {
        let tell = tell.lock().expect("the listener's lock");
        events.iter().for_each(|event| drop(tell.send(event.clone())));
    }));
    let one_process = !fixture.store.capabilities().many_nodes;
    let (mut announced, mut queued) = (0, None);
    let mut events = async |version, with_queue| {
        loop {
            // Only a store that must tell of it is waited for.
            let is_missing = announced < version || with_queue && queued.is_none();
            let event = match one_process && is_missing {
                true => told
                    .recv_timeout(Duration::from_secs(30))
                    .expect("an event of the change"),
                false => match told.try_recv() {
                    Ok(event) => event,
                    Err(_) => return queued.clone(),
                },
            };
            match event {
                StoreEvent::TaskChanged(hint) => {
                    let task = fixture.get_unscoped(&hint.task).await.task;
                    assert!(hint.version <= task.version, "{hint:?} is not readable");
                    assert!(hint.stop.is_none() || hint.stop == task.stop.map(|stop| stop.reason));
                    announced = announced.max(hint.version);
                }
                StoreEvent::QueueReady { tool, place } => queued = Some((tool, place.ready_at)),
                StoreEvent::PermitsChanged { .. }
                | StoreEvent::PausesChanged
                | StoreEvent::Message { .. }
                | StoreEvent::Resync => {}
            }
        }
    };
    let task = fixture.create(new_task("a", fixture.node, 1)).await;
    let ready = events(task.version, true).await;
    assert!(ready == Some(("tool".into(), UnixMillis(1))) || ready.is_none() && !one_process);
    let claimed = fixture.claim("tool", 1, 2).await;
    let fence = fence(&claimed[0].task);
    fixture
        .apply(&task.id, None, vec![Event::Started], 3)
        .await
        .expect_err("no fence");
    let started = fixture
        .apply(&task.id, Some(fence), vec![Event::Started, asked(1)], 3)
        .await
        .expect("it starts");
    events(started.version, false).await;
    let cancel = Event::CancelRequested(CancelMode::Cooperative);
    fixture.apply(&task.id, None, vec![cancel], 4).await.expect("cancelled");
    let done = fixture
        .apply(&task.id, Some(fence), vec![finished("done")], 5)
        .await
        .expect("it ends");
    events(done.version, false).await;
}

/// Versions of all tasks that exist, in one read.
pub async fn versions_are_read_together(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let (first, fence) = fixture.running("a", 1).await;
    let mut other = new_task("b", fixture.node, 1);
    other.announced = false;
    let other = fixture.create(other).await;
    let started = fixture
        .apply(&first.id, Some(fence), vec![Event::Started], 2)
        .await
        .expect("it starts");
    let ids = [id("c"), other.id.clone(), first.id.clone()];
    let mut versions = fixture.store.versions(&ids).await.expect("the versions");
    versions.sort();
    assert_eq!(
        versions,
        [(first.id.clone(), started.version), (other.id.clone(), other.version)]
    );
    assert_eq!(fixture.store.versions(&[]).await, Ok(vec![]));
}

//! Calls that were held in memory, outside of the store, until they were written.

use crate::contract::{NewSubject, fixture::*};
use longhaul_core::{
    Event, Principal, Quota, State, Task, Usage,
    store::{ApplyError, NewTask, StoreEvent, UnwrittenCall},
};

/// A call in memory whose attempt runs.
fn unwritten(name: &str, fixture: &Fixture) -> UnwrittenCall {
    let new = NewTask {
        announced: false,
        claim: Some((fixture.node, None)),
        ..new_task(name, fixture.node, 1)
    };
    UnwrittenCall {
        task: new.task().0,
        arguments: new.arguments,
        requestor: new.requestor,
    }
}

/// A call is written as it was, with the change that made it known, in one write. Repeating the write finds it.
pub async fn a_call_is_written_once_with_its_change(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let call = unwritten("a", &fixture);
    let (id, right) = (call.task.id.clone(), fence(&call.task));
    let promote = change(&id, None, vec![Event::Promoted], 2);
    let task = fixture
        .store
        .write_call(call.clone(), promote)
        .await
        .expect("it is written");
    let promoted = Task {
        announced: true,
        version: call.task.version + 1,
        ..call.task.clone()
    };
    assert_eq!(task, promoted);
    assert_eq!(fixture.get("alice", &id).await.expect("it is announced").task, promoted);
    let nothing = change(&id, None, Vec::new(), 3);
    assert_eq!(fixture.store.write_call(call.clone(), nothing).await, Ok(promoted));
    let ended = fixture
        .apply(&id, Some(right), vec![Event::Started, finished("done")], 4)
        .await;
    assert!(ended.expect("its attempt goes on").is_done());
    let kept = fixture.store.requestor(&id).await.expect("a read");
    assert_eq!(kept, Some(call.requestor), "the requestor is stored with it");
}

/// A call may be written without a change, or with the question it asks.
pub async fn a_call_is_written_with_its_question_or_with_nothing(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let call = unwritten("a", &fixture);
    let (id, right) = (call.task.id.clone(), fence(&call.task));
    let ask = change(&id, Some(right), vec![Event::Started, asked(1)], 2);
    let task = fixture.store.write_call(call, ask).await.expect("it is written");
    assert_eq!((task.state, task.inputs_asked), (State::Running, 1));
    assert!(fixture.input(&id, 1).await.is_some());
    let silent = unwritten("b", &fixture);
    let nothing = change(&silent.task.id, None, Vec::new(), 2);
    assert_eq!(
        fixture.store.write_call(silent.clone(), nothing).await,
        Ok(silent.task.clone())
    );
    assert_eq!(fixture.get_unscoped(&silent.task.id).await.task, silent.task);
}

/// A change that is not legal writes nothing, and a call that is written is counted, whatever the quota.
pub async fn a_refused_call_leaves_no_trace_and_a_written_one_is_counted(new_subject: NewSubject) {
    let fixture = Fixture::new(new_subject).await;
    let call = unwritten("a", &fixture);
    let id = call.task.id.clone();
    let fired = change(&id, None, vec![Event::TimerFired], 2);
    let refused = fixture.store.write_call(call.clone(), fired).await;
    assert!(matches!(refused, Err(ApplyError::Illegal(_))), "{refused:?}");
    assert!(fixture.store.get_unscoped(&id).await.expect("a read").is_none());
    let alice = Principal::named("alice");
    assert_eq!(fixture.store.usage(Some(&alice)).await, Ok(Usage::default()));
    let promote = change(&id, None, vec![Event::Promoted], 2);
    fixture
        .store
        .write_call(call.clone(), promote)
        .await
        .expect("it is written");
    let bytes = (call.arguments.as_str().len() + call.requestor.as_str().len()) as u64;
    assert_eq!(fixture.store.usage(Some(&alice)).await, Ok(Usage { live: 1, bytes }));
    let mut another = new_task("b", fixture.node, 3);
    another.quota = Quota {
        live_per_principal: Some(1),
        ..Quota::default()
    };
    assert!(
        fixture.store.create(another).await.is_err(),
        "it counts toward the quota"
    );
}

/// The end of a task is hinted with its record or without, and never with another one.
pub async fn a_hint_of_an_end_may_carry_the_record(new_subject: NewSubject) {
    use std::sync::{Arc, Mutex, mpsc};
    let fixture = Fixture::new(new_subject).await;
    let (send, receive) = mpsc::channel();
    let send = Mutex::new(send);
    fixture.store.listen(Arc::new(move |events: &[StoreEvent]| {
        let send = send.lock().expect("the listener's lock");
        for event in events {
            if let StoreEvent::TaskChanged(hint) = event {
                drop(send.send(hint.clone()));
            }
        }
    }));
    let (task, right) = fixture.running("a", 1).await;
    let end = vec![Event::Started, finished("done")];
    fixture.apply(&task.id, Some(right), end, 2).await.expect("it ends");
    let record = fixture.get_unscoped(&task.id).await;
    if fixture.store.capabilities().many_nodes {
        // Its events may be lost.
        return;
    }
    loop {
        let hint = receive
            .recv_timeout(std::time::Duration::from_secs(30))
            .expect("a hint for the last version");
        if let Some(ended) = &hint.ended {
            assert_eq!(**ended, record);
        }
        if hint.version == record.task.version {
            break;
        }
        assert!(hint.ended.is_none(), "it was not over then");
    }
}

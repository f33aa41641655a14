//! Plain calls in memory, in front of a store that can fail.
#![allow(clippy::unwrap_used)]

use futures_util::FutureExt;
use longhaul_core::{
    AttemptEnd, BoxFuture, CancelMode, Event, Fence, HostId, InputKey, Json, NodeId, Origin, Outcome, Owner, Principal,
    Quota, QuotaExceeded, SpecId, State, StopReason, Store, StoreLayer, Task, TaskHeader, TaskId, ToolSpec, UnixMillis,
    Verdict,
    store::{
        ApplyError, Change, Claim, CreateError, Created, Hint, NewTask, Record, StoreError, StoreEvent, TaskLookup,
        TaskStore, UnwrittenCall,
    },
};
use longhaul_store::{MemoryStore, PlainCallStore};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

const HOUR: u64 = 3_600_000;

/// The result of the next write of a call.
#[derive(Clone, Copy, Default)]
enum NextWrite {
    #[default]
    Made,
    Full,
    /// Made, but its answer is lost.
    MadeAndFailed,
    /// Not made, but the error does not show that.
    Failed,
    /// Made, but never answered.
    MadeAndSilent,
    /// Made later, and its answer is lost.
    MadeLate,
    /// Not made until its future is dropped, and never answered.
    Silent,
    /// Made when the disk is [released](Disk::released).
    WhenReleased,
}

#[derive(Default)]
struct Disk {
    kept: MemoryStore,
    next: Mutex<NextWrite>,
    writes: AtomicUsize,
    late: Mutex<Option<(UnwrittenCall, Change)>>,
    released: AtomicBool,
    /// Runs after the next read, before its answer is known.
    after_read: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Disk {
    async fn make_late(&self) {
        let late = self.late.lock().unwrap().take();
        if let Some((call, change)) = late {
            let _ = self.kept.write_call(call, change).await;
        }
    }

    fn next(&self, next: NextWrite) {
        *self.next.lock().unwrap() = next;
    }

    fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    fn has(&self, id: &TaskId) -> bool {
        self.kept.get_unscoped(id).now_or_never().unwrap().unwrap().is_some()
    }
}

struct Front(Arc<Disk>);

impl StoreLayer for Front {
    fn inner(&self) -> &dyn Store {
        &self.0.kept
    }

    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Created, CreateError>> {
        self.0.writes.fetch_add(1, Ordering::SeqCst);
        self.0.kept.create(new)
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        self.0.writes.fetch_add(1, Ordering::SeqCst);
        self.0.kept.apply(change)
    }

    fn get_unscoped(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        let read = now(self.0.kept.get_unscoped(id));
        if let Some(after_read) = self.0.after_read.lock().unwrap().take() {
            after_read();
        }
        Box::pin(async move { read })
    }

    fn await_earlier_writes(&self, _: NodeId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async {
            self.0.make_late().await;
            Ok(())
        })
    }

    fn write_call(&self, call: UnwrittenCall, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        self.0.writes.fetch_add(1, Ordering::SeqCst);
        let next = std::mem::take(&mut *self.0.next.lock().unwrap());
        let failed = || Err(StoreError::OutcomeUnknown("the connection broke".to_owned()).into());
        match next {
            NextWrite::Made => self.0.kept.write_call(call, change),
            NextWrite::Full => Box::pin(async { Err(StoreError::Full.into()) }),
            NextWrite::Failed => Box::pin(async move { failed() }),
            NextWrite::MadeAndFailed => Box::pin(async move {
                self.0.kept.write_call(call, change).await.unwrap();
                failed()
            }),
            NextWrite::MadeAndSilent => Box::pin(async move {
                self.0.kept.write_call(call, change).await.unwrap();
                std::future::pending().await
            }),
            NextWrite::MadeLate => {
                *self.0.late.lock().unwrap() = Some((call, change));
                Box::pin(async move { failed() })
            }
            NextWrite::Silent => Box::pin(std::future::pending()),
            NextWrite::WhenReleased => Box::pin(async move {
                let is_released = |_: &mut Context<'_>| match self.0.released.load(Ordering::SeqCst) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                };
                std::future::poll_fn(is_released).await;
                self.0.kept.write_call(call, change).await
            }),
        }
    }
}

struct Fixture {
    disk: Arc<Disk>,
    store: Arc<dyn Store>,
    node: NodeId,
}

/// The store in memory answers at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("an answer at once")
}

impl Fixture {
    fn new() -> Self {
        let disk = Arc::new(Disk::default());
        let store: Arc<dyn Store> = Arc::new(PlainCallStore::in_front_of(Arc::new(Front(Arc::clone(&disk)))));
        let spec = ToolSpec {
            id: SpecId::named("spec"),
            kind: "in_process".into(),
            definition: Json::trusted("{}"),
        };
        now(store.put_spec(spec)).unwrap();
        let node = now(store.open_node(&HostId("here".into()).into(), UnixMillis(0)))
            .unwrap()
            .node;
        Self { disk, store, node }
    }

    fn new_call(&self, name: &str, at: i64) -> NewTask {
        NewTask {
            header: TaskHeader {
                id: name.parse().unwrap(),
                owner: Owner {
                    principal: Principal::named("alice"),
                    session: None,
                },
                tool: "tool".into(),
                spec: SpecId::named("spec"),
                origin: Origin::Modern,
                accepted_by: self.node,
                created_at: UnixMillis(at),
                deadline: None,
                queue_timeout: None,
                retention: HOUR,
                lineage: None,
                labels: longhaul_core::Labels::default(),
                group: None,
            },
            announced: false,
            in_memory: true,
            priority: longhaul_core::Priority::default(),
            arguments: Json::trusted("{}"),
            requestor: Json::trusted("{}"),
            claim: None,
            confirmation: None,
            outcome: None,
            idempotency: None,
            unique: None,
            quota: Quota::default(),
            parent: None,
            history: None,
            replaces: None,
            schedule: None,
        }
    }

    fn create(&self, new: NewTask) -> Task {
        match now(self.store.create(new)).unwrap() {
            Created::New(task) => task,
            Created::Existing(task) | Created::Joined(task) => panic!("{} is not new", task.id),
        }
    }

    /// A call whose attempt runs.
    fn running(&self, name: &str) -> (Task, Fence) {
        let task = self.create(NewTask {
            claim: Some((self.node, None)),
            ..self.new_call(name, 1)
        });
        let fence = task.active_attempt().unwrap().fence();
        self.apply(&task.id, Some(fence), Event::Started).unwrap();
        (task, fence)
    }

    fn change(id: &TaskId, fence: Option<Fence>, event: Event) -> Change {
        Change {
            task: id.clone(),
            fence,
            events: vec![event],
            at: UnixMillis(5),
            number: None,
            can_wait: false,
        }
    }

    fn apply(&self, id: &TaskId, fence: Option<Fence>, event: Event) -> Result<Task, ApplyError> {
        now(self.store.apply(Self::change(id, fence, event)))
    }

    fn find(&self, id: &TaskId) -> Option<Task> {
        now(self.store.get_unscoped(id)).unwrap().map(|record| record.task)
    }
}

fn done() -> Event {
    let outcome = Outcome::result(Json::trusted(r#"{"content":[]}"#));
    Event::AttemptEnded(AttemptEnd::Finished(outcome))
}

#[test]
fn a_call_that_only_waits_for_its_answer_writes_nothing() {
    let fixture = Fixture::new();
    let hints: Arc<Mutex<Vec<Hint>>> = Arc::default();
    let noted = Arc::clone(&hints);
    fixture.store.listen(Arc::new(move |events| {
        let hints = events.iter().filter_map(|event| match event {
            StoreEvent::TaskChanged(hint) => Some(hint.clone()),
            _ => None,
        });
        noted.lock().unwrap().extend(hints);
    }));
    let (task, fence) = fixture.running("a");
    assert_eq!(now(fixture.store.counts()).unwrap().running, 1);
    let ended = fixture.apply(&task.id, Some(fence), done()).unwrap();
    assert_eq!(ended.state, State::Done(Verdict::Succeeded));
    assert_eq!(fixture.disk.writes(), 0);
    let last = hints.lock().unwrap().pop().unwrap();
    let record = last.ended.expect("whoever waits has the outcome from the hint");
    assert!(record.outcome.is_some() && record.task == ended);
    assert!(fixture.find(&task.id).is_none(), "nothing of it is stored");
    assert_eq!(now(fixture.store.usage(None)).unwrap(), longhaul_core::Usage::default());
}

#[test]
fn versions_are_read_of_calls_in_memory_and_in_the_store() {
    let fixture = Fixture::new();
    let version = |id: &TaskId| now(fixture.store.get_unscoped(id)).unwrap().unwrap().task.version;
    let (here, _) = fixture.running("a");
    let (there, _) = fixture.running("b");
    let there = fixture.apply(&there.id, None, Event::Promoted).unwrap();
    let ids = [there.id.clone(), "none".parse().unwrap(), here.id.clone()];
    let mut versions = now(fixture.store.versions(&ids)).unwrap();
    versions.sort();
    assert_eq!(
        versions,
        [(here.id.clone(), version(&here.id)), (there.id.clone(), there.version)]
    );
    // Its write is made, and its answer is lost.
    let (unsure, _) = fixture.running("c");
    fixture.disk.next(NextWrite::Failed);
    fixture.apply(&unsure.id, None, Event::Promoted).unwrap_err();
    let versions = now(fixture.store.versions(std::slice::from_ref(&unsure.id))).unwrap();
    assert_eq!(versions, [(unsure.id.clone(), version(&unsure.id))]);
}

#[test]
fn a_cancelled_call_is_kept_until_its_attempt_has_ended() {
    let fixture = Fixture::new();
    let (task, fence) = fixture.running("a");
    let cancelled = fixture
        .apply(&task.id, None, Event::CancelRequested(CancelMode::AtOnce))
        .unwrap();
    assert_eq!(cancelled.state, State::Done(Verdict::Cancelled));
    assert_eq!(now(fixture.store.counts()).unwrap().running, 0);
    let stopped = Event::AttemptEnded(AttemptEnd::Stopped(StopReason::Cancel));
    fixture
        .apply(&task.id, Some(fence), stopped)
        .expect("its attempt can end");
    assert!(fixture.find(&task.id).is_none(), "nothing of it is kept");
    assert_eq!(fixture.disk.writes(), 0);
}

#[test]
fn a_promoted_call_is_written_as_it_is_and_goes_on() {
    let fixture = Fixture::new();
    let (task, fence) = fixture.running("a");
    assert!(!fixture.disk.has(&task.id));
    let promoted = fixture.apply(&task.id, None, Event::Promoted).unwrap();
    assert!(promoted.announced && fixture.disk.has(&task.id));
    assert_eq!(fixture.find(&task.id), Some(promoted));
    assert_eq!(now(fixture.store.counts()).unwrap().running, 1, "it is counted once");
    fixture.apply(&task.id, Some(fence), done()).unwrap();
    assert!(fixture.find(&task.id).unwrap().is_done());
}

#[test]
fn a_call_is_found_if_its_write_ends_while_the_store_reads() {
    let fixture = Fixture::new();
    let (task, _) = fixture.running("a");
    fixture.disk.next(NextWrite::WhenReleased);
    let store = Arc::clone(&fixture.store);
    let promotion = Fixture::change(&task.id, None, Event::Promoted);
    let mut written = Box::pin(async move { store.apply(promotion).await });
    assert!((&mut written).now_or_never().is_none(), "the write waits");
    let disk = Arc::clone(&fixture.disk);
    *fixture.disk.after_read.lock().unwrap() = Some(Box::new(move || {
        disk.released.store(true, Ordering::SeqCst);
        now(written).unwrap();
    }));
    assert_eq!(fixture.find(&task.id).expect("the call did not vanish").id, task.id);
    assert!(fixture.disk.has(&task.id) && fixture.find(&task.id).unwrap().announced);
}

#[test]
fn a_call_that_asks_is_written_with_its_question() {
    let fixture = Fixture::new();
    let (task, fence) = fixture.running("a");
    let question = Event::InputRequested {
        key: InputKey::nth(1),
        name: None,
        request: Json::trusted("{}"),
    };
    fixture.apply(&task.id, Some(fence), question).unwrap();
    let record = now(fixture.disk.kept.get_unscoped(&task.id)).unwrap().unwrap();
    assert_eq!(record.inputs.len(), 1);
}

#[test]
fn a_promotion_on_a_full_store_changes_nothing() {
    let fixture = Fixture::new();
    let (task, fence) = fixture.running("a");
    fixture.disk.next(NextWrite::Full);
    let refused = fixture.apply(&task.id, None, Event::Promoted);
    assert_eq!(refused, Err(StoreError::Full.into()));
    assert!(!fixture.find(&task.id).unwrap().announced);
    assert!(fixture.apply(&task.id, None, Event::Promoted).unwrap().announced);
    assert!(fixture.apply(&task.id, Some(fence), done()).unwrap().is_done());
}

#[test]
fn a_refused_promotion_writes_nothing() {
    let fixture = Fixture::new();
    let (task, _) = fixture.running("a");
    fixture
        .apply(&task.id, None, Event::CancelRequested(CancelMode::Cooperative))
        .unwrap();
    let refused = fixture.apply(&task.id, None, Event::Promoted);
    assert!(matches!(refused, Err(ApplyError::Illegal(_))), "{refused:?}");
    assert_eq!(fixture.disk.writes(), 0);
}

/// Whatever became of a promotion whose answer was lost: the call's end is written, once, to the promoted task.
#[test]
fn a_promotion_whose_answer_is_lost_is_settled_by_the_next_change() {
    for next in [NextWrite::Failed, NextWrite::MadeAndFailed] {
        let fixture = Fixture::new();
        let (task, fence) = fixture.running("a");
        fixture.disk.next(next);
        let lost = fixture.apply(&task.id, None, Event::Promoted);
        assert!(
            matches!(lost, Err(ApplyError::Store(StoreError::OutcomeUnknown(_)))),
            "{lost:?}"
        );
        assert!(fixture.find(&task.id).is_some(), "it can be read meanwhile");
        // The store fails a second time.
        fixture.disk.next(NextWrite::Failed);
        assert!(fixture.apply(&task.id, Some(fence), done()).is_err());
        assert!(fixture.apply(&task.id, Some(fence), done()).unwrap().is_done());
        assert!(fixture.disk.has(&task.id));
        assert_eq!(now(fixture.store.counts()).unwrap().running, 0);
    }
}

/// The first write does not make the task anew once that has ended and is deleted.
#[test]
fn a_deleted_task_is_not_written_by_a_late_promotion() {
    let fixture = Fixture::new();
    let (task, fence) = fixture.running("a");
    fixture.disk.next(NextWrite::MadeLate);
    assert!(fixture.apply(&task.id, None, Event::Promoted).is_err());
    assert!(fixture.apply(&task.id, Some(fence), done()).unwrap().is_done());
    let host = HostId("here".into());
    let deleted = fixture.store.delete_ended(&host, vec![task.id.clone()], UnixMillis(9));
    assert_eq!(now(deleted), Ok(1));
    now(fixture.disk.make_late());
    assert!(!fixture.disk.has(&task.id));
}

#[test]
fn a_promotion_whose_caller_leaves_is_settled_by_the_next_change() {
    for next in [NextWrite::Silent, NextWrite::MadeAndSilent] {
        let fixture = Fixture::new();
        let (task, fence) = fixture.running("a");
        fixture.disk.next(next);
        let mut promotion = fixture.store.apply(Fixture::change(&task.id, None, Event::Promoted));
        assert!((&mut promotion).now_or_never().is_none());
        let mut end = fixture.store.apply(Fixture::change(&task.id, Some(fence), done()));
        assert!((&mut end).now_or_never().is_none(), "it waits for the promotion");
        drop(promotion);
        assert!(now(end).unwrap().is_done());
        assert!(fixture.disk.has(&task.id));
    }
}

#[test]
fn calls_and_stored_tasks_are_claimed_in_order_of_arrival() {
    let fixture = Fixture::new();
    let stored = |name: &str, at| NewTask {
        announced: true,
        in_memory: false,
        ..fixture.new_call(name, at)
    };
    for new in [
        fixture.new_call("a", 1),
        stored("b", 2),
        fixture.new_call("c", 3),
        stored("d", 4),
        stored("e", 5),
        fixture.new_call("f", 6),
    ] {
        fixture.create(new);
    }
    assert_eq!(now(fixture.store.queued_tools()).unwrap(), ["tool".into()]);
    let last = fixture.find(&"f".parse().unwrap()).unwrap();
    assert_eq!(now(fixture.store.queued_before(&last, 10)).unwrap(), 5);
    assert_eq!(now(fixture.store.queued_before(&last, 3)).unwrap(), 3);
    let claim = |limit, at| {
        let claim = Claim {
            tool: "tool".into(),
            node: fixture.node,
            host: None,
            limit,
            at: UnixMillis(at),
            rate: None,
        };
        let claimed = now(fixture.store.claim(claim)).unwrap();
        claimed
            .into_iter()
            .map(|claimed| claimed.task.id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(claim(1, 9), ["a"]);
    assert_eq!(claim(3, 9), ["b", "c", "d"]);
    assert_eq!(
        now(fixture.store.next_ready("tool", UnixMillis(5)))
            .unwrap()
            .map(|place| place.ready_at),
        Some(UnixMillis(5))
    );
    assert_eq!(claim(9, 5), ["e"], "the last is not ready then");
    assert_eq!(claim(9, 9), ["f"]);
    assert!(claim(9, 9).is_empty());
}

#[test]
fn what_is_due_of_calls_and_stored_tasks_comes_earliest_first() {
    let fixture = Fixture::new();
    let due_in = |millis, mut new: NewTask| {
        new.header.deadline = Some(millis);
        new
    };
    fixture.create(due_in(20, fixture.new_call("a", 1)));
    fixture.create(due_in(
        10,
        NewTask {
            announced: true,
            in_memory: false,
            ..fixture.new_call("b", 1)
        },
    ));
    assert_eq!(now(fixture.store.next_wake()).unwrap(), Some(UnixMillis(11)));
    let due = |limit| {
        let due = now(fixture.store.find(TaskLookup::DueTimers(UnixMillis(100)), limit)).unwrap();
        due.into_iter().map(|task| task.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(due(9), ["b", "a"]);
    assert_eq!(due(1), ["b"]);
}

/// One quota for both, exact for what this process does.
#[test]
fn calls_and_stored_tasks_share_a_quota() {
    let fixture = Fixture::new();
    let limited = |new: NewTask| NewTask {
        quota: Quota {
            live_per_principal: Some(2),
            ..Quota::default()
        },
        ..new
    };
    let call = |name| limited(fixture.new_call(name, 1));
    let task = |name| {
        limited(NewTask {
            announced: true,
            in_memory: false,
            ..fixture.new_call(name, 1)
        })
    };
    let refused = |new| {
        let refused = now(fixture.store.create(new)).unwrap_err();
        let CreateError::Quota(QuotaExceeded::TooManyLive { limit: 2, .. }) = refused else {
            panic!("{refused:?}")
        };
    };
    fixture.create(call("a"));
    fixture.create(task("b"));
    refused(call("c"));
    refused(task("c"));
    // A stored task ends: the next call does not use the usage that was cached before.
    let b: TaskId = "b".parse().unwrap();
    fixture
        .apply(&b, None, Event::CancelRequested(CancelMode::AtOnce))
        .unwrap();
    fixture.create(call("c"));
    refused(task("d"));
    let a: TaskId = "a".parse().unwrap();
    fixture
        .apply(&a, None, Event::CancelRequested(CancelMode::AtOnce))
        .unwrap();
    fixture.create(task("d"));
    refused(call("e"));
}

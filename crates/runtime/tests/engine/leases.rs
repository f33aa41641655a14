//! Nodes on two hosts share a store. One of them dies, or cannot renew its lease.

use crate::support::{CallOf, Script, World, beside, retry, scope, settle, text, tool};
use longhaul_core::{
    BoxFuture, CancelMode, Clock, HostId, NodeId, Outcome, Retry, RetryOn, State, Store, StoreLayer, UnixMillis,
    Verdict,
    store::{Claim, Claimed, Renewal, StoreError},
};
use longhaul_runtime::{Engine, EngineStop, ExecutionEnd, StartError, ToolSettings};
use longhaul_store::MemoryStore;
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

const LEASE: u64 = 15_000;
/// How long a host is waited for.
const LOST_AFTER: i64 = 600_000;

/// The store as a node sees it whose calls may fail, hang or lose their answers.
struct Faulty {
    inner: Arc<dyn Store>,
    cut_off: AtomicBool,
    claims_to_lose: AtomicUsize,
    renewals: Mutex<Renewals>,
    adoptions_hang: AtomicBool,
    on_end_lease: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// What happens to renewals.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Renewals {
    Answered,
    /// They are made, and their answers are lost.
    AnswersLost,
    /// The next one is not made and never answered.
    OneHangs,
}

impl StoreLayer for Faulty {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn renew(&self, node: NodeId) -> BoxFuture<'_, Result<Renewal, StoreError>> {
        if self.cut_off.load(Ordering::SeqCst) {
            return Box::pin(async { Err(StoreError::Failed("the network is down".to_owned())) });
        }
        let mut renewals = self.renewals.lock();
        match *renewals {
            Renewals::Answered => self.inner.renew(node),
            Renewals::AnswersLost => Box::pin(async move {
                self.inner.renew(node).await?;
                Err(StoreError::OutcomeUnknown("as the test says".to_owned()))
            }),
            Renewals::OneHangs => {
                *renewals = Renewals::Answered;
                Box::pin(std::future::pending())
            }
        }
    }

    fn end_lease(&self, node: NodeId) -> BoxFuture<'_, Result<(), StoreError>> {
        if let Some(on_end_lease) = self.on_end_lease.lock().take() {
            on_end_lease();
        }
        self.inner.end_lease(node)
    }

    fn adopt(
        &self,
        node: NodeId,
        host: &HostId,
        limit: usize,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        match self.adoptions_hang.load(Ordering::SeqCst) {
            true => Box::pin(std::future::pending()),
            false => self.inner.adopt(node, host, limit, at),
        }
    }

    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        let lose = |left: usize| left.checked_sub(1);
        let (set, get) = (Ordering::SeqCst, Ordering::SeqCst);
        let lost = self.claims_to_lose.fetch_update(set, get, lose).is_ok();
        Box::pin(async move {
            let claimed = self.inner.claim(claim).await;
            match lost {
                true => Err(StoreError::OutcomeUnknown("as the test says".to_owned())),
                false => claimed,
            }
        })
    }
}

/// Two hosts. The store of the first is faulty.
fn two_hosts() -> (World, Arc<Faulty>, World) {
    let mut there = World::in_memory();
    there.store = Arc::new(MemoryStore::of_many_nodes(there.clock.clone(), LEASE));
    there.host = HostId("there".into());
    let store = Arc::new(Faulty {
        inner: there.store.clone(),
        cut_off: AtomicBool::new(false),
        claims_to_lose: AtomicUsize::new(0),
        renewals: Mutex::new(Renewals::Answered),
        adoptions_hang: AtomicBool::new(false),
        on_end_lease: Mutex::default(),
    });
    let mut here = there.clone();
    here.store = store.clone();
    here.host = HostId("here".into());
    (here, store, there)
}

#[tokio::test]
async fn a_node_that_cannot_renew_its_lease_is_taken_over_and_stops() {
    let (here, store, there) = two_hosts();
    let (engine_here, mut runs_here) = here.scripted().await;
    let (engine_there, mut runs_there) = there.scripted().await;
    here.pass(60_000).await;
    let task = engine_here.create(engine_here.call("a")).await.unwrap();
    let run = runs_here.next().await;
    here.pass(60_000).await;
    assert!(runs_there.started().is_none() && !run.is_dropped());

    store.cut_off.store(true, Ordering::SeqCst);
    here.pass(2 * LEASE.cast_signed()).await;
    let adopted = runs_there.started().expect("it is taken over");
    assert!(adopted.resumed && adopted.attempt.task == task.id);
    assert!(!run.is_dropped(), "nobody has said so to it yet");
    store.cut_off.store(false, Ordering::SeqCst);
    here.pass(2_000).await;
    assert!(run.is_dropped());
    assert_eq!(engine_here.running(), 0);
    // Its process can end.
    assert_eq!(engine_here.stopped().await, EngineStop::LeaseLost);
    adopted.finish("there");
    assert_eq!(there.outcome(&engine_there, &task.id).await, text("there"));
}

/// Both were cut off, as when the store was away: each gets the time to renew.
#[tokio::test]
async fn nobody_is_taken_over_after_the_store_was_away() {
    let (here, store, mut there) = two_hosts();
    there.store = store.clone();
    let (engine, mut runs_here) = here.scripted().await;
    let (_, mut runs_there) = there.scripted().await;
    engine.create(engine.call("a")).await.unwrap();
    let run = runs_here.next().await;
    here.pass(60_000).await;
    store.cut_off.store(true, Ordering::SeqCst);
    here.pass(600_000).await;
    store.cut_off.store(false, Ordering::SeqCst);
    here.pass(120_000).await;
    assert!(!run.is_dropped() && runs_there.started().is_none());
}

#[tokio::test]
async fn the_lease_of_a_killed_process_is_waited_for() {
    let (here, _store, _there) = two_hosts();
    let (script, mut runs) = Script::bound(true);
    let engine = here.start([tool("a", script.clone())]).await;
    let task = engine.create(engine.call("a")).await.unwrap();
    drop(runs.next().await);
    // As `kill -9`: the lease is not given up.
    engine.stop();
    assert_eq!(engine.stopped().await, EngineStop::Requested);
    let next = here.clone();
    let starting = beside(async move { next.start([tool("a", script)]).await });
    here.pass(LEASE.cast_signed() - 1_000).await;
    assert!(!starting.is_finished());
    here.pass(3_000).await;
    let engine: Engine = starting.await.unwrap();
    let run = runs.next().await;
    assert!(run.resumed && run.attempt.task == task.id && run.attempt.epoch == 1);
    run.finish("done");
    assert_eq!(here.outcome(&engine, &task.id).await, text("done"));
}

/// Without time passing: other nodes do not wait for their next re-read.
#[tokio::test]
async fn a_pause_reaches_other_nodes_at_once() {
    let (here, _store, there) = two_hosts();
    let (script, _runs) = Script::new();
    let engine = here.start([]).await;
    let other = there.start([tool("a", script)]).await;
    for paused in [true, false] {
        engine.set_paused("a", paused).await.unwrap();
        for _ in 0..1_000 {
            if other.is_paused("a") == paused {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(other.is_paused("a"), paused);
    }
}

#[tokio::test]
async fn a_host_that_is_in_use_is_refused() {
    let (here, _store, _there) = two_hosts();
    let _engine = here.start([]).await;
    let clone = here.clone();
    let starting = beside(async move { clone.try_start([]).await.map(drop) });
    here.pass(60_000).await;
    assert!(starting.is_finished());
    let refused = starting.await.unwrap().unwrap_err();
    assert!(matches!(refused, StartError::HostInUse { .. }), "{refused}");
}

#[tokio::test]
async fn a_lease_that_was_given_up_is_not_waited_for() {
    let (here, _store, there) = two_hosts();
    let (engine, mut runs_here) = here.scripted().await;
    let (_engine_there, mut runs_there) = there.scripted().await;
    engine.create(engine.call("a")).await.unwrap();
    runs_here.next().await;
    engine.end().await;
    // Neither the other host nor the next process of this one waits.
    let adopted = {
        here.pass(LEASE.cast_signed() / 2).await;
        runs_there.started()
    };
    assert!(adopted.is_some_and(|run| run.resumed));
    here.start([]).await;
}

/// Otherwise another node could run what still runs here.
#[tokio::test]
async fn a_lease_is_given_up_after_all_work_has_stopped() {
    let (here, store, _there) = two_hosts();
    let (engine, mut runs) = here.scripted().await;
    engine.create(engine.call("a")).await.unwrap();
    let run = runs.next().await;
    let stopped = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stopped);
    *store.on_end_lease.lock() = Some(Box::new(move || seen.store(run.is_dropped(), Ordering::SeqCst)));
    engine.end().await;
    assert!(stopped.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_renewal_that_hangs_is_made_again() {
    let (here, store, there) = two_hosts();
    let (engine, mut runs_here) = here.scripted().await;
    let (_, mut runs_there) = there.scripted().await;
    engine.create(engine.call("a")).await.unwrap();
    let run = runs_here.next().await;
    here.pass(30_000).await;
    *store.renewals.lock() = Renewals::OneHangs;
    here.pass(120_000).await;
    assert!(*store.renewals.lock() == Renewals::Answered, "it was sent");
    assert!(!run.is_dropped() && runs_there.started().is_none());
}

/// Recovery may take longer than the lease lasts.
#[tokio::test]
async fn the_lease_is_renewed_during_recovery() {
    let (here, store, there) = two_hosts();
    there.start([]).await;
    here.pass(60_000).await;
    store.adoptions_hang.store(true, Ordering::SeqCst);
    let starting = here.clone();
    let starting = beside(async move { starting.start([]).await });
    here.pass(4 * LEASE.cast_signed()).await;
    assert!(!starting.is_finished());
    let clone = there.store.open_node(&here.host.clone().into(), here.clock.now()).await;
    assert!(matches!(clone, Err(StoreError::HostInUse { .. })), "{clone:?}");
}

/// The answer that said that a node has died is lost: the next one does not say so again.
#[tokio::test]
async fn a_death_is_noticed_though_the_answer_that_said_so_was_lost() {
    let (here, store, there) = two_hosts();
    let (engine, mut runs_there) = there.scripted().await;
    engine.create(engine.call("a")).await.unwrap();
    drop(runs_there.next().await);
    let (_, mut runs_here) = here.scripted().await;
    // Just after the periodic look for dead nodes.
    here.pass(61_000).await;
    engine.end().await;
    *store.renewals.lock() = Renewals::AnswersLost;
    here.pass(8_000).await;
    *store.renewals.lock() = Renewals::Answered;
    here.pass(3_000).await;
    assert!(runs_here.started().is_some());
}

/// A server that stops leaves the work of a dead one to others: it could only drop it again.
#[tokio::test]
async fn a_node_that_stops_takes_nothing_over() {
    let (here, _store, there) = two_hosts();
    let (engine, mut runs_here) = here.scripted().await;
    let (engine_there, mut runs_there) = there.scripted().await;
    engine.create(engine.call("a")).await.unwrap();
    runs_here.next().await;
    engine_there.release(Duration::ZERO).await;
    engine.end().await;
    here.pass(120_000).await;
    assert!(runs_there.started().is_none());
}

/// What is bound to a host is left to it for ten minutes, and then it is over.
#[tokio::test]
async fn a_bound_attempt_is_ended_when_its_host_is_lost() {
    let (here, _store, there) = two_hosts();
    let (engine, mut runs_here) = here.bound().await;
    let (engine_there, mut runs_there) = there.bound().await;
    let task = engine.create(engine.call("a")).await.unwrap();
    drop(runs_here.next().await);
    engine.stop();
    here.pass(LOST_AFTER).await;
    assert_eq!(there.state(&task.id).await, State::Running);
    here.pass(120_000).await;
    assert!(runs_there.started().is_none(), "there is nothing to resume");
    let outcome = there.outcome(&engine_there, &task.id).await;
    assert!(
        matches!(&outcome, Outcome::RpcError(failure) if failure.code == -32603),
        "{outcome:?}"
    );
}

/// What is to stop ends soon, though its host is away: its slot is free, and its owner sees the end.
#[tokio::test]
async fn a_bound_attempt_that_is_to_stop_ends_while_its_host_is_away() {
    let (here, _store, there) = two_hosts();
    let limited = |tool: &mut ToolSettings| tool.deadline = Some(60_000);
    let (engine, mut runs_here, _) = here.recovering(true, limited).await;
    let (engine_there, _, _) = there.recovering(true, limited).await;
    let cancelled = engine.create(engine.call("a")).await.unwrap();
    let late = engine.create(engine.call("a")).await.unwrap();
    drop((runs_here.next().await, runs_here.next().await));
    engine.stop();
    here.pass(2 * LEASE.cast_signed()).await;
    engine_there
        .cancel(&scope(), &cancelled.id, CancelMode::Cooperative)
        .await
        .unwrap();
    here.pass(4_000).await;
    assert_eq!(there.outcome(&engine_there, &cancelled.id).await, Outcome::Cancelled);
    assert_eq!(there.state(&late.id).await, State::Running);
    here.pass(60_000).await;
    // Its deadline.
    assert_eq!(there.state(&late.id).await, State::Done(Verdict::ToolError));
}

/// A node has reclaimed an attempt and died before it could write its end. The next one ends it, and has nothing to resume.
#[tokio::test]
async fn a_reclaimed_attempt_is_never_resumed() {
    let (here, _store, there) = two_hosts();
    let retried = |tool: &mut ToolSettings| tool.retry = retry(2, Retry::default().backoff, [RetryOn::Crash]);
    let (engine, mut runs_here, _) = here.recovering(true, retried).await;
    let task = engine.create(engine.call("a")).await.unwrap();
    drop(runs_here.next().await);
    engine.end().await;
    here.clock.advance(LOST_AFTER);
    let elsewhere = HostId("elsewhere".into());
    let dying = there
        .store
        .open_node(&elsewhere.clone().into(), here.clock.now())
        .await
        .unwrap()
        .node;
    let reclaimed = there.store.reclaim(dying, &elsewhere, 0, 9, here.clock.now()).await;
    assert_eq!(reclaimed.unwrap().len(), 1);
    there.store.end_lease(dying).await.unwrap();

    let (_, mut runs_there, _) = there.recovering(true, retried).await;
    here.pass(60_000).await;
    let run = runs_there.started().expect("it is retried");
    let expected = (task.id.clone(), 2, false);
    assert_eq!((run.attempt.task.clone(), run.attempt.epoch, run.resumed), expected);
}

/// The claim was made, and its answer was lost.
#[tokio::test]
async fn a_task_whose_claim_was_lost_is_run_once() {
    let (here, store, _there) = two_hosts();
    let (engine, mut runs) = here.clone().with_slots(1).scripted().await;
    let first = engine.create(engine.call("a")).await.unwrap();
    let run = runs.next().await;
    let second = engine.create(engine.call("a")).await.unwrap();
    assert_eq!(here.state(&second.id).await, State::Queued);
    store.claims_to_lose.store(1, Ordering::SeqCst);
    run.finish("one");
    assert_eq!(here.outcome(&engine, &first.id).await, text("one"));
    settle().await;
    assert_eq!(here.state(&second.id).await, State::Running);
    assert!(runs.started().is_none());
    here.pass(LEASE.cast_signed()).await;
    let run = runs.started().expect("it is found");
    let expected = (second.id.clone(), 1, false);
    assert_eq!((run.attempt.task.clone(), run.attempt.epoch, run.resumed), expected);
    here.pass(60_000).await;
    assert!(runs.started().is_none());
    run.end(ExecutionEnd::Finished(text("two")));
    assert_eq!(here.outcome(&engine, &second.id).await, text("two"));
}

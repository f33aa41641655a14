//! Calls that wait for their upstream when they must not begin any more.

use crate::{
    client::{Called, Client},
    upstream::{Tasks, Upstream},
    world::{RunningGateway, guarded, options, without_handoff},
};
use longhaul::auth::{AuthDecision, Authenticator, Denied, Identity, Permissions, RequestHead};
use longhaul_client::TaskHandle;
use longhaul_core::{Principal, State, Task, TaskId, Verdict};
use serde_json::json;
use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Everybody is one user, whose credentials may be revoked.
#[derive(Clone, Default)]
struct OneUser {
    is_revoked: Arc<AtomicBool>,
}

impl Authenticator for OneUser {
    fn authenticate<'a>(&'a self, _: &'a RequestHead<'a>) -> AuthDecision<'a> {
        let user = Principal::named("user:alice");
        AuthDecision::Known(match self.is_revoked.load(Ordering::Relaxed) {
            true => Err(Denied::invalid("revoked")),
            false => Ok(Arc::new(Identity::verified(user, Permissions::all()))),
        })
    }

    fn is_withdrawn(&self, _: &Principal) -> bool {
        self.is_revoked.load(Ordering::Relaxed)
    }
}

/// What an operator does while calls wait.
#[derive(Debug, Clone, Copy)]
enum Act {
    PauseTool,
    PauseUpstream,
    Cordon,
    Drain,
    Revoke,
}

impl Act {
    const ALL: [Self; 5] = [
        Self::PauseTool,
        Self::PauseUpstream,
        Self::Cordon,
        Self::Drain,
        Self::Revoke,
    ];

    /// Does it, or undoes it.
    async fn set(self, gateway: &RunningGateway, user: &OneUser, is_on: bool) {
        let engine = gateway.server.engine().unwrap();
        match self {
            Self::PauseTool => engine.set_paused("hold", is_on).await.unwrap(),
            Self::PauseUpstream => engine.set_upstream_paused("up", is_on).await.unwrap(),
            Self::Cordon => engine.set_cordoned(engine.node_id(), is_on).await.unwrap(),
            Self::Drain => engine.drain(Duration::ZERO).await,
            Self::Revoke => user.is_revoked.store(is_on, Ordering::Relaxed),
        }
    }
}

impl Act {
    /// Undoes it, if it can be undone: then the call that waits is sent, once.
    async fn undo(self, gateway: &RunningGateway, user: &OneUser, upstream: &Upstream, waiting: &TaskHandle) {
        if matches!(self, Self::Drain | Self::Revoke) {
            return;
        }
        let sent = upstream.begun();
        self.set(gateway, user, false).await;
        upstream.has_begun(sent + 1).await;
        upstream.release();
        until_task("the end", gateway, waiting, |task| task.ended_at.is_some()).await;
        assert_eq!(upstream.begun(), sent + 1, "{self:?}");
    }
}

async fn task(gateway: &RunningGateway, handle: &TaskHandle) -> Task {
    let store = Arc::clone(gateway.server.engine().unwrap().store());
    let id: TaskId = handle.id().parse().unwrap();
    store.get_unscoped(&id).await.unwrap().unwrap().task
}

async fn until_task(what: &str, gateway: &RunningGateway, handle: &TaskHandle, is_met: impl Fn(&Task) -> bool) -> Task {
    let met = async {
        loop {
            let task = task(gateway, handle).await;
            if is_met(&task) {
                return task;
            }
            tokio::task::yield_now().await;
        }
    };
    guarded(what, met).await
}

async fn start(client: &Client) -> TaskHandle {
    match client.start("hold", json!({})).await.unwrap() {
        Called::Task(task) => task,
        Called::Done(outcome) => panic!("{outcome:?}"),
    }
}

/// It is in the queue, or cancelled, and no attempt of it counts.
async fn until_held(act: Act, gateway: &RunningGateway, handle: &TaskHandle) {
    let what = format!("the hold of {act:?}");
    let held = until_task(&what, gateway, handle, |task| match act {
        Act::Revoke => task.ended_at.is_some(),
        _ => task.state == State::Queued,
    });
    let held = held.await;
    match act {
        Act::Revoke => assert_eq!(held.state, State::Done(Verdict::Cancelled), "{act:?}"),
        _ => assert_eq!(held.attempts_used, 0, "{act:?}"),
    }
}

#[tokio::test]
async fn a_call_that_waits_for_others_of_its_upstream_is_not_sent_when_it_must_not_begin() {
    for act in Act::ALL {
        let upstream = Upstream::start(Tasks::None).await;
        let directory = tempfile::tempdir().unwrap();
        let mut upstreams = options(&[("up", &upstream)]);
        upstreams[0].concurrency = Some(1);
        let user = OneUser::default();
        let gateway = RunningGateway::start_with(directory.path(), upstreams, Some(user.clone())).await;
        let client = Client::connect(&gateway.url, Tasks::Modern);
        let running = start(&client).await;
        upstream.has_begun(1).await;
        let waiting = start(&client).await;
        until_task("the attempt", &gateway, &waiting, |task| {
            task.active_attempt().is_some()
        })
        .await;
        act.set(&gateway, &user, true).await;
        until_held(act, &gateway, &waiting).await;
        upstream.release();
        until_task("the end of the first", &gateway, &running, |task| {
            task.ended_at.is_some()
        })
        .await;
        assert_eq!(upstream.begun(), 1, "{act:?}");
        act.undo(&gateway, &user, &upstream, &waiting).await;
        gateway.stop().await;
    }
}

/// Else it would be sent as soon as the upstream is back, or fail after a minute.
#[tokio::test]
async fn a_call_whose_upstream_is_away_is_not_sent_when_it_must_not_begin() {
    for act in Act::ALL {
        let upstream = Upstream::start(Tasks::None).await;
        let directory = tempfile::tempdir().unwrap();
        let upstreams = options(&[("up", &upstream)]);
        let user = OneUser::default();
        let gateway = RunningGateway::start_with(directory.path(), upstreams, Some(user.clone())).await;
        let client = Client::connect(&gateway.url, Tasks::Modern);
        let address = upstream.stop().await;
        let waiting = start(&client).await;
        until_task("the attempt", &gateway, &waiting, |task| {
            task.active_attempt().is_some()
        })
        .await;
        act.set(&gateway, &user, true).await;
        until_held(act, &gateway, &waiting).await;
        let upstream = Upstream::start_at(&address, Tasks::None).await;
        act.undo(&gateway, &user, &upstream, &waiting).await;
        gateway.stop().await;
    }
}

/// Its caller must not wait for the end of the drain, to be told that it may have run.
#[tokio::test]
async fn a_plain_call_that_waits_is_refused_by_a_server_that_drains_alone() {
    let upstream = Upstream::start(Tasks::None).await;
    let directory = tempfile::tempdir().unwrap();
    let mut options = without_handoff(upstream.options("up"));
    options.concurrency = Some(1);
    let user = OneUser::default();
    let gateway = RunningGateway::start_with(directory.path(), vec![options], Some(user.clone())).await;
    let client = Client::connect(&gateway.url, Tasks::None);
    let (mut first, mut second) = (
        pin!(client.start("hold", json!({}))),
        pin!(client.start("hold", json!({}))),
    );
    let begun = async {
        upstream.has_begun(1).await;
        while gateway.waiting().await.0 == 0 {
            tokio::task::yield_now().await;
        }
        Act::Drain.set(&gateway, &user, true).await;
    };
    let refused = tokio::select! {
        biased;
        _ = &mut first => panic!("it is held"),
        refused = async { tokio::join!(begun, &mut second).1 } => refused,
    };
    let refused = refused.map(drop).unwrap_err().to_string();
    assert!(refused.contains("was not started"), "{refused}");
    upstream.release();
    assert!(matches!(first.await, Ok(Called::Done(_))));
    assert_eq!(upstream.begun(), 1);
    gateway.stop().await;
}

//! The gateway: all upstreams of a server.

use crate::{
    InvalidNames, UpstreamOptions, UpstreamStatus,
    catalog::{OfferedTools, offer_tools},
    connections::Connections,
    follower::UpstreamResources,
    listed::StoredLists,
    loops,
    names::Naming,
    provider::UpstreamProvider,
    supervision,
    upstream::Upstream,
    upstreams::Upstreams,
};
use futures_util::future::join_all;
use longhaul_client::InvalidAddress;
use longhaul_core::BoxFuture;
use longhaul_private_dir::PrivateDir;
use longhaul_runtime::{Engine, Ports, Provider};
use std::{io, sync::Arc, time::Duration};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

/// How long a start waits for upstreams that were never seen.
const LONGEST_FIRST_WAIT: Duration = Duration::from_secs(10);

/// Passes on which log messages clients ask for, and that their roots have changed. An upstream that hangs does not delay the others.
async fn follow_clients(upstreams: Arc<Upstreams>, engine: Engine) {
    let mut levels = engine.catalog().log_level();
    let mut roots = engine.catalog().changes_of_roots();
    let each = |work: &dyn Fn(Arc<Upstream>) -> BoxFuture<'static, ()>| {
        for upstream in upstreams.all() {
            engine.ports().spawner.spawn(work(upstream));
        }
    };
    loop {
        tokio::select! {
            biased;
            changed = levels.changed() => {
                if changed.is_err() {
                    return;
                }
                let level = *levels.borrow_and_update();
                each(&|upstream| Box::pin(async move { upstream.connections.set_log_level(level).await }));
            }
            session = roots.recv() => match session {
                Ok(session) => each(&|upstream| {
                    let session = session.clone();
                    Box::pin(async move { upstream.connections.roots_changed(&session).await })
                }),
                Err(RecvError::Lagged(missed)) => tracing::warn!(missed, "not all changes of roots were passed on"),
                Err(RecvError::Closed) => return,
            },
        }
    }
}

/// Waits until the upstream was reached, or could not be.
async fn settled(upstream: &Upstream) -> UpstreamStatus {
    let mut status = upstream.status.subscribe();
    let settled = status.wait_for(|status| *status != UpstreamStatus::Starting).await;
    // The sender lives as long as the upstream.
    settled.map_or(UpstreamStatus::Starting, |status| status.clone())
}

/// A gateway cannot be made of these options.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The names of the upstreams.
    #[error(transparent)]
    Names(#[from] InvalidNames),
    /// The URL of an upstream.
    #[error("upstream `{upstream}`: {error}")]
    Address {
        /// Its name.
        upstream: String,
        /// What is wrong.
        error: InvalidAddress,
    },
    /// Where the lists of upstreams are stored.
    #[error("cannot use the folder of upstreams: {0}")]
    Folder(#[from] io::Error),
}

/// Upstreams, and what is offered of them. Make it before the engine is started, since the engine needs its [`provider`](Self::provider) to go on with calls of
/// before, and [`start`](Self::start) it then.
pub struct Gateway {
    upstreams: Arc<Upstreams>,
    ports: Ports,
    stopping: CancellationToken,
}

impl Gateway {
    /// A gateway to these upstreams, in this order. Nothing is sent yet. With `prefix`, several upstreams have their names before those of their tools.
    /// `version` is what upstreams are told of this program. The last known lists of upstreams are stored in `folder`.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub fn new(
        upstreams: Vec<UpstreamOptions>,
        prefix: bool,
        version: &'static str,
        folder: Option<PrivateDir>,
        ports: &Ports,
    ) -> Result<Self, GatewayError> {
        let naming = Naming::of(&upstreams, prefix)?;
        let all = upstreams
            .into_iter()
            .map(|options| {
                let upstream = options.name.clone();
                let connections = Connections::new(options, version, Arc::clone(&ports.clock))
                    .map_err(|error| GatewayError::Address { upstream, error })?;
                Ok(Arc::new(Upstream::new(connections, naming, ports.clone())))
            })
            .collect::<Result<_, GatewayError>>()?;
        let stored = folder.map(StoredLists::new);
        Ok(Self {
            upstreams: Arc::new(Upstreams::new(all, stored, &*ports.entropy)),
            ports: ports.clone(),
            stopping: CancellationToken::new(),
        })
    }

    /// Finds the executors of stored calls again. Give it to the engine.
    pub fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(UpstreamProvider(Arc::clone(&self.upstreams)))
    }

    /// Offers what is known of the upstreams, and follows them until [`stop`](Self::stop). When this completes, the tools of before are offered, and those of
    /// upstreams that were never seen, if they answer within ten seconds; else they come later.
    pub async fn start(&self, engine: &Engine) {
        let mut unknown = Vec::new();
        let upstreams = &self.upstreams;
        for upstream in &upstreams.all() {
            let known = upstreams
                .stored
                .as_ref()
                .and_then(|stored| stored.load(upstream.name()));
            let mut offered = OfferedTools::new();
            if let Some(lists) = known {
                offered = offer_tools(engine, upstream, Some(&lists), offered).await;
                upstream.set_lists(Some(Arc::new(lists)));
            } else {
                unknown.push(Arc::clone(upstream));
            }
            self.spawn(supervision::follow(
                Arc::clone(upstreams),
                engine.clone(),
                Arc::clone(upstream),
                offered,
            ));
        }
        supervision::offer_lists(upstreams, engine);
        loops::offer(upstreams, engine);
        engine
            .catalog()
            .set_follower(Arc::new(UpstreamResources(Arc::clone(upstreams))));
        self.spawn(follow_clients(Arc::clone(upstreams), engine.clone()));
        let answered = join_all(unknown.iter().map(|upstream| settled(upstream)));
        tokio::select! {
            biased;
            _ = answered => {}
            () = engine.ports().clock.sleep(LONGEST_FIRST_WAIT) => {}
        }
    }

    /// Runs until the gateway stops.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stopping = self.stopping.clone();
        self.ports.spawner.spawn(Box::pin(async move {
            stopping.run_until_cancelled_owned(work).await;
        }));
    }

    /// Waits until each upstream was reached, or could not be.
    pub async fn settled(&self) -> Vec<(String, UpstreamStatus)> {
        let mut all = Vec::new();
        for upstream in self.upstreams.all() {
            all.push((upstream.name().to_owned(), settled(&upstream).await));
        }
        all
    }

    /// Stops following the upstreams, and closes the connections on which nothing runs. Sessions with live tasks stay.
    pub async fn stop(&self) {
        self.stopping.cancel();
        for upstream in self.upstreams.all() {
            upstream.connections.close().await;
        }
    }
}

//! The gateway: all upstreams of a server.

pub(crate) mod check;

use crate::{
    InvalidNames, UpstreamOptions, UpstreamStatus,
    catalog::{
        ClientNotifications, ClientTools, UpstreamProvider, client_catalog, collisions, digest_of_names, offer_tools,
        offer_with_later, unavailable,
    },
    config::names::Naming,
    lists::{StoredLists, UpstreamLists},
    relay::subscriptions::UpstreamResources,
    supervision,
    upstream::{Connections, Upstream, Upstreams, loops},
};
use futures_util::future::{join_all, select_all};
use longhaul_client::{InvalidAddress, RequestError};
use longhaul_core::BoxFuture;
use longhaul_private_dir::PrivateDir;
use longhaul_runtime::{
    AuthorHandlers, Completeness, Engine, PendingTools, Ports, Provider, SessionChange, Unavailable,
};
use std::{collections::BTreeMap, io, sync::Arc, time::Duration};
use tokio::sync::{Mutex, broadcast::error::RecvError, mpsc};
use tokio_util::sync::CancellationToken;

/// How long a start waits for upstreams that were never seen.
const LONGEST_FIRST_WAIT: Duration = Duration::from_secs(10);
/// How much longer a list of tools waits while there are none: the first start of a server may download it. Hosts give up after a minute.
const LONGEST_WAIT_FOR_TOOLS: Duration = Duration::from_secs(35);

/// Passes on which log messages clients ask for, that their roots have changed, and that their sessions have ended. An upstream that hangs does not delay the others.
async fn follow_clients(upstreams: Arc<Upstreams>, engine: Engine) {
    let mut levels = engine.catalog().log_level();
    let mut sessions = engine.catalog().changes_of_sessions();
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
            change = sessions.recv() => match change {
                Ok(SessionChange::Ended(session)) => {
                    for upstream in upstreams.all() {
                        upstream.connections.session_ended(&session);
                    }
                }
                Ok(SessionChange::Roots(session)) => each(&|upstream| {
                    let session = session.clone();
                    Box::pin(async move { upstream.connections.roots_changed(&session).await })
                }),
                Err(RecvError::Lagged(missed)) => tracing::warn!(missed, "not all changes of sessions were passed on"),
                Err(RecvError::Closed) => return,
            },
        }
    }
}

/// The tools of upstreams that are dialled for the first time, or of children that have failed to start.
struct UnseenUpstreams(Arc<Upstreams>);

impl PendingTools for UnseenUpstreams {
    fn until_known(&self, tool: &str) -> Option<BoxFuture<'static, ()>> {
        let mut awaited = self.0.all();
        awaited.retain(|upstream| {
            let may_answer = match *upstream.status.borrow() {
                UpstreamStatus::Starting => true,
                UpstreamStatus::Down { .. } => upstream.is_child(),
                UpstreamStatus::Up { .. } => false,
            };
            may_answer && upstream.naming.can_make(upstream.options().prefix(), tool)
        });
        (!awaited.is_empty()).then(|| {
            Box::pin(async move { drop(join_all(awaited.iter().map(|upstream| answered(upstream))).await) }) as _
        })
    }

    fn why_missing(&self, tool: &str) -> Option<Unavailable> {
        let upstreams = self.0.all().into_iter();
        let may_have_it = upstreams.filter(|upstream| upstream.naming.can_make(upstream.options().prefix(), tool));
        unavailable::of_all(may_have_it.filter_map(|upstream| upstream.failure.read().clone()))
    }
}

/// Waits until an upstream was reached, or could not be. One that is down is dialled at once.
async fn answered(upstream: &Upstream) {
    let mut status = upstream.status.subscribe();
    if !matches!(*status.borrow_and_update(), UpstreamStatus::Up { .. }) {
        upstream.needed.notify_waiters();
        // The sender lives as long as the upstream.
        let _ = status.changed().await;
    }
}

async fn settled_all(upstreams: Vec<Arc<Upstream>>) {
    join_all(upstreams.iter().map(|upstream| settled(upstream))).await;
}

/// Waits until there are tools, or until it is known why there are none.
async fn wait_for_tools(upstreams: Arc<Upstreams>, engine: Engine, unknown: Vec<Arc<Upstream>>) {
    let has_tools = select_all(unknown.iter().map(|upstream| {
        let mut status = upstream.status.subscribe();
        Box::pin(async move {
            // The sender lives as long as the upstream.
            let _ = status
                .wait_for(|status| matches!(status, UpstreamStatus::Up { tools: 1.. }))
                .await;
        })
    }));
    let known = async {
        tokio::select! {
            biased;
            () = settled_all(unknown.clone()) => {}
            _ = has_tools => {}
        }
    };
    if engine.ports().within(LONGEST_WAIT_FOR_TOOLS, known).await.is_none() {
        for upstream in unknown {
            if *upstream.status.borrow() == UpstreamStatus::Starting {
                *upstream.failure.write() = Some(unavailable::of_silent(upstream.name()));
            }
        }
        unavailable::offer(&upstreams, &engine);
    }
    engine.catalog().set_completeness(Completeness::Complete);
}

/// Waits until the upstream was reached, or could not be.
async fn settled(upstream: &Upstream) -> UpstreamStatus {
    let mut status = upstream.status.subscribe();
    let settled = status.wait_for(|status| *status != UpstreamStatus::Starting).await;
    // The sender lives as long as the upstream.
    settled.map_or(UpstreamStatus::Starting, |status| status.clone())
}

/// The upstreams of a configuration. Nothing is sent.
pub(crate) fn make_all(
    upstreams: Vec<UpstreamOptions>,
    prefix: bool,
    version: &'static str,
    ports: &Ports,
) -> Result<Vec<Arc<Upstream>>, GatewayError> {
    let naming = Naming::of(&upstreams, prefix)?;
    let is_only = upstreams.len() == 1;
    let upstreams = upstreams.into_iter();
    upstreams
        .map(|options| make(options, (naming, is_only), version, ports, None))
        .collect()
}

fn make(
    options: UpstreamOptions,
    (naming, is_only): (Naming, bool),
    version: &'static str,
    ports: &Ports,
    predecessor: Option<&Upstream>,
) -> Result<Arc<Upstream>, GatewayError> {
    let upstream = options.name.clone();
    let connections = Connections::new(options, is_only, version, ports)
        .map_err(|error| GatewayError::Address { upstream, error })?;
    Ok(Arc::new(Upstream::new(connections, naming, ports.clone(), predecessor)))
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
    /// Upstreams have tools of one name, and no prefixes.
    #[error("{}", .0.join("\n"))]
    Collisions(Vec<String>),
    /// Where the lists of upstreams are stored.
    #[error("cannot use the folder of upstreams: {0}")]
    Folder(#[from] io::Error),
}

/// Whether two upstreams may have tools of one name.
fn may_collide(all: &[Arc<Upstream>]) -> bool {
    all.len() > 1 && all.iter().all(|upstream| upstream.naming == Naming::Bare)
}

/// What an upstream offers now.
async fn read_lists(upstream: &Upstream) -> Result<UpstreamLists, RequestError> {
    let own = upstream.connections.own();
    let own = own.map_err(|error| RequestError::Setup(error.to_string()))?;
    UpstreamLists::read(&own.connection, &upstream.ports, upstream.last_lists().as_deref()).await
}

/// What is known of an upstream now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PresentUpstream {
    /// Its name.
    pub name: String,
    /// Whether it can be reached.
    pub status: UpstreamStatus,
    /// That it answers some calls and pings nothing, though it can be reached, and for how long.
    pub silence: Option<String>,
    /// Those of its tools that are offered, by the names that clients see.
    pub tools: Vec<String>,
    /// Those that are not offered because others have their names: the name, and why.
    pub left_out: BTreeMap<String, String>,
    /// How many of its calls wait because as many as may do run.
    pub waiting: usize,
    /// How many of its calls may run at once; `None` for no limit.
    pub concurrency: Option<usize>,
}

/// The upstreams of which nothing is known at the start.
#[must_use = "requests for what is offered wait until they were waited for"]
pub struct Unseen(Vec<Arc<Upstream>>);

/// What a reload has changed, by the names of the upstreams.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reloaded {
    /// Those that are new.
    pub added: Vec<String>,
    /// Those that have other settings, and are connected to anew.
    pub changed: Vec<String>,
    /// Those that are gone.
    pub removed: Vec<String>,
}

/// Upstreams, and what is offered of them. Make it before the engine is started, since the engine needs its [`provider`](Self::provider) to go on with calls of
/// before, and [`start`](Self::start) it then.
pub struct Gateway {
    upstreams: Arc<Upstreams>,
    version: &'static str,
    ports: Ports,
    stopping: CancellationToken,
    /// One reload at a time.
    reloading: Mutex<()>,
}

impl Gateway {
    /// A gateway to these upstreams, in this order. Nothing is sent yet. With `prefix`, the names of tools and prompts begin with that of their upstream.
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
        let all = make_all(upstreams, prefix, version, ports)?;
        let stored = folder.map(StoredLists::new);
        let upstreams = Upstreams::new(all, stored, &*ports.entropy);
        for upstream in upstreams.all() {
            upstreams.recall_silence(&upstream);
        }
        Ok(Self {
            upstreams: Arc::new(upstreams),
            version,
            ports: ports.clone(),
            stopping: CancellationToken::new(),
            reloading: Mutex::default(),
        })
    }

    /// Finds the executors of stored calls again. Give it to the engine.
    pub fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(UpstreamProvider(Arc::clone(&self.upstreams)))
    }

    /// Without prefixes: refuses tools of one name. Call it before the server starts. The lists of all upstreams are read, as far as they answer within ten seconds;
    /// of the others the stored ones count. A configuration of names that was accepted is not looked at again: a server that has run must not stay down because an
    /// upstream has got another tool, which is left out then.
    ///
    /// # Errors
    /// [`GatewayError::Collisions`].
    pub async fn refuse_collisions(&self) -> Result<(), GatewayError> {
        let all = self.upstreams.all();
        if !may_collide(&all) {
            return Ok(());
        }
        let stored = self.upstreams.stored.as_ref();
        if stored.and_then(StoredLists::accepted_names) == Some(digest_of_names(&all)) {
            return Ok(());
        }
        let refused = self.accept(&all, &[]).await;
        if refused.is_err() {
            join_all(all.iter().map(|upstream| upstream.connections.close())).await;
        }
        refused
    }

    /// Accepts the names of these upstreams, unless some collide.
    async fn accept(&self, all: &[Arc<Upstream>], before: &[Arc<Upstream>]) -> Result<(), GatewayError> {
        let known = self.known_lists(all, before).await;
        let collisions = collisions(&known);
        if !collisions.is_empty() {
            return Err(GatewayError::Collisions(collisions));
        }
        if known.len() == all.len() {
            self.upstreams.accept_names(&digest_of_names(all));
        }
        Ok(())
    }

    /// Offers what is known of the upstreams, and follows them until [`stop`](Self::stop). When this completes, the tools of before are offered, so a server that
    /// is reached from then on has them for calls. Go on with [`wait`](Self::wait).
    pub async fn start(&self, engine: &Engine) -> Unseen {
        engine.catalog().set_completeness(Completeness::Starting);
        let mut unknown = Vec::new();
        let upstreams = &self.upstreams;
        for upstream in &upstreams.all() {
            if !self.begin(engine, upstream, None).await {
                unknown.push(Arc::clone(upstream));
            }
        }
        supervision::offer_lists(upstreams, engine);
        loops::offer(upstreams, engine);
        engine.catalog().set_follower(Arc::new(UpstreamResources {
            upstreams: Arc::clone(upstreams),
            catalog: Arc::downgrade(engine.catalog()),
        }));
        let mut author = AuthorHandlers::clone(&engine.catalog().snapshot().author);
        if author.fallback_notification.is_none() {
            author.fallback_notification = Some(Arc::new(ClientNotifications(Arc::clone(upstreams))));
            engine.catalog().set_author_handlers(author);
        }
        engine
            .catalog()
            .set_tool_visibility(Arc::new(ClientTools(Arc::clone(upstreams))));
        engine
            .catalog()
            .set_pending_tools(Arc::new(UnseenUpstreams(Arc::clone(upstreams))));
        self.spawn(follow_clients(Arc::clone(upstreams), engine.clone()));
        Unseen(unknown)
    }

    /// Waits for upstreams that were never seen: their tools are offered when this completes, if they answer within ten seconds; else they come later. Until then
    /// requests for what is offered wait, if the server is reached already, and while there are no tools at all, those for tools wait for 35 seconds more. Calls and
    /// tasks do not wait.
    pub async fn wait(&self, engine: &Engine, Unseen(unknown): Unseen) {
        let (upstreams, ports) = (&self.upstreams, engine.ports());
        let answered = ports.within(LONGEST_FIRST_WAIT, settled_all(unknown.clone())).await;
        if answered.is_some() || !engine.catalog().snapshot().tools.is_empty() {
            return engine.catalog().set_completeness(Completeness::Complete);
        }
        engine.catalog().set_completeness(Completeness::WithoutTools);
        self.spawn(wait_for_tools(Arc::clone(upstreams), engine.clone(), unknown));
    }

    /// Has these upstreams from now on. Those with the same settings as before stay connected. The tools of the others come and go, and calls of theirs that run go on
    /// to their end; after a restart, they are found again only if there is an upstream of their name.
    ///
    /// Without prefixes the lists of new upstreams are read before anything changes, as far as they answer within ten seconds.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`GatewayError::Collisions`]. Nothing has changed then.
    pub async fn reload(
        &self,
        engine: &Engine,
        upstreams: Vec<UpstreamOptions>,
        prefix: bool,
    ) -> Result<Reloaded, GatewayError> {
        let naming = Naming::of(&upstreams, prefix)?;
        let _one_at_a_time = self.reloading.lock().await;
        let before = self.upstreams.all();
        let mut all = Vec::with_capacity(upstreams.len());
        let is_only = upstreams.len() == 1;
        for options in upstreams {
            let same = before.iter().find(|known| {
                let is_same = known.naming == naming && known.connections.is_only() == is_only;
                is_same && *known.options() == options
            });
            all.push(match same {
                Some(same) => {
                    same.needed.notify_waiters();
                    Arc::clone(same)
                }
                None => {
                    let predecessor = before.iter().find(|known| known.name() == options.name);
                    let predecessor = predecessor.map(Arc::as_ref);
                    make(options, (naming, is_only), self.version, &self.ports, predecessor)?
                }
            });
        }
        if may_collide(&all)
            && let Err(refused) = self.accept(&all, &before).await
        {
            let others = all
                .iter()
                .filter(|upstream| !before.iter().any(|known| Arc::ptr_eq(known, upstream)));
            join_all(others.map(|upstream| upstream.connections.close())).await;
            return Err(refused);
        }
        let is_in = |all: &[Arc<Upstream>], one: &Arc<Upstream>| all.iter().any(|other| Arc::ptr_eq(other, one));
        let mut reloaded = Reloaded::default();
        self.upstreams.replace(all.clone());
        for gone in before.iter().filter(|upstream| !is_in(&all, upstream)) {
            let successor = all.iter().find(|upstream| upstream.name() == gone.name());
            if let Some(successor) = successor {
                // It has none yet.
                let _ = gone.successor.set(Arc::clone(successor));
            }
            gone.removed.cancel();
            match successor {
                Some(successor) => {
                    gone.connections.take_headers(&successor.connections);
                    // Its tools stay offered until it is known which the new one has.
                    let offered = std::mem::take(&mut *gone.offered.lock().await);
                    let unknown = offered.into_keys().map(|name| (name, None));
                    successor.offered.lock().await.extend(unknown);
                }
                None => {
                    offer_tools(engine, &self.upstreams, gone, None).await;
                    reloaded.removed.push(gone.name().to_owned());
                }
            }
        }
        for begun in all.iter().filter(|upstream| !is_in(&before, upstream)) {
            let predecessor = before.iter().find(|upstream| upstream.name() == begun.name());
            self.begin(engine, begun, predecessor.and_then(|upstream| upstream.lists()))
                .await;
            match predecessor {
                Some(_) => reloaded.changed.push(begun.name().to_owned()),
                None => reloaded.added.push(begun.name().to_owned()),
            }
        }
        // Others may come first now.
        for upstream in &all {
            if let Some(lists) = upstream.lists() {
                offer_tools(engine, &self.upstreams, upstream, Some(&lists)).await;
            }
        }
        supervision::offer_lists(&self.upstreams, engine);
        if reloaded != Reloaded::default() {
            let lists: Vec<_> = before
                .iter()
                .chain(&all)
                .filter_map(|upstream| upstream.lists())
                .collect();
            // What was never offered is not declared.
            if lists.iter().any(|lists| !lists.prompts.is_empty()) {
                engine.catalog().prompt_list_changed();
            }
            if lists
                .iter()
                .any(|lists| !lists.resources.is_empty() || !lists.templates.is_empty())
            {
                engine.catalog().resource_list_changed();
            }
        }
        let gone = before.iter().filter(|upstream| !is_in(&all, upstream));
        join_all(gone.map(|upstream| upstream.connections.close_unused())).await;
        Ok(reloaded)
    }

    /// What upstreams offer, as far as they answer or are known. Those in `before` are connected, so they are not asked.
    async fn known_lists(
        &self,
        all: &[Arc<Upstream>],
        before: &[Arc<Upstream>],
    ) -> Vec<(Arc<Upstream>, Arc<UpstreamLists>)> {
        let read = all.iter().map(async |upstream| {
            if before.iter().any(|known| Arc::ptr_eq(known, upstream)) {
                return upstream.last_lists();
            }
            match self.ports.within(LONGEST_FIRST_WAIT, read_lists(upstream)).await {
                Some(Ok(lists)) => Some(Arc::new(lists)),
                _ => {
                    let stored = self.upstreams.stored.as_ref()?;
                    stored.load(upstream.name()).map(Arc::new)
                }
            }
        });
        let read = join_all(read).await;
        let known = all.iter().zip(read);
        known
            .filter_map(|(upstream, lists)| Some((Arc::clone(upstream), lists?)))
            .collect()
    }

    /// Offers what is known of an upstream, and begins to follow it. Returns whether anything is known of it.
    async fn begin(&self, engine: &Engine, upstream: &Arc<Upstream>, known: Option<Arc<UpstreamLists>>) -> bool {
        let stored = || {
            let stored = self.upstreams.stored.as_ref()?;
            stored.load(upstream.name()).map(Arc::new)
        };
        let known = known.or_else(stored);
        if let Some(lists) = &known {
            upstream.set_lists(Some(Arc::clone(lists)));
            offer_with_later(engine, &self.upstreams, upstream, lists).await;
        }
        let (events, received) = mpsc::unbounded_channel();
        upstream.connections.set_list_events(events);
        let of_clients = client_catalog::follow(
            Arc::clone(&self.upstreams),
            engine.clone(),
            Arc::clone(upstream),
            received,
        );
        self.spawn(of_clients);
        // It is set once: an upstream begins once.
        let _ = upstream.connections.logs.set(engine.catalog().session_logs());
        let level = *engine.catalog().log_level().borrow();
        upstream.connections.set_log_level(level).await;
        let following = supervision::supervise(Arc::clone(&self.upstreams), engine.clone(), Arc::clone(upstream));
        let removed = upstream.removed.clone();
        self.spawn(async move {
            removed.run_until_cancelled_owned(following).await;
        });
        known.is_some()
    }

    /// Runs until the gateway stops.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stopping = self.stopping.clone();
        self.ports.spawner.spawn(Box::pin(async move {
            stopping.run_until_cancelled_owned(work).await;
        }));
    }

    /// Whether there are no upstreams now.
    pub fn is_empty(&self) -> bool {
        self.upstreams.all().is_empty()
    }

    /// What is known of each upstream now.
    pub async fn present(&self) -> Vec<PresentUpstream> {
        let mut all = Vec::new();
        for upstream in self.upstreams.all() {
            let tools = upstream.offered.lock().await.keys().cloned().collect();
            let status = upstream.status.borrow().clone();
            all.push(PresentUpstream {
                name: upstream.name().to_owned(),
                status,
                left_out: upstream.left_out.read().clone(),
                silence: upstream.silent_calls.words(&*upstream.ports.clock),
                tools,
                waiting: upstream.waiting_calls(),
                concurrency: upstream.options().concurrency,
            });
        }
        all
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
        let all = self.upstreams.all();
        // Each may take seconds to end its child.
        join_all(all.iter().map(|upstream| upstream.connections.close())).await;
    }
}

//! One upstream: its connections, and what it offers.

mod connection;
mod connection_key;
mod connections;
mod definition;
mod followed;
pub(crate) mod loops;
mod public_error;
mod sign_of_life;
mod silent_calls;
mod silent_children;
pub(crate) mod status;
mod upstreams;

pub(crate) use connection::UpstreamConnection;
pub(crate) use connections::{Connections, ListEvent};
pub use definition::KIND;
pub(crate) use definition::{Definition, Purpose};
pub(crate) use public_error::{logged, public, with_pause, words};
pub(crate) use sign_of_life::SignOfLife;
pub(crate) use upstreams::Upstreams;

use crate::{
    Target, UpstreamOptions, UpstreamStatus,
    config::{names::Naming, unused_names::unused},
    lists::{OfferedTools, UpstreamLists},
    question::{Context, Registration},
};
use connections::RegisterError;
use longhaul_client::RequestError;
use longhaul_core::{Millis, approximate_duration, whole_millis};
use longhaul_runtime::{Ports, TaskContext, Unavailable};
use parking_lot::RwLock;
use silent_calls::SilentCalls;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Mutex, Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;

/// How long a call waits for an upstream that cannot be reached.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The first and the longest pause between two tries to reach it, in milliseconds.
const PAUSES: (Millis, Millis) = (250, 5_000);

/// An upstream.
pub(crate) struct Upstream {
    pub(crate) connections: Connections,
    pub(crate) naming: Naming,
    pub(crate) ports: Ports,
    /// What it offered when it was last asked; `None` if it does not answer any more.
    lists: RwLock<Option<Arc<UpstreamLists>>>,
    /// What it offered when it was last seen, however long ago.
    last_lists: RwLock<Option<Arc<UpstreamLists>>>,
    /// Its tools that are not offered because others have their names: the name, and why.
    pub(crate) left_out: RwLock<BTreeMap<String, String>>,
    /// Its tools that are offered.
    pub(crate) offered: Mutex<OfferedTools>,
    /// What has its name since another configuration holds, if anything.
    pub(crate) successor: OnceLock<Arc<Self>>,
    /// Cancelled when it is not configured any more. Its calls go on.
    pub(crate) removed: CancellationToken,
    pub(crate) status: watch::Sender<UpstreamStatus>,
    /// Why it cannot be reached, as it was last seen.
    pub(crate) failure: RwLock<Option<Unavailable>>,
    /// Ends the pause before a child is started again.
    pub(crate) needed: Notify,
    /// The calls that run at once.
    pub(crate) running: Option<Arc<Semaphore>>,
    /// How many more wait until they may run.
    waiting_calls: AtomicUsize,
    /// Those that it has answered nothing for long.
    pub(crate) silent_calls: SilentCalls,
}

/// A call waits until this is dropped.
pub(crate) struct WaitingCall<'a>(&'a AtomicUsize);

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why an upstream cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("upstream `{upstream}`: {error}")]
pub(crate) struct UpstreamDown {
    pub(crate) upstream: String,
    pub(crate) error: RequestError,
}

/// Why a tool of an upstream that is gone cannot be called.
pub(crate) fn not_configured(upstream: &str) -> String {
    format!("no upstream `{upstream}` is configured any more")
}

impl Upstream {
    /// Calls that run at its `predecessor` count if as many may run here.
    pub(crate) fn new(connections: Connections, naming: Naming, ports: Ports, predecessor: Option<&Self>) -> Self {
        let most = connections.options().concurrency;
        let alike = predecessor.filter(|before| before.options().concurrency == most);
        let running = alike.and_then(|before| before.running.clone());
        Self {
            running: running.or_else(|| most.map(|most| Arc::new(Semaphore::new(most)))),
            waiting_calls: AtomicUsize::new(0),
            silent_calls: SilentCalls::default(),
            connections,
            naming,
            ports,
            lists: RwLock::new(None),
            last_lists: RwLock::new(None),
            left_out: RwLock::default(),
            offered: Mutex::default(),
            successor: OnceLock::new(),
            removed: CancellationToken::new(),
            status: watch::Sender::new(UpstreamStatus::Starting),
            failure: RwLock::new(None),
            needed: Notify::new(),
        }
    }

    pub(crate) fn options(&self) -> &UpstreamOptions {
        self.connections.options()
    }

    /// Why this tool must not be called any more: what the present configuration says. A job that was submitted is followed in any case.
    pub(crate) fn refusal(&self, tool: &str, purpose: Purpose) -> Option<String> {
        let (name, options) = (self.name(), self.options());
        if let Some(successor) = self.successor.get() {
            return successor.refusal(tool, purpose);
        }
        let is_offered = match purpose {
            Purpose::Tool => options.tools.offers(tool),
            Purpose::Submit => options.jobs.iter().any(|job| job.submit == tool),
            Purpose::Job => return None,
        };
        match (self.removed.is_cancelled(), is_offered) {
            (true, _) => Some(not_configured(name)),
            (false, false) => Some(format!("`{tool}` of upstream `{name}` is switched off")),
            (false, true) => None,
        }
    }

    /// Whether it is a child process.
    pub(crate) fn is_child(&self) -> bool {
        matches!(self.options().target, Target::Command(_))
    }

    /// A call begins to wait until it may run.
    pub(crate) fn begin_waiting(&self) -> WaitingCall<'_> {
        self.waiting_calls.fetch_add(1, Ordering::Relaxed);
        WaitingCall(&self.waiting_calls)
    }

    /// How many calls wait until they may run.
    pub(crate) fn waiting_calls(&self) -> usize {
        self.waiting_calls.load(Ordering::Relaxed)
    }

    pub(crate) fn name(&self) -> &str {
        &self.options().name
    }

    /// What it offered when it was last asked.
    pub(crate) fn lists(&self) -> Option<Arc<UpstreamLists>> {
        self.lists.read().clone()
    }

    /// What it offered when it was last seen, however long ago.
    pub(crate) fn last_lists(&self) -> Option<Arc<UpstreamLists>> {
        self.last_lists.read().clone()
    }

    /// Sets what it offers; `None` if it does not answer any more.
    pub(crate) fn set_lists(&self, lists: Option<Arc<UpstreamLists>>) {
        if let Some(lists) = &lists {
            self.connections.learn(lists);
            let before = self.last_lists.write().replace(Arc::clone(lists));
            let told = |list: &str| before.as_ref().and_then(|before| before.dropped.get(list));
            for (list, what) in lists.dropped.iter().filter(|(list, what)| told(list) != Some(what)) {
                tracing::warn!(upstream = self.name(), list, what, "ignored entries of a list");
            }
            let unused = |lists: &Arc<UpstreamLists>| match lists.failures.contains_key("tools") {
                true => Vec::new(),
                false => unused(self.options(), &lists.index().tools),
            };
            let told = before.as_ref().map(unused).unwrap_or_default();
            for what in unused(lists).iter().filter(|what| !told.contains(what)) {
                tracing::warn!(
                    upstream = self.name(),
                    what,
                    "the configuration names what the upstream does not have"
                );
            }
        }
        *self.lists.write() = lists;
    }

    /// The name under which one of its tools or prompts is offered.
    pub(crate) fn offered_name(&self, name: &str) -> String {
        let renamed = self.options().tools.rename.get(name);
        let name = renamed.map_or(name, String::as_str);
        self.naming.offered(self.options().prefix(), name)
    }

    /// A connection for a call or request. One whose principal has no connection left waits for one: a task until it is stopped, a request for a minute.
    ///
    /// # Errors
    /// [`RegisterError`]
    pub(crate) async fn register(
        &self,
        context: &Context,
        delivered: &BTreeMap<String, u32>,
    ) -> Result<(Arc<UpstreamConnection>, Registration), RegisterError> {
        let since = self.ports.clock.monotonic();
        loop {
            match (self.connections.register(context, delivered), context) {
                (Err(error @ RegisterError::TooMany), Context::Task(cx)) => {
                    cx.status(format!("waiting for upstream `{}`: {error}", self.name()));
                }
                (Err(RegisterError::TooMany), Context::Request(_))
                    if self.ports.clock.monotonic().saturating_sub(since) < LONGEST_WAIT => {}
                (registered, _) => return registered,
            }
            self.pause(PAUSES.0).await;
        }
    }

    /// Begins to wait for the upstream.
    pub(crate) fn backoff(&self) -> ConnectBackoff {
        ConnectBackoff {
            since: self.ports.clock.monotonic(),
            pause: PAUSES.0,
            has_paused: false,
        }
    }

    /// Connects, and tries again while the upstream cannot be reached, for up to a minute. Nothing of the call has been sent then.
    ///
    /// # Errors
    /// Why not.
    pub(crate) async fn connect(
        &self,
        connection: &Arc<UpstreamConnection>,
        backoff: &mut ConnectBackoff,
        cx: Option<&TaskContext>,
    ) -> Result<(), UpstreamDown> {
        loop {
            let reached = match backoff.has_paused {
                // It may have been restarted, and not know the session any more.
                true => connection.check().await,
                false => connection.connect().await,
            };
            let Err(error) = reached else {
                self.needed.notify_waiters();
                connection.watch_lists(self).await;
                return Ok(());
            };
            let may_come_back = error.is_transient() || matches!(error, RequestError::NotStarted { .. });
            if !may_come_back || !backoff.pause(self, cx, &error).await {
                let upstream = self.name().to_owned();
                return Err(UpstreamDown { upstream, error });
            }
        }
    }

    pub(crate) async fn pause(&self, millis: Millis) {
        self.ports.clock.sleep(Duration::from_millis(millis)).await;
    }
}

/// How long something has waited for an upstream that cannot be reached.
pub(crate) struct ConnectBackoff {
    /// By the monotonic clock.
    since: Duration,
    /// The next pause, in milliseconds.
    pause: Millis,
    has_paused: bool,
}

impl ConnectBackoff {
    /// Whether the upstream could not be reached at first.
    pub(crate) fn has_paused(&self) -> bool {
        self.has_paused
    }

    /// Pauses before the next try, at least as long as the upstream asks for. `false` if it has waited long enough, or would have then.
    pub(crate) async fn pause(&mut self, upstream: &Upstream, cx: Option<&TaskContext>, error: &RequestError) -> bool {
        let waited = upstream.ports.clock.monotonic().saturating_sub(self.since);
        let Some(rest) = LONGEST_WAIT.checked_sub(waited) else {
            return false;
        };
        let pause = match error.retry_after() {
            Some(asked) if Duration::from_millis(asked) > rest => return false,
            Some(asked) => asked.max(self.pause),
            None => self.pause,
        };
        if let Some(cx) = cx {
            let rest = approximate_duration(whole_millis(rest));
            let why = public(upstream.name(), error, cx.principal());
            cx.status(format!(
                "waiting for upstream `{}` for up to {rest}: {why}",
                upstream.name()
            ));
        }
        upstream.pause(pause).await;
        self.has_paused = true;
        self.pause = (self.pause * 2).min(PAUSES.1);
        true
    }
}

//! Who is asked what an upstream asks: the client of the call that it asks for, and nobody else.
//!
//! A connection to an upstream belongs to one principal. Its calls have numbers, and what the upstream asks in a response to a call or on its stream carries
//! the number. A question of a task names the task. Any other question can belong to each call that runs on the connection, or may still run there after its
//! client has left: it is put to their client if that is one for all of them, for one of these calls. If that call ends before there is an answer, it was another
//! call's, and is put again for that. Only clients of 2025-11-25 can be told apart, by their sessions.
//! A log message is not answered, so no doubt within one principal matters: without a number it goes to each client that has a call on the connection, and else
//! to the sessions to which the connection belongs. On a connection that all share it goes where a question would.

mod answers;
mod asker;
mod context;
mod retry;
#[cfg(test)]
mod tests;

pub(crate) use answers::ClientsOfConnection;
pub(crate) use asker::Asker;
pub(crate) use context::Context;

use super::UpstreamQuestion;
use asker::Client;
use longhaul_client::{InputRequest, LogMessage, TaskHandle};
use longhaul_core::{Clock, Json, LogLevel, Principal, SessionKey};
use longhaul_runtime::{SessionLog, SessionLogs, ToolMessage};
use longhaul_wire::relayed;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// How long a question may come before the answer that names its task.
const LONGEST_WAIT_FOR_TASK: Duration = Duration::from_secs(2);
/// How long an upstream may take to ask for roots, and a client to tell them, before a call goes on without them.
const LONGEST_WAIT_FOR_ROOTS: Duration = Duration::from_secs(5);
/// How long a call that the upstream has not answered counts as running after its client has left. An upstream is asked to cancel such a call, and does not say
/// when it has.
const MAY_STILL_RUN: Duration = Duration::from_secs(600);

/// The calls and requests of a connection that can be asked something.
pub(crate) struct Askers {
    upstream: String,
    clock: Arc<dyn Clock>,
    state: Mutex<AskerState>,
    /// Notified when a task is known.
    changed: Notify,
    /// The client's last answer to `roots/list`, which upstreams also ask outside of calls.
    roots: Mutex<Option<Json>>,
    /// Whether this upstream asks for roots outside of calls, such as when it is connected.
    asks_for_roots: Arc<AtomicBool>,
    /// Whether the upstream has asked for the roots on this connection and has the answer, as they are now, or has not asked in time.
    has_roots: AtomicBool,
    /// Notified when it has.
    roots_given: Notify,
    /// Whether the upstream has to be told that it should ask for the roots again: they have changed, or nobody could be asked.
    must_ask_again: AtomicBool,
    /// Whose connection it is, and where log messages that belong to no call go.
    listeners: Option<Listeners>,
}

/// The sessions to which a connection belongs.
pub(crate) struct Listeners {
    pub(crate) principal: Principal,
    /// `None` for all of the principal.
    pub(crate) session: Option<SessionKey>,
    pub(crate) logs: Arc<OnceLock<SessionLogs>>,
}

#[derive(Default)]
struct AskerState {
    last: u64,
    by_number: BTreeMap<u64, Arc<Asker>>,
    by_task: HashMap<String, u64>,
    /// Whose calls may still run after they were given up, and until when they count, by the monotonic clock.
    left: HashMap<Client, Duration>,
}

/// The calls that may have asked something which names none: those that had begun by then, and had not ended before the answer.
struct Candidates {
    /// The number of the latest one.
    latest: u64,
    ended: Vec<Arc<Asker>>,
}

/// A call is known to its connection until this is dropped.
pub(crate) struct Registration {
    askers: Arc<Askers>,
    pub(crate) number: u64,
    pub(crate) asker: Arc<Asker>,
}

impl Askers {
    pub(crate) fn new(
        upstream: &str,
        clock: Arc<dyn Clock>,
        asks_for_roots: Arc<AtomicBool>,
        listeners: Option<Listeners>,
    ) -> Arc<Self> {
        Arc::new(Self {
            upstream: upstream.to_owned(),
            clock,
            state: Mutex::default(),
            changed: Notify::new(),
            roots: Mutex::default(),
            asks_for_roots,
            has_roots: AtomicBool::new(false),
            roots_given: Notify::new(),
            must_ask_again: AtomicBool::new(false),
            listeners,
        })
    }

    /// Makes a call known. `delivered` is what an earlier process knows of its legacy questions.
    pub(crate) fn register(self: &Arc<Self>, context: Context, delivered: BTreeMap<String, u32>) -> Registration {
        let mut state = self.state.lock();
        let client = state.client_of(&context);
        self.enter(&mut state, client, context, delivered)
    }

    /// As [`register`](Self::register), but only if all that runs on the connection, and all that may still run there, is of the same client: then a question
    /// that names no call is this client's.
    pub(crate) fn register_alone(
        self: &Arc<Self>,
        context: &Context,
        delivered: &BTreeMap<String, u32>,
    ) -> Option<Registration> {
        let mut state = self.state.lock();
        state.forget(self.clock.monotonic());
        let client = state.client_of(context);
        let is_alone = state.clients().all(|other| *other == client);
        is_alone.then(|| self.enter(&mut state, client, context.clone(), delivered.clone()))
    }

    fn enter(
        self: &Arc<Self>,
        state: &mut AskerState,
        client: Client,
        context: Context,
        delivered: BTreeMap<String, u32>,
    ) -> Registration {
        state.last += 1;
        let number = state.last;
        let asker = Arc::new(Asker::new(context, client, delivered));
        state.by_number.insert(number, Arc::clone(&asker));
        Registration {
            askers: Arc::clone(self),
            number,
            asker,
        }
    }

    /// Whether nothing runs on the connection.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.lock().by_number.is_empty()
    }

    /// Who is asked.
    async fn find(&self, request: &InputRequest, candidates: &Candidates) -> Option<Arc<Asker>> {
        let Some(task) = &request.task else {
            return self.of_source(request.source, candidates);
        };
        let known = async {
            loop {
                let changed = self.changed.notified();
                if let Some(asker) = self.state.lock().of_task(task) {
                    return Some(asker);
                }
                changed.await;
            }
        };
        // Some servers ask before they answer the call with its task.
        tokio::select! {
            biased;
            known = known => known,
            () = self.clock.sleep(LONGEST_WAIT_FOR_TASK) => self.state.lock().by_number.get(&request.source?).cloned(),
        }
    }

    /// The call that has asked something which is settled now.
    fn of_settled(&self, request: &InputRequest, asked: &UpstreamQuestion) -> Option<Arc<Asker>> {
        let state = self.state.lock();
        let of_task = request.task.as_deref().and_then(|task| state.of_task(task));
        let by_number = || state.by_number.get(&request.source?).cloned();
        // More calls may have begun since it was asked.
        let asks = |asker: &&Arc<Asker>| asker.unsettled.lock().contains_key(&asked.digest);
        of_task
            .or_else(by_number)
            .or_else(|| state.by_number.values().rev().find(asks).cloned())
    }

    /// The call with this number; without one, a candidate, if the only client that it can be has one.
    fn of_source(&self, source: Option<u64>, candidates: &Candidates) -> Option<Arc<Asker>> {
        let mut state = self.state.lock();
        match source {
            Some(number) => state.by_number.get(&number).cloned(),
            None => state.of_only_client(self.clock.monotonic(), candidates),
        }
    }

    /// The calls so far.
    fn candidates(&self) -> Candidates {
        Candidates {
            latest: self.state.lock().last,
            ended: Vec::new(),
        }
    }

    /// Waits until the upstream has the roots of the client, if it is one that asks for them outside of calls: else a call could be there before they are. A call
    /// goes on without them if the upstream does not ask on this connection, or the client does not answer.
    pub(crate) async fn wait_for_roots(&self, context: &Context) {
        let given = self.roots_given.notified();
        let waits = context.requestor().capabilities.roots
            && self.asks_for_roots.load(Ordering::Relaxed)
            && !self.has_roots.load(Ordering::Relaxed);
        if !waits {
            return;
        }
        tokio::select! {
            biased;
            () = given => {}
            () = self.clock.sleep(LONGEST_WAIT_FOR_ROOTS) => {
                tracing::debug!(upstream = self.upstream, "an upstream has not got the roots of a client in time");
                self.has_roots.store(true, Ordering::Relaxed);
            }
        }
    }

    /// The upstream has the answer to its question for the roots.
    fn roots_were_given(&self) {
        self.has_roots.store(true, Ordering::Relaxed);
        self.roots_given.notify_waiters();
    }

    /// The upstream does not have the roots of the client. Before the next call it is told to ask again.
    pub(crate) fn forget_roots(&self) {
        *self.roots.lock() = None;
        self.must_ask_again.store(true, Ordering::Relaxed);
    }

    /// Whether the upstream has to be told that it should ask for the roots again. It is asked once.
    pub(crate) fn takes_new_roots(&self) -> bool {
        let must_ask_again = self.must_ask_again.swap(false, Ordering::Relaxed);
        if must_ask_again {
            self.has_roots.store(false, Ordering::Relaxed);
        }
        must_ask_again
    }

    /// Whether a call was sent and has no answer: then what is asked may be asked for it.
    fn has_running_call(&self) -> bool {
        let state = self.state.lock();
        state.by_number.values().any(|asker| asker.runs.load(Ordering::Relaxed))
    }

    /// Passes a log message on.
    pub(crate) fn log(&self, message: LogMessage) {
        let LogMessage {
            level, logger, data, ..
        } = &message;
        let (data, relayed) = (Json::from(data), Some(relayed::params(&message.params)));
        let logger: Option<Arc<str>> = logger.as_deref().map(Arc::from);
        let askers: Vec<_> = match (message.source, &self.listeners) {
            (None, Some(_)) => self.state.lock().newest_of_each(),
            (source, _) => self.of_source(source, &self.candidates()).into_iter().collect(),
        };
        for asker in &askers {
            asker.context.send(ToolMessage::Log {
                level: *level,
                logger: logger.clone(),
                data: data.clone(),
                relayed: relayed.clone(),
            });
        }
        if !askers.is_empty() {
            return;
        }
        let Some((listeners, logs)) = self
            .listeners
            .as_ref()
            .and_then(|listeners| Some((listeners, listeners.logs.get()?)))
        else {
            return tracing::debug!(upstream = self.upstream, "a log message belongs to no client");
        };
        logs.send(SessionLog {
            principal: listeners.principal.clone(),
            session: listeners.session.clone(),
            level: *level,
            logger,
            data,
            relayed,
            method: None,
        });
    }

    /// Passes a notification on that MCP does not define: to whose connection it is.
    pub(crate) fn notify(&self, method: &str, params: Option<&Json>) {
        let listeners = self.listeners.as_ref();
        if let Some((listeners, logs)) = listeners.and_then(|listeners| Some((listeners, listeners.logs.get()?))) {
            logs.send(SessionLog {
                principal: listeners.principal.clone(),
                session: listeners.session.clone(),
                level: LogLevel::Info,
                logger: None,
                data: Json::trusted("null"),
                relayed: params.map(relayed::params),
                method: Some(method.into()),
            });
        }
    }

    /// The process that ran the calls is gone: none of those that were given up runs any more.
    pub(crate) fn forget_left(&self) {
        self.state.lock().left.clear();
    }
}

impl AskerState {
    fn of_task(&self, task: &str) -> Option<Arc<Asker>> {
        self.by_number.get(self.by_task.get(task)?).cloned()
    }

    /// A call, if all that run, and all that may still run, are of one client. It is the newest one for which nothing is asked yet: calls mostly ask when they
    /// begin, and one thing at a time.
    fn of_only_client(&mut self, now: Duration, candidates: &Candidates) -> Option<Arc<Asker>> {
        self.forget(now);
        let has_ended = |asker: &Arc<Asker>| candidates.ended.iter().any(|other| Arc::ptr_eq(asker, other));
        let until_then = self.by_number.range(..=candidates.latest).rev();
        let running = until_then.map(|(_, asker)| asker).filter(|asker| !has_ended(asker));
        let chosen = running.min_by_key(|asker| !asker.unsettled.lock().is_empty())?;
        let is_only = self.clients().all(|client| *client == chosen.client);
        is_only.then(|| Arc::clone(chosen))
    }

    /// The newest call of each client.
    fn newest_of_each(&self) -> Vec<Arc<Asker>> {
        let mut newest: Vec<&Arc<Asker>> = Vec::new();
        for asker in self.by_number.values().rev() {
            if newest.iter().all(|other| other.client != asker.client) {
                newest.push(asker);
            }
        }
        newest.into_iter().cloned().collect()
    }

    /// The clients of all that runs, and of all that may still run.
    fn clients(&self) -> impl Iterator<Item = &Client> {
        let running = self.by_number.values().map(|asker| &asker.client);
        running.chain(self.left.keys())
    }

    /// The client of the next call.
    fn client_of(&self, context: &Context) -> Client {
        match (context.session(), context) {
            (Some(session), _) => Client::Session(session.clone()),
            (None, Context::Task(cx)) => Client::OfTask(cx.task().clone()),
            (None, Context::Request(_)) => Client::OfRequest(self.last + 1),
        }
    }

    /// Forgets calls that were given up long ago.
    fn forget(&mut self, now: Duration) {
        self.left.retain(|_, until| *until > now);
    }
}

impl Registration {
    /// The upstream has made a task of the call.
    pub(crate) fn is_task(&self, task: &TaskHandle) {
        self.asker.open.is_task(task.reference());
        let id = task.id().to_owned();
        self.askers.state.lock().by_task.insert(id, self.number);
        self.askers.changed.notify_waiters();
    }

    /// The call is sent. Until it has ended, it may ask, also after this value is dropped.
    pub(crate) fn begins(&self) {
        self.asker.runs.store(true, Ordering::Relaxed);
    }

    /// Whether it was sent, and has no answer.
    pub(crate) fn runs(&self) -> bool {
        self.asker.runs.load(Ordering::Relaxed)
    }

    /// The upstream has answered it for good, or has not received it.
    pub(crate) fn ends(&self) {
        self.asker.runs.store(false, Ordering::Relaxed);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut state = self.askers.state.lock();
        state.by_number.remove(&self.number);
        if self.runs() {
            let now = self.askers.clock.monotonic();
            state.forget(now);
            state.left.insert(self.asker.client.clone(), now + MAY_STILL_RUN);
        }
        state.by_task.retain(|_, number| *number != self.number);
    }
}

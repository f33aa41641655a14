//! The audit log: who did what to which task. Never arguments, results, tokens or keys.

use longhaul_core::{Clock, TaskId, UnixMillis, push_timestamp, truncate};
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    collections::HashMap,
    fmt, io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Bytes of a name that comes from outside.
const LONGEST: usize = 200;
/// Between two events about requests over a rate limit, in milliseconds. A flood of them must not push everything else out of a log of limited size.
const LIMITED_EVERY: u64 = 1_000;
/// Events of one principal with the same outcome that change nothing, as many in a second: reads, answers to nothing, denied requests. Those of senders whom nobody knows
/// are counted together. Whoever sends more of them pushes no more out of the log.
const UNCHANGING_PER_SECOND: u32 = 20;
/// Principals whose events are counted.
const COUNTED: usize = 10_000;

/// Takes the events of the audit log.
///
/// Called before the answer leaves, on the thread that answers: it should take microseconds, and never fail visibly.
///
/// ```
/// use longhaul_server::audit::{Audit, AuditEvent};
/// use std::sync::mpsc::{Sender, channel};
///
/// /// Hands the events to a thread that sends them elsewhere.
/// struct Forward(Sender<String>);
///
/// impl Audit for Forward {
///     fn record(&self, event: &AuditEvent) {
///         let _ = self.0.send(event.to_json());
///     }
/// }
///
/// let (events, _received) = channel();
/// let audit = Forward(events);
/// # let _ = audit;
/// ```
pub trait Audit: Send + Sync {
    /// Takes one event.
    fn record(&self, event: &AuditEvent);

    /// Whether [`AuditAction::Read`] is wanted, which outnumbers all others: clients poll. Asked once.
    fn records_reads(&self) -> bool {
        true
    }

    /// How many events could not be recorded. An operator is told.
    fn lost(&self) -> LostEvents {
        LostEvents::default()
    }

    /// The latest events as [`AuditEvent::to_json`] writes them, newest first and at most so many, for operators; `None` of a log that is not read here.
    ///
    /// # Errors
    /// The log cannot be read.
    fn latest(&self, most: usize) -> io::Result<Option<Vec<String>>> {
        let _ = most;
        Ok(None)
    }
}

/// Events that could not be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LostEvents {
    /// Since the latest one that could be.
    pub at_present: u64,
    /// Since the start of the process.
    pub in_all: u64,
}

/// What was done, or tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuditAction {
    /// A tool was called without making a task.
    Call,
    /// A call was given a task: a new one, or that of the same call made before.
    Create,
    /// A task, its result, log, output or history, or another resource was read or subscribed to, tasks were listed, or a prompt was got.
    Read,
    /// A question was answered.
    Answer,
    /// A task was cancelled.
    Cancel,
    /// A task was deleted.
    Delete,
    /// A task that had ended without success was made again by an operator.
    Retry,
    /// A durable task was reset by an operator: a new one goes on from an earlier point of its journal.
    Reset,
    /// A blocked task was tried again by an operator.
    Release,
    /// A queued task was moved to the front of its queue by an operator.
    Raise,
    /// An operator has paused a tool.
    Pause,
    /// An operator has ended the pause of a tool.
    Resume,
    /// An operator has told the server to stop.
    Drain,
    /// An operator has given up the host of a dead server.
    GiveUp,
    /// An operator has cordoned a server.
    Cordon,
    /// An operator has ended the cordon of a server.
    Uncordon,
    /// A request was not served: nobody knows its sender.
    Denied,
    /// An API key was added, rotated or revoked.
    Key,
    /// The server started, with this configuration.
    Configuration,
}

impl AuditAction {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Call,
        Self::Create,
        Self::Read,
        Self::Answer,
        Self::Cancel,
        Self::Delete,
        Self::Retry,
        Self::Reset,
        Self::Release,
        Self::Raise,
        Self::Pause,
        Self::Resume,
        Self::Drain,
        Self::GiveUp,
        Self::Cordon,
        Self::Uncordon,
        Self::Denied,
        Self::Key,
        Self::Configuration,
    ];

    /// Its name in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Create => "create",
            Self::Read => "read",
            Self::Answer => "answer",
            Self::Cancel => "cancel",
            Self::Delete => "delete",
            Self::Retry => "retry",
            Self::Reset => "reset",
            Self::Release => "release",
            Self::Raise => "raise",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Drain => "drain",
            Self::GiveUp => "give-up",
            Self::Cordon => "cordon",
            Self::Uncordon => "uncordon",
            Self::Denied => "denied",
            Self::Key => "key",
            Self::Configuration => "configuration",
        }
    }
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuditOutcome {
    /// It was done, or accepted: a call may still run.
    Ok,
    /// There is no such task, or it belongs to another principal.
    Unknown,
    /// The sender is not known (401), or may not do this (403).
    Denied,
    /// A rate or a quota was reached (429).
    Limited,
    /// It was refused or failed, with this JSON-RPC error code.
    Failed(i64),
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AuditEvent {
    /// When, by the system's clock.
    pub at: UnixMillis,
    /// What.
    pub action: AuditAction,
    /// How it went.
    pub outcome: AuditOutcome,
    /// By whom, if that is known.
    pub principal: Option<Arc<str>>,
    /// The task.
    pub task: Option<TaskId>,
    /// The tool.
    pub tool: Option<String>,
    /// The URI of a resource that is not a task's, without its query.
    pub resource: Option<String>,
    /// The prompt.
    pub prompt: Option<String>,
    /// The method of the request.
    pub method: Option<&'static str>,
    /// The name of the legacy session. Its id cannot be made from it.
    pub session: Option<String>,
    /// The name that the client gives itself.
    pub client: Option<String>,
    /// The version that the client gives itself.
    pub client_version: Option<String>,
    /// The address that the request came from.
    pub address: Option<IpAddr>,
    /// More about it, for people.
    pub detail: Option<String>,
    /// How many events like this one were left out since the last one: requests over a rate limit, or what changed nothing, of the same principal with the same outcome.
    pub left_out: u64,
}

impl AuditEvent {
    /// An event of which nothing else is known.
    pub fn new(at: UnixMillis, action: AuditAction, outcome: AuditOutcome) -> Self {
        Self {
            at,
            action,
            outcome,
            principal: None,
            task: None,
            tool: None,
            resource: None,
            prompt: None,
            method: None,
            session: None,
            client: None,
            client_version: None,
            address: None,
            detail: None,
            left_out: 0,
        }
    }

    /// Whether nothing has changed by it, so that whoever sends such requests can cause it as often as they like.
    fn changes_nothing(&self) -> bool {
        match self.action {
            AuditAction::Read | AuditAction::Denied => true,
            AuditAction::Answer => self.outcome != AuditOutcome::Ok,
            _ => false,
        }
    }

    /// With more about it, for people.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The event as one JSON object, without a line break. Members without a value are left out.
    ///
    /// ```
    /// use longhaul_server::audit::{AuditAction, AuditEvent, AuditOutcome};
    /// use longhaul_core::UnixMillis;
    /// let event = AuditEvent::new(UnixMillis(1_800_000_000_123), AuditAction::Denied, AuditOutcome::Denied);
    /// let json = r#"{"time":"2027-01-15T08:00:00.123Z","action":"denied","outcome":"denied"}"#;
    /// assert_eq!(event.to_json(), json);
    /// ```
    pub fn to_json(&self) -> String {
        let mut time = String::new();
        push_timestamp(&mut time, self.at);
        let (outcome, code) = match self.outcome {
            AuditOutcome::Ok => ("ok", None),
            AuditOutcome::Unknown => ("unknown", None),
            AuditOutcome::Denied => ("denied", None),
            AuditOutcome::Limited => ("limited", None),
            AuditOutcome::Failed(code) => ("failed", Some(code)),
        };
        let text = |text: &Option<String>| text.as_deref().map(Value::from);
        let members = [
            ("time", Some(time.into())),
            ("action", Some(self.action.as_str().into())),
            ("outcome", Some(outcome.into())),
            ("code", code.map(Value::from)),
            ("principal", self.principal.as_deref().map(Value::from)),
            ("task", self.task.as_ref().map(|task| task.as_str().into())),
            ("tool", text(&self.tool)),
            ("resource", text(&self.resource)),
            ("prompt", text(&self.prompt)),
            ("method", self.method.map(Value::from)),
            ("session", text(&self.session)),
            ("client", text(&self.client)),
            ("clientVersion", text(&self.client_version)),
            ("address", self.address.map(|address| address.to_string().into())),
            ("detail", text(&self.detail)),
            ("leftOut", (self.left_out > 0).then(|| self.left_out.into())),
        ];
        // By hand, since the order of a map's members is a feature of its crate.
        let members = members.into_iter();
        let members: Vec<String> = members
            .filter_map(|(name, value)| Some(format!(r#""{name}":{}"#, value?)))
            .collect();
        format!("{{{}}}", members.join(","))
    }
}

/// Where the server's own events go.
pub(crate) struct Auditor {
    audit: Arc<dyn Audit>,
    clock: Arc<dyn Clock>,
    reads: bool,
    /// The latest event about a rate limit, and how many were left out since.
    limited: Mutex<(Option<UnixMillis>, u64)>,
    unchanging: Mutex<HashMap<UnchangingOf, Second>>,
}

/// Which events are counted together.
type UnchangingOf = (Option<Arc<str>>, AuditAction, AuditOutcome);

/// What came within a second.
struct Second {
    since: UnixMillis,
    recorded: u32,
    left_out: u64,
}

impl Auditor {
    pub(crate) fn new(audit: Arc<dyn Audit>, clock: &Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            reads: audit.records_reads(),
            audit,
            clock: Arc::clone(clock),
            limited: Mutex::default(),
            unchanging: Mutex::default(),
        })
    }

    /// An event to be filled in; `None` if such events are not wanted.
    pub(crate) fn event(&self, action: AuditAction) -> Option<AuditEvent> {
        let is_wanted = self.reads || action != AuditAction::Read;
        is_wanted.then(|| AuditEvent::new(self.clock.wall(), action, AuditOutcome::Ok))
    }

    pub(crate) fn record(&self, mut event: AuditEvent) {
        if event.outcome == AuditOutcome::Limited {
            let mut limited = self.limited.lock();
            let (latest, left_out) = &mut *limited;
            if latest.is_some_and(|latest| event.at >= latest && event.at.since(latest) < LIMITED_EVERY) {
                *left_out += 1;
                return;
            }
            *latest = Some(event.at);
            event.left_out = std::mem::take(left_out);
        } else if event.changes_nothing() {
            match self.count_unchanging(&event) {
                Some(left_out) => event.left_out = left_out,
                None => return,
            }
        }
        self.audit.record(&event);
    }

    /// Counts an event that changes nothing. Returns how many were left out before it; `None` if it is left out itself.
    fn count_unchanging(&self, event: &AuditEvent) -> Option<u64> {
        let is_over = |second: &Second| event.at < second.since || event.at.since(second.since) >= 1_000;
        let mut all = self.unchanging.lock();
        if all.len() >= COUNTED {
            all.retain(|_, second| !is_over(second));
        }
        if all.len() >= COUNTED {
            all.clear();
        }
        let key = (event.principal.clone(), event.action, event.outcome);
        let second = all.entry(key).or_insert(Second {
            since: event.at,
            recorded: 0,
            left_out: 0,
        });
        if is_over(second) {
            (second.since, second.recorded) = (event.at, 0);
        }
        if second.recorded >= UNCHANGING_PER_SECOND {
            second.left_out += 1;
            return None;
        }
        second.recorded += 1;
        Some(std::mem::take(&mut second.left_out))
    }

    /// Records a request whose sender is not known, or which is one too many.
    pub(crate) fn denied(
        &self,
        principal: Option<Arc<str>>,
        address: Option<IpAddr>,
        (outcome, reason): (AuditOutcome, Option<String>),
    ) {
        let mut event = AuditEvent::new(self.clock.wall(), AuditAction::Denied, outcome);
        (event.principal, event.address, event.detail) = (principal, address, reason);
        self.record(event);
    }
}

/// What is recorded of one request.
pub(crate) struct RequestAudit {
    auditor: Arc<Auditor>,
    event: AuditEvent,
    is_recorded: AtomicBool,
}

impl RequestAudit {
    pub(crate) fn new(auditor: &Arc<Auditor>, event: AuditEvent) -> Arc<Self> {
        Arc::new(Self {
            auditor: Arc::clone(auditor),
            event,
            is_recorded: AtomicBool::new(false),
        })
    }

    /// Its call was given a task, now or after a while.
    pub(crate) fn created(&self, task: &TaskId) {
        self.is_recorded.store(true, Ordering::Relaxed);
        self.auditor.record(AuditEvent {
            at: self.auditor.clock.wall(),
            action: AuditAction::Create,
            task: Some(task.clone()),
            ..self.event.clone()
        });
    }

    /// How it went is known later, and recorded with [`record`](Self::record).
    pub(crate) fn defer(&self) {
        self.is_recorded.store(true, Ordering::Relaxed);
    }

    pub(crate) fn record(&self, outcome: AuditOutcome) {
        self.is_recorded.store(true, Ordering::Relaxed);
        let event = self.event.clone();
        self.auditor.record(AuditEvent { outcome, ..event });
    }

    /// Records it for one of the tasks that it names.
    pub(crate) fn record_for(&self, task: &TaskId, outcome: AuditOutcome) {
        self.is_recorded.store(true, Ordering::Relaxed);
        let (task, event) = (Some(task.clone()), self.event.clone());
        self.auditor.record(AuditEvent { task, outcome, ..event });
    }

    /// Records it, unless that was done.
    pub(crate) fn end(&self, outcome: AuditOutcome) {
        if !self.is_recorded.load(Ordering::Relaxed) {
            self.record(outcome);
        }
    }
}

impl fmt::Debug for RequestAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.event.fmt(f)
    }
}

/// A text from outside, cut to a length that fits a line.
pub(crate) fn shortened(text: &str) -> String {
    truncate(text, LONGEST).to_owned()
}

/// The name and version that a client gives itself, from the JSON of its `clientInfo`.
pub(crate) fn name_and_version(info: &str) -> (Option<String>, Option<String>) {
    let info: Value = serde_json::from_str(info).unwrap_or_default();
    let member = |name: &str| info[name].as_str().map(shortened);
    (member("name"), member("version"))
}

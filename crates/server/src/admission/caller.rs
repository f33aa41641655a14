//! The sender of a message, as methods need it.

use super::{handoff::ConnectionHandoff, identity::Identity};
use crate::session::Session;
use longhaul_core::{ClientCapabilities, Json, Origin, Owner, Principal, Scope, SessionKey};
use longhaul_runtime::{ListClient, Requestor, Trace, Unreachable};
use longhaul_wire::{Era, Generation, LegacyPhase, Meta, Method, RpcError, Version};
use serde_json::value::RawValue;
use std::sync::Arc;

/// What a transport leaves of the protocol, and what its connection says of all its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TransportMode {
    /// Legacy clients have sessions.
    pub(crate) sessions: bool,
    /// An answer may be a stream, and a client may open one.
    pub(crate) streams: bool,
    /// When calls are handed off.
    pub(crate) handoff: ConnectionHandoff,
}

impl TransportMode {
    /// Everything.
    pub(crate) const FULL: Self = Self {
        sessions: true,
        streams: true,
        handoff: ConnectionHandoff::AsTools,
    };

    /// Whether clients of the generation can be notified of changes.
    pub(crate) fn notifies(self, generation: Generation) -> bool {
        match generation {
            Generation::Legacy => self.sessions && self.streams,
            Generation::Modern => self.streams,
        }
    }

    /// Refuses what is not declared because the transport has no place for it.
    ///
    /// # Errors
    /// −32601
    pub(crate) fn ensure_served(self, generation: Generation, method: Method) -> Result<(), RpcError> {
        let why = match method {
            Method::TasksList | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe if !self.sessions => {
                "this server has no sessions"
            }
            Method::LoggingSetLevel if !self.notifies(generation) => "this server pushes no log messages",
            _ => return Ok(()),
        };
        let method = format!("{} ({why})", method.as_str());
        Err(RpcError::method_not_found(generation, &method))
    }
}

/// The sender of one message.
pub(crate) struct Caller {
    /// The family of revisions it speaks.
    pub(crate) generation: Generation,
    /// The revision of its session, if it has a legacy one.
    pub(crate) version: Option<Version>,
    /// Whether this request may be answered with a task.
    pub(crate) declares_tasks: bool,
    /// Whether it accepts a stream of events as an answer.
    pub(crate) takes_stream: bool,
    /// What its transport may do.
    pub(crate) mode: TransportMode,
    identity: Arc<Identity>,
    session: Option<Session>,
    capabilities: ClientCapabilities,
}

impl Caller {
    pub(crate) fn new(
        era: &Era<'_>,
        identity: &Arc<Identity>,
        session: Option<&Session>,
        takes_stream: bool,
        mode: TransportMode,
    ) -> Self {
        let (version, declares_tasks, capabilities) = match era {
            // Without a session the client's capabilities are not known, and without streams it cannot be sent a request, so it is asked
            // nothing.
            Era::Legacy(legacy) => (
                LegacyPhase::version(*legacy),
                false,
                session
                    .filter(|_| mode.streams)
                    .map_or(ClientCapabilities::default(), |session| session.capabilities),
            ),
            Era::Modern(modern) => (Some(modern.version), modern.capabilities.tasks, modern.capabilities),
        };
        let generation = era.generation();
        Self {
            generation,
            version,
            declares_tasks,
            takes_stream,
            mode,
            identity: Arc::clone(identity),
            // A modern message stands alone, also beside a session.
            session: session.filter(|_| generation == Generation::Legacy).cloned(),
            capabilities,
        }
    }

    /// What its client can be asked.
    pub(crate) fn capabilities(&self) -> &ClientCapabilities {
        &self.capabilities
    }

    /// The sender as it is stored with its call.
    ///
    /// # Errors
    /// −32602 for an invalid progress token.
    pub(crate) fn requestor(&self, meta: &Meta<'_>) -> Result<Requestor, RpcError> {
        let trace = meta.trace();
        let trace = Trace {
            traceparent: trace.traceparent.and_then(text),
            tracestate: trace.tracestate.and_then(text),
            baggage: trace.baggage.and_then(text),
        };
        Ok(Requestor {
            version: self.version.map_or("", Version::as_str).into(),
            modern: self.generation == Generation::Modern,
            client: match &self.session {
                Some(session) => session.client.clone().map(Json::trusted),
                None => meta.client_info().map(Json::from),
            },
            capabilities: self.capabilities,
            relayed_capabilities: match &self.session {
                Some(session) => session.relayed_capabilities.clone().map(Json::trusted),
                None => meta.relayed_client_capabilities(),
            },
            unreachable: self.unreachable(),
            progress_token: meta.progress_token()?.map(|token| Json::trusted(token.as_json())),
            trace: Some(trace).filter(|trace| *trace != Trace::default()),
            related_task_ids: meta.related_task_ids(),
            asks_first: false,
            retry_of: None,
            reset_before: None,
            meta: (meta.unknown_members().into_iter())
                .map(|(key, raw)| (key, Json::from(raw)))
                .collect(),
        })
    }

    /// Who it is for lists that are not the same for all.
    pub(crate) fn listing<'a>(&'a self, requestor: &'a Requestor) -> ListClient<'a> {
        ListClient {
            principal: self.principal(),
            session: self.session_key(),
            requestor,
        }
    }

    /// The owner of its tasks.
    pub(crate) fn owner(&self) -> Owner {
        Owner {
            principal: self.principal().clone(),
            session: self.session_key().cloned(),
        }
    }

    /// Its principal.
    pub(crate) fn principal(&self) -> &Principal {
        self.identity.principal()
    }

    /// Who it is, and what it may do.
    pub(crate) fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// What it may read by id.
    pub(crate) fn scope(&self) -> Scope {
        Scope::of(self.principal().clone())
    }

    /// The tasks it may list: all of a verified principal, otherwise only those of its session.
    ///
    /// # Errors
    /// −32600 without a session: all tasks of all clients would be listed.
    pub(crate) fn list_scope(&self) -> Result<Scope, RpcError> {
        match (self.identity.lists_all(), self.owner()) {
            (true, Owner { principal, .. }) => Ok(Scope::of(principal)),
            (false, Owner { session: None, .. }) => Err(self.no_session("tasks/list lists what a session has created")),
            (false, Owner { principal, session }) => Ok(Scope { principal, session }),
        }
    }

    /// The error of a request that is only served in a session, for this reason.
    pub(crate) fn no_session(&self, why: &str) -> RpcError {
        RpcError::invalid_request(match self.mode.sessions {
            true => format!("{why}: send the Mcp-Session-Id that came with the answer to initialize"),
            false => format!("{why}, and this server has no sessions"),
        })
    }

    /// The error of a request that is only answered with a stream.
    pub(crate) fn no_stream(&self) -> RpcError {
        let why = match self.mode.streams {
            true => "Accept must list text/event-stream",
            false => "This server answers with JSON only, so it has no streams: poll instead",
        };
        RpcError::invalid_request(why).with_status(406)
    }

    /// The key of its session.
    pub(crate) fn session_key(&self) -> Option<&SessionKey> {
        self.session.as_ref().map(|session| &session.key)
    }

    /// Its session.
    pub(crate) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Its session, if requests of ours reach it there: they go on streams.
    pub(crate) fn session_to_ask(&self) -> Option<&Session> {
        self.session().filter(|_| self.mode.streams)
    }

    /// Why it cannot be asked anything, if that is not for lack of a capability.
    pub(crate) fn unreachable(&self) -> Option<Unreachable> {
        if self.generation == Generation::Modern {
            return None;
        }
        match (self.mode.sessions, self.mode.streams, &self.session) {
            (_, false, _) => Some(Unreachable::NoStreams),
            (false, _, None) => Some(Unreachable::NoSessions),
            (true, _, None) => Some(Unreachable::OutsideSession),
            (_, true, Some(_)) => None,
        }
    }

    /// Whether legacy tasks are part of its revision.
    pub(crate) fn has_legacy_tasks(&self) -> bool {
        self.generation == Generation::Legacy && self.version.is_some_and(Version::has_legacy_tasks)
    }

    /// Whether a request about a task was admitted for the legacy declaration of a modern client.
    pub(crate) fn declares_legacy_tasks_only(&self) -> bool {
        self.generation == Generation::Modern && !self.declares_tasks
    }

    /// Which generation its tasks are created by.
    pub(crate) fn origin(&self) -> Origin {
        match self.generation {
            Generation::Legacy => Origin::Legacy,
            Generation::Modern => Origin::Modern,
        }
    }
}

fn text(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

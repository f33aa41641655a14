//! Who sends a message, as far as it matters to a method.

use crate::session::Session;
use longhaul_core::{Origin, Owner, Principal, Scope};
use longhaul_wire::{Era, Generation, Legacy, Version};

/// The sender of one message.
pub(crate) struct Caller {
    /// The family of revisions it speaks.
    pub(crate) generation: Generation,
    /// The revision of its session, if it is a legacy one that has been settled.
    pub(crate) version: Option<Version>,
    /// Whether this very request can cope with a task as its answer (G2-03, G2-04).
    pub(crate) declares_tasks: bool,
    /// Whether it takes a stream of events as an answer.
    pub(crate) takes_stream: bool,
    principal: Principal,
    session: Option<Session>,
}

impl Caller {
    pub(crate) fn new(era: &Era<'_>, principal: Principal, session: Option<&Session>, takes_stream: bool) -> Self {
        let (version, declares_tasks) = match era {
            Era::Legacy(legacy) => (Legacy::version(*legacy), false),
            Era::Modern(modern) => (Some(modern.version), modern.capabilities.tasks),
        };
        let generation = era.generation();
        Self {
            generation,
            version,
            declares_tasks,
            takes_stream,
            principal,
            session: session.cloned(),
        }
    }

    /// Whom its tasks belong to.
    pub(crate) fn owner(&self) -> Owner {
        Owner {
            principal: self.principal.clone(),
            session: self.session.as_ref().map(|session| session.key.clone()),
        }
    }

    /// What it may read by id.
    pub(crate) fn scope(&self) -> Scope {
        Scope::of(self.principal.clone())
    }

    /// What it may list: without authentication, what its session created (C-24).
    pub(crate) fn list_scope(&self) -> Scope {
        let Owner { principal, session } = self.owner();
        Scope { principal, session }
    }

    /// Its session.
    pub(crate) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Whether core tasks (G1) are part of what was settled.
    pub(crate) fn has_core_tasks(&self) -> bool {
        self.generation == Generation::Legacy && self.version.is_some_and(Version::has_core_tasks)
    }

    /// Which generation its tasks are created by.
    pub(crate) fn origin(&self) -> Origin {
        match self.generation {
            Generation::Legacy => Origin::Legacy,
            Generation::Modern => Origin::Modern,
        }
    }
}

//! What a handler knows about its request, and what it can say and ask meanwhile.

mod caller;
mod figure;
mod task;

pub use caller::{Client, Era};
pub use figure::Figure;
pub use task::{Checkpoint, TaskContext};

use crate::{AskError, ServerHandle};
use longhaul_core::{BoxFuture, Json, LogLevel, Principal};
use longhaul_runtime::{Abilities, Ports, Question, Requestor, Trace};
use serde::Serialize;
use std::sync::Arc;

/// A handler's door to the request it answers: who asks, and what may be said to and asked of them. Cheap to clone.
///
/// Tools have a [`TaskContext`], which can do all of this and more. A function that only needs what is here takes `&RequestContext`
/// and serves both.
///
/// When the client no longer waits, the future of a prompt's, a resource's or a method's handler is dropped where it stands.
#[derive(Clone)]
pub struct RequestContext {
    door: Door,
    server: ServerHandle,
}

/// Where the request is answered: while it lasts, or by a task that may outlive it.
#[derive(Clone)]
enum Door {
    Request(longhaul_runtime::RequestContext),
    Task(longhaul_runtime::TaskContext),
}

impl RequestContext {
    pub(crate) fn of_request(cx: longhaul_runtime::RequestContext, server: ServerHandle) -> Self {
        Self {
            door: Door::Request(cx),
            server,
        }
    }

    fn of_task(cx: longhaul_runtime::TaskContext, server: ServerHandle) -> Self {
        Self {
            door: Door::Task(cx),
            server,
        }
    }

    fn requestor(&self) -> &Arc<Requestor> {
        match &self.door {
            Door::Request(cx) => cx.requestor(),
            Door::Task(cx) => cx.requestor(),
        }
    }

    pub(crate) fn ports(&self) -> &Ports {
        match &self.door {
            Door::Request(cx) => cx.ports(),
            Door::Task(cx) => cx.ports(),
        }
    }

    pub(crate) fn is_task(&self) -> bool {
        matches!(self.door, Door::Task(_))
    }

    /// The family of protocol revisions the client speaks.
    pub fn era(&self) -> Era {
        match self.requestor().modern {
            true => Era::Modern,
            false => Era::Legacy,
        }
    }

    /// The protocol revision, as `2026-07-28`.
    pub fn protocol_version(&self) -> &str {
        &self.requestor().version
    }

    /// What the client calls itself, if it does. Anyone can call themselves anything: for display and logs only.
    pub fn client(&self) -> Option<Client> {
        Client::read(self.requestor().client.as_ref()?)
    }

    /// What the client has declared that it can be asked.
    pub fn abilities(&self) -> Abilities {
        self.requestor().abilities
    }

    /// On whose behalf the request is made.
    pub fn principal(&self) -> &Principal {
        match &self.door {
            Door::Request(cx) => cx.principal(),
            Door::Task(cx) => cx.principal(),
        }
    }

    /// The trace that the client continues, if it sent one (U-37): hand it on to what you call.
    pub fn trace(&self) -> Option<&Trace> {
        self.requestor().trace.as_ref()
    }

    /// The server this runs on: what it offers can be changed from here.
    pub fn server(&self) -> &ServerHandle {
        &self.server
    }

    /// Says how far the work has come; `total` is `()` if nobody knows. The figure should rise: what does not is not told on (U-01).
    pub fn progress(&self, current: impl Figure, total: impl Figure) -> Checkpoint {
        self.report_to_client(current, total, None)
    }

    /// As [`progress`](Self::progress), with a line for people.
    pub fn report(&self, current: impl Figure, total: impl Figure, message: impl AsRef<str>) -> Checkpoint {
        self.report_to_client(current, total, Some(message.as_ref()))
    }

    fn report_to_client(&self, current: impl Figure, total: impl Figure, message: Option<&str>) -> Checkpoint {
        if let Some(current) = current.figure() {
            match &self.door {
                Door::Request(cx) => cx.progress(current, total.figure(), message),
                Door::Task(cx) => cx.report(current, total.figure(), message),
            }
        }
        self.checkpoint()
    }

    /// Sends a log message to the client, if it wants messages this grave: a text, or anything else that can be written as JSON. It is
    /// not for the server's own log, and no place for secrets (U-08, U-09).
    pub fn log(&self, level: LogLevel, data: impl Serialize) -> Checkpoint {
        if let Ok(data) = serde_json::to_value(data) {
            match &self.door {
                Door::Request(cx) => cx.log(level, None, Json::from(data)),
                Door::Task(cx) => cx.log(level, None, Json::from(data)),
            }
        }
        self.checkpoint()
    }

    /// Asks a question of your own making: `question.request` is what MCP embeds, `{"method":…,"params":…}` (U-15), and the answer is
    /// what the client gives. [`elicit`](Self::elicit), [`sample`](Self::sample) and [`roots`](Self::roots) do this for you.
    ///
    /// # Errors
    /// [`AskError`] if the client cannot be asked this, or will not answer any more.
    pub fn ask(&self, question: Question) -> BoxFuture<'static, Result<Json, AskError>> {
        let door = self.door.clone();
        Box::pin(async move {
            Ok(match door {
                Door::Request(cx) => cx.ask(question).await?,
                Door::Task(cx) => cx.ask(question).await?,
            })
        })
    }

    pub(crate) fn elicitation_complete(&self, id: &Arc<str>) {
        match &self.door {
            Door::Request(cx) => cx.elicitation_complete(id),
            Door::Task(cx) => cx.elicitation_complete(id),
        }
    }

    fn checkpoint(&self) -> Checkpoint {
        Checkpoint::of(match &self.door {
            Door::Request(_) => None,
            Door::Task(cx) => cx.stop_requested(),
        })
    }
}

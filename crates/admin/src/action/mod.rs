//! What operators do. The page, the API and the command all do it here, and each action is recorded in the audit log.

mod bulk;
mod schedules;
mod start_call;
mod upstreams;

pub(crate) use bulk::{AT_ONCE, BULK_ACTIONS, BulkAction};
pub(crate) use schedules::ScheduleAction;

use crate::{access::Actor, context::AdminContext, health::READS_ONLY, query::InvalidQuery};
use longhaul_core::{
    InputKey, Json, NodeId, Task, TaskId,
    store::{CreateError, GiveUpError, StoreError},
};
use longhaul_runtime::{CordonError, DeleteError, OperatorError};
use longhaul_server::audit::{AuditAction, AuditEvent, AuditOutcome};
use longhaul_wire::{FormMistakes, InputRequest, InvalidResponse, RpcError};
use serde_json::value::RawValue;
use std::{sync::Arc, time::Duration};

/// JSON-RPC's code for what failed inside, for the audit log.
pub(crate) const INTERNAL: i64 = -32603;

/// An action that was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ActionError {
    /// What was sent makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The values of an answer do not fit the form of the question.
    #[error("the answer does not fit the form: {0}")]
    DoesNotFit(FormMistakes),
    /// The filter of an action on many tasks makes no sense.
    #[error(transparent)]
    Query(#[from] InvalidQuery),
    /// It is about a tool that the server does not know.
    #[error("there is no such tool")]
    UnknownTool,
    /// It is about an upstream that the server does not have.
    #[error("there is no such upstream")]
    UnknownUpstream,
    /// It is about a schedule that no server of the store has, or that this one does not have.
    #[error("this server has no such schedule")]
    UnknownSchedule,
    /// A server was not cordoned.
    #[error(transparent)]
    Cordon(CordonError),
    /// The host of a server was not given up.
    #[error(transparent)]
    GiveUp(GiveUpError),
    /// The server only reads.
    #[error("{READS_ONLY}")]
    ReadsOnly,
    /// The engine has not done it.
    #[error(transparent)]
    Refused(OperatorError),
}

impl From<OperatorError> for ActionError {
    fn from(error: OperatorError) -> Self {
        match error {
            OperatorError::Store(StoreError::ReadOnly)
            | OperatorError::Create(CreateError::Store(StoreError::ReadOnly))
            | OperatorError::Delete(DeleteError::Store(StoreError::ReadOnly)) => Self::ReadsOnly,
            error => Self::Refused(error),
        }
    }
}

impl ActionError {
    /// The question to be answered is unknown, or not open any more.
    pub(crate) fn not_asked() -> Self {
        OperatorError::NotNow("the task does not ask this, or not any more").into()
    }
}

impl From<StoreError> for ActionError {
    fn from(error: StoreError) -> Self {
        OperatorError::Store(error).into()
    }
}

impl From<GiveUpError> for ActionError {
    fn from(error: GiveUpError) -> Self {
        match error {
            GiveUpError::Store(error) => error.into(),
            error => Self::GiveUp(error),
        }
    }
}

impl From<CordonError> for ActionError {
    fn from(error: CordonError) -> Self {
        match error {
            CordonError::Store(error) => error.into(),
            error => Self::Cordon(error),
        }
    }
}

/// Whether the last part of an address pauses something, or ends its pause; `None` if it does neither.
pub(crate) fn pauses(action: &str) -> Option<bool> {
    match action {
        "pause" => Some(true),
        "resume" => Some(false),
        _ => None,
    }
}

/// An action on a server of the store.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NodeAction {
    /// Gives up the host of a dead one.
    GiveUp,
    Cordon,
    Uncordon,
}

impl NodeAction {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "give-up" => Self::GiveUp,
            "cordon" => Self::Cordon,
            "uncordon" => Self::Uncordon,
            _ => return None,
        })
    }

    fn audited_as(self) -> AuditAction {
        match self {
            Self::GiveUp => AuditAction::GiveUp,
            Self::Cordon => AuditAction::Cordon,
            Self::Uncordon => AuditAction::Uncordon,
        }
    }
}

/// An action on one task.
#[derive(Debug, Clone)]
pub(crate) enum TaskAction {
    Cancel,
    Retry,
    /// To before this entry.
    Reset {
        before: u32,
    },
    Release,
    Raise,
    Delete,
    Answer {
        key: InputKey,
        answer: Box<RawValue>,
    },
}

impl TaskAction {
    /// One that takes nothing.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "cancel" => Self::Cancel,
            "retry" => Self::Retry,
            "release" => Self::Release,
            "raise" => Self::Raise,
            "delete" => Self::Delete,
            _ => return None,
        })
    }

    /// What an answer says: whether it confirms a task is to be found in the audit log.
    fn said(&self) -> &'static str {
        #[derive(serde::Deserialize)]
        struct AnswerAction<'a> {
            #[serde(borrow)]
            action: std::borrow::Cow<'a, str>,
        }
        let Self::Answer { answer, .. } = self else { return "" };
        match serde_json::from_str::<AnswerAction<'_>>(answer.get())
            .as_ref()
            .map(|said| &*said.action)
        {
            Ok("accept") => "; accept",
            Ok("decline") => "; decline",
            Ok("cancel") => "; cancel",
            _ => "",
        }
    }

    fn audited_as(&self) -> AuditAction {
        match self {
            Self::Cancel => AuditAction::Cancel,
            Self::Retry => AuditAction::Retry,
            Self::Reset { .. } => AuditAction::Reset,
            Self::Release => AuditAction::Release,
            Self::Raise => AuditAction::Raise,
            Self::Delete => AuditAction::Delete,
            Self::Answer { .. } => AuditAction::Answer,
        }
    }
}

impl AdminContext {
    /// Does it. Returns the new task of a retry or a reset.
    ///
    /// # Errors
    /// [`ActionError`].
    pub(crate) async fn act(
        &self,
        actor: &Actor,
        id: &TaskId,
        action: TaskAction,
    ) -> Result<Option<Task>, ActionError> {
        let (audited_as, said) = (action.audited_as(), action.said());
        // If the process dies before the line of its end, this one is there.
        let mut begins = self.event(actor, audited_as, AuditOutcome::Ok);
        begins.task = Some(id.clone());
        self.record(&begins.with_detail(format!("{}{said}; begins", actor.by)));
        let done = self.perform(id, action).await;
        // The store says nothing of a deletion.
        self.live.change();
        let outcome = match &done {
            Ok(_) => AuditOutcome::Ok,
            Err(ActionError::UnknownTool | ActionError::Refused(OperatorError::NotFound)) => AuditOutcome::Unknown,
            Err(ActionError::Refused(OperatorError::Create(CreateError::Quota(_)))) => AuditOutcome::Limited,
            Err(_) => AuditOutcome::Failed(INTERNAL),
        };
        let mut event = self.event(actor, audited_as, outcome);
        event.task = Some(id.clone());
        match &done {
            Ok(Some(new)) => event.detail = Some(format!("{}; new task {}", actor.by, new.id)),
            Err(error) => event.detail = Some(format!("{}; {error}", actor.by)),
            Ok(None) if !said.is_empty() => event.detail = Some(format!("{}{said}", actor.by)),
            Ok(None) => {}
        }
        self.record(&event);
        self.problems.forget();
        done
    }

    async fn perform(&self, id: &TaskId, action: TaskAction) -> Result<Option<Task>, ActionError> {
        let engine = &self.engine;
        match action {
            TaskAction::Cancel => engine.cancel_any(id).await.map(|_| ())?,
            TaskAction::Release => engine.release_any(id).await?,
            TaskAction::Raise => engine.raise_any(id).await?,
            TaskAction::Delete => engine.delete_any(id).await?,
            TaskAction::Retry => return Ok(Some(engine.retry_any(id).await?)),
            TaskAction::Reset { before } => return Ok(Some(engine.reset_any(id, before).await?)),
            TaskAction::Answer { key, answer } => {
                self.check_answer(id, &key, &answer).await?;
                engine.answer_any(id, key, Json::from(&*answer)).await?;
            }
        }
        Ok(None)
    }

    async fn check_answer(&self, id: &TaskId, key: &InputKey, answer: &RawValue) -> Result<(), ActionError> {
        let record = self
            .engine
            .store()
            .get_unscoped(id)
            .await
            .map_err(OperatorError::Store)?;
        let inputs = record.ok_or(OperatorError::NotFound)?.inputs;
        let Some(input) = inputs.into_iter().find(|input| input.key == *key) else {
            return Err(ActionError::not_asked());
        };
        let request =
            InputRequest::read(input.request.as_str()).map_err(|error| ActionError::Invalid(error.to_string()))?;
        request.check(answer).map_err(|error| match error {
            InvalidResponse::Values(mistakes) => ActionError::DoesNotFit(mistakes),
            error => ActionError::Invalid(RpcError::from(error).message().to_owned()),
        })
    }

    /// Pauses a tool, or ends its pause.
    ///
    /// # Errors
    /// [`ActionError`]; [`ActionError::UnknownTool`] for one that is neither offered nor has live tasks.
    pub(crate) async fn set_paused(&self, actor: &Actor, tool: &str, paused: bool) -> Result<(), ActionError> {
        let action = if paused {
            AuditAction::Pause
        } else {
            AuditAction::Resume
        };
        let mut begins = self.event(actor, action, AuditOutcome::Ok);
        begins.tool = Some(tool.to_owned());
        self.record(&begins.with_detail(format!("{}; begins", actor.by)));
        let done = self.set_known_paused(tool, paused).await;
        self.live.change();
        self.problems.forget();
        let outcome = match &done {
            Ok(()) => AuditOutcome::Ok,
            Err(ActionError::UnknownTool) => AuditOutcome::Unknown,
            Err(_) => AuditOutcome::Failed(INTERNAL),
        };
        let mut event = self.event(actor, action, outcome);
        event.tool = Some(tool.to_owned());
        self.record(&event);
        done
    }

    async fn set_known_paused(&self, tool: &str, paused: bool) -> Result<(), ActionError> {
        let known = self.tools().await.map_err(OperatorError::Store)?;
        if !known.iter().any(|known| known.name == tool) && !self.engine.is_paused(tool) {
            return Err(ActionError::UnknownTool);
        }
        Ok(self
            .engine
            .set_paused(tool, paused)
            .await
            .map_err(OperatorError::Store)?)
    }

    /// # Errors
    /// [`ActionError`].
    pub(crate) async fn act_on_node(&self, actor: &Actor, node: i64, action: NodeAction) -> Result<(), ActionError> {
        let detail = format!("{}; node {node}", actor.by);
        let begins = self.event(actor, action.audited_as(), AuditOutcome::Ok);
        self.record(&begins.with_detail(format!("{detail}; begins")));
        let (engine, node) = (&self.engine, NodeId(node));
        let done = match action {
            NodeAction::GiveUp => engine.give_up_host(node).await.map_err(ActionError::from),
            NodeAction::Cordon => engine.set_cordoned(node, true).await.map_err(ActionError::from),
            NodeAction::Uncordon => engine.set_cordoned(node, false).await.map_err(ActionError::from),
        };
        self.live.change();
        self.problems.forget();
        let outcome = match &done {
            Ok(()) => AuditOutcome::Ok,
            Err(ActionError::GiveUp(GiveUpError::UnknownNode) | ActionError::Cordon(CordonError::NotAlive)) => {
                AuditOutcome::Unknown
            }
            Err(_) => AuditOutcome::Failed(INTERNAL),
        };
        self.record(&self.event(actor, action.audited_as(), outcome).with_detail(detail));
        done
    }

    /// Stops the server, as SIGTERM does, `after` this time: a page that is the answer has still to be drawn. What runs has `timeout` to end before.
    pub(crate) fn drain(self: &Arc<Self>, actor: &Actor, after: Duration, timeout: Duration) {
        let event = self.event(actor, AuditAction::Drain, AuditOutcome::Ok);
        self.record(&(event.clone()).with_detail(format!("{}; begins", actor.by)));
        let context = Arc::clone(self);
        let stop = move || {
            context.stop.cancel();
            context.record(&event);
        };
        if after.is_zero() && timeout.is_zero() {
            return stop();
        }
        let (engine, ports) = (self.engine.clone(), self.engine.ports());
        let slept = ports.clock.sleep(after);
        ports.spawner.spawn(Box::pin(async move {
            slept.await;
            if !timeout.is_zero() {
                engine.drain(timeout).await;
            }
            stop();
        }));
    }

    /// An event of the audit log.
    pub(crate) fn event(&self, actor: &Actor, action: AuditAction, outcome: AuditOutcome) -> AuditEvent {
        let mut event = AuditEvent::new(self.engine.ports().clock.wall(), action, outcome);
        event.principal = Some("operator".into());
        event.address = actor.address;
        event.with_detail(actor.by)
    }

    pub(crate) fn record(&self, event: &AuditEvent) {
        tracing::info!(
            action = event.action.as_str(),
            task = event.task.as_ref().map(TaskId::short),
            detail = event.detail,
            "an operator acts"
        );
        if let Some(audit) = &self.audit {
            audit.record(event);
        }
    }
}

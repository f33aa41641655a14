//! What operators do with schedules.

use super::{ActionError, INTERNAL};
use crate::{access::Actor, context::AdminContext};
use longhaul_core::Task;
use longhaul_runtime::{OperatorError, TriggerError};
use longhaul_server::audit::{AuditAction, AuditOutcome};

/// An action on a schedule.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ScheduleAction {
    Pause,
    Resume,
    /// Starts it now.
    Trigger,
}

impl ScheduleAction {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "pause" => Self::Pause,
            "resume" => Self::Resume,
            "trigger" => Self::Trigger,
            _ => return None,
        })
    }

    fn audited_as(self) -> AuditAction {
        match self {
            Self::Pause => AuditAction::Pause,
            Self::Resume => AuditAction::Resume,
            Self::Trigger => AuditAction::Create,
        }
    }
}

impl AdminContext {
    /// Does it. Returns the task that was started.
    ///
    /// # Errors
    /// [`ActionError`]; [`ActionError::UnknownSchedule`] for one that no server of the store has had.
    pub(crate) async fn act_on_schedule(
        &self,
        actor: &Actor,
        name: &str,
        action: ScheduleAction,
    ) -> Result<Option<Task>, ActionError> {
        let detail = format!("{}; schedule {name}", actor.by);
        let begins = self.event(actor, action.audited_as(), AuditOutcome::Ok);
        self.record(&begins.with_detail(format!("{detail}; begins")));
        let done = self.perform_on_schedule(name, action).await;
        self.live.change();
        let outcome = match &done {
            Ok(_) => AuditOutcome::Ok,
            Err(ActionError::UnknownSchedule) => AuditOutcome::Unknown,
            Err(_) => AuditOutcome::Failed(INTERNAL),
        };
        let mut event = self.event(actor, action.audited_as(), outcome).with_detail(detail);
        event.task = done.as_ref().ok().and_then(|task| Some(task.as_ref()?.id.clone()));
        self.record(&event);
        done
    }

    async fn perform_on_schedule(&self, name: &str, action: ScheduleAction) -> Result<Option<Task>, ActionError> {
        let paused = match action {
            ScheduleAction::Pause => true,
            ScheduleAction::Resume => false,
            ScheduleAction::Trigger => {
                let started = self.engine.trigger_schedule(name).await;
                return started.map(Some).map_err(|error| match error {
                    TriggerError::Unknown => ActionError::UnknownSchedule,
                    TriggerError::NoTool(_) => {
                        OperatorError::NotNow("the tool of the schedule is not offered now").into()
                    }
                    TriggerError::Create(error) => OperatorError::from(error).into(),
                });
            }
        };
        match self.engine.pause_schedule(name, paused).await? {
            true => Ok(None),
            false => Err(ActionError::UnknownSchedule),
        }
    }
}

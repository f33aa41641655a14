//! A call that an operator makes.

use super::{ActionError, INTERNAL};
use crate::{access::Actor, context::AdminContext};
use longhaul_core::{ClientCapabilities, Json, Origin, Owner, Principal, Task, store::CreateError};
use longhaul_runtime::{Call, OperatorError, Requestor};
use longhaul_server::audit::{AuditAction, AuditOutcome};
use std::sync::Arc;

impl AdminContext {
    /// Calls a tool, as a task of [`Principal::local`]. What it asks is answered by operators.
    ///
    /// # Errors
    /// [`ActionError`]; nothing is called then.
    pub(crate) async fn call_tool(&self, actor: &Actor, tool: &str, arguments: Json) -> Result<Task, ActionError> {
        let called = self.called(tool, arguments).await;
        self.live.change();
        let outcome = match &called {
            Ok(_) => AuditOutcome::Ok,
            Err(ActionError::UnknownTool) => AuditOutcome::Unknown,
            Err(ActionError::Refused(OperatorError::Create(CreateError::Quota(_)))) => AuditOutcome::Limited,
            Err(_) => AuditOutcome::Failed(INTERNAL),
        };
        let mut event = self.event(actor, AuditAction::Create, outcome);
        event.tool = Some(tool.to_owned());
        event.task = called.as_ref().ok().map(|task| task.id.clone());
        self.record(&event);
        called
    }

    async fn called(&self, tool: &str, arguments: Json) -> Result<Task, ActionError> {
        let tool = self.engine.catalog().tool(tool).ok_or(ActionError::UnknownTool)?;
        let checked = tool.check(&arguments).await;
        checked.map_err(|wrong| ActionError::Invalid(wrong.to_string()))?;
        let requestor = Requestor {
            modern: true,
            client: Some(Json::from(serde_json::json!({
                "name": "the page of the operator",
                "version": env!("CARGO_PKG_VERSION"),
            }))),
            capabilities: ClientCapabilities {
                elicitation_form: true,
                elicitation_url: true,
                ..ClientCapabilities::default()
            },
            // Nobody waits who could be asked before there is a task.
            asks_first: tool.settings().intake.is_some(),
            ..Requestor::default()
        };
        let call = Call {
            tool,
            arguments,
            owner: Owner {
                principal: Principal::local(),
                session: None,
            },
            origin: Origin::Modern,
            requestor: Arc::new(requestor),
            idempotency_key: None,
            ttl: None,
            priority: None,
            cancel_if_caller_leaves: false,
        };
        let created = self.engine.create(call).await.map_err(OperatorError::from);
        Ok(created?)
    }
}

//! A `tools/call` that the server's author answers: with a result, or as a call of one of the server's tools, which then may be a task.

use super::{
    Calls,
    blocking::{CallContext, QuestionChannel},
    policy::{Route, WaitPolicy},
    start::{CallOrigin, rejoin, task_of, unroutable},
};
use crate::{
    admission::{permissions::Permission, request::AdmittedRequest},
    handler::{self, FailureWriter, Finish, Handler},
    interaction::{
        exchange::{self, FinalResponse, ResponderEvent},
        notifications::RequestNotifications,
        rounds::{Round, RoundRequest},
    },
    response::Answer,
};
use longhaul_core::{BoxFuture, Json, Outcome};
use longhaul_runtime::{CallAnswer, CallHandler, CallRequest};
use longhaul_wire::{Method, RpcError, params::CallTool};
use std::sync::Arc;
use tracing::error;

/// Runs the author's handler. `params` are those of the request, as they came.
///
/// # Errors
/// −32602 for what is malformed in the request, and the store's.
pub(crate) async fn answer(
    calls: &Arc<Calls>,
    request: &AdmittedRequest<'_>,
    author: Arc<dyn CallHandler>,
    call: &CallTool<'_>,
    params: Json,
) -> Result<Answer, RpcError> {
    let interaction = &calls.interaction;
    let asked = RoundRequest {
        method: Method::ToolsCall,
        target: &call.name,
        arguments: call.arguments.map(Json::from),
        answers: &call.input_responses,
        state: call.request_state.as_deref(),
    };
    let origin = CallOrigin::of(calls, request)?;
    let round = Round::of(interaction, request, asked)?;
    let notifications = RequestNotifications::requested_by(interaction, request)?;
    let round = match round {
        // A call of a tool has asked, and not the author: its answers are for the tool.
        Some(round) if round.is_of_a_call() => {
            let task = task_of(&round)?;
            let context = CallContext {
                calls: origin.calls,
                tool: (*call.name).into(),
                sender: origin.sender,
                generation: origin.generation,
                id: origin.id,
                notifications,
                resumable_session: origin.resumable_session,
                wait_policy: WaitPolicy::Unlimited,
                questions: QuestionChannel::in_rounds(round),
                audit: origin.audit,
            };
            let waiting = rejoin(context, &task).await?;
            return Ok(exchange::answer_with(interaction, request, Box::new(waiting)));
        }
        round => round,
    };
    let called = CallRequest {
        params,
        takes_task: origin.takes_task(),
    };
    let named = call.name.to_string();
    let pass_on = PassOn {
        questions: QuestionChannel::of(request, round.as_ref().map(Round::anew)),
        origin,
        named: named.clone(),
    };
    let failure = FailureWriter::of(request, handler::not_found(RpcError::unknown_tool(&named, None)));
    let write = handler::result_writer(&interaction.server_info, request.caller.generation);
    let handler: Handler<CallAnswer> = Box::new(move |cx| author.call(called, cx));
    let finish: Finish<CallAnswer> = Box::new(move |answer, notifications| match answer {
        Ok(CallAnswer::CallOf { tool, arguments }) => pass_on.to(tool, arguments, notifications),
        Ok(CallAnswer::Result(result)) => {
            let mut text = String::new();
            write(&mut text, pass_on.origin.id.get(), &result);
            ready(FinalResponse::of(text))
        }
        Err(error) => ready(failure.response(error)),
    });
    let responder = handler::run(interaction, request, notifications, round, handler, finish)?;
    Ok(exchange::answer_with(interaction, request, responder))
}

fn ready(response: FinalResponse) -> BoxFuture<'static, Result<ResponderEvent, RpcError>> {
    Box::pin(std::future::ready(Ok(ResponderEvent::Response(response))))
}

/// A call that its author may pass on to a tool.
struct PassOn {
    origin: CallOrigin,
    questions: QuestionChannel,
    /// The name that the client called.
    named: String,
}

impl PassOn {
    fn to(
        self,
        tool: Arc<str>,
        arguments: Json,
        notifications: RequestNotifications,
    ) -> BoxFuture<'static, Result<ResponderEvent, RpcError>> {
        Box::pin(async move {
            let origin = self.origin;
            if origin.sender.is_revoked() {
                let response = FinalResponse::credentials_ended(&origin.calls.interaction, &origin.id);
                return Ok(ResponderEvent::Response(response));
            }
            let Some(tool) = origin.calls.engine.catalog().tool(&tool) else {
                error!(call = self.named, %tool, "a call was passed on to a tool that does not exist");
                return Err(RpcError::internal(format!(
                    "The call was passed on to the tool {tool}, which does not exist"
                )));
            };
            let route = origin.route(&tool).map_err(|why| unroutable(why, &self.named))?;
            // A task that its creator could not read would run for nobody.
            if route == Route::Task && !origin.sender.permissions().allows(Permission::ReadTasks) {
                return Err(RpcError::not_permitted(&Permission::ReadTasks.to_string()));
            }
            let checked = tool.check(&arguments).await;
            let has_intake = tool.settings().intake.is_some();
            let start = origin.start(route, self.questions, (tool, arguments));
            match checked {
                Err(wrong) => start.fail(Outcome::tool_error(&wrong.to_string())).await,
                Ok(()) if has_intake => start.with_intake_in_task().run(notifications).await,
                Ok(()) => start.run(notifications).await,
            }
        })
    }
}

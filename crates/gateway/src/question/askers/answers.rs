//! What a connection to an upstream answers its questions with.

use super::{Asker, Askers, Context};
use crate::question::UpstreamQuestion;
use longhaul_client::{InputHandler, InputRequest, InputResponse, RpcFailure};
use longhaul_core::{BoxFuture, ClientCapabilities};
use longhaul_runtime::{AskError, ToolMessage};
use std::sync::{Arc, atomic::Ordering};

/// Answers what an upstream asks on one connection.
pub(crate) struct ClientsOfConnection {
    pub(crate) askers: Arc<Askers>,
    /// What all of them have declared.
    pub(crate) capabilities: ClientCapabilities,
}

impl InputHandler for ClientsOfConnection {
    fn capabilities(&self) -> ClientCapabilities {
        // The gateway relays what its clients declare, and hosts no tasks for upstreams.
        ClientCapabilities {
            elicitation_tasks: false,
            sampling_tasks: false,
            tasks: false,
            legacy_tasks: false,
            ..self.capabilities
        }
    }

    fn answer(&self, request: InputRequest) -> BoxFuture<'static, Result<InputResponse, RpcFailure>> {
        if !is_passed_on(&request.method) {
            let text = format!("No client is asked {} through a gateway", request.method);
            return Box::pin(std::future::ready(Err(RpcFailure::new(-32601, text))));
        }
        if let Some(Err(invalid)) = request.form() {
            tracing::warn!(upstream = self.askers.upstream, %invalid, "refused a question");
            let failure = RpcFailure::new(-32602, invalid.to_string());
            return Box::pin(std::future::ready(Err(failure)));
        }
        let askers = Arc::clone(&self.askers);
        Box::pin(async move {
            let is_elicitation = request.is_elicitation();
            let is_roots = request.method == "roots/list";
            if is_roots && names_no_call(&request) {
                if !askers.has_running_call() {
                    askers.asks_for_roots.store(true, Ordering::Relaxed);
                }
                let roots = askers.roots.lock().clone();
                if let Some(roots) = roots {
                    return Ok(InputResponse::written(roots));
                }
            }
            let mut candidates = askers.candidates();
            let answered = loop {
                let Some(asker) = askers.find(&request, &candidates).await else {
                    askers.tell_of_no_client(&request, is_roots, !candidates.ended.is_empty());
                    return without_answer(is_elicitation, "nobody can be asked");
                };
                let round = asker.begin_round(askers.clock.monotonic()).await;
                let answered = asker.ask(&request).await;
                drop(round);
                match answered {
                    // It was not the call that asked.
                    Err(AskError::Withdrawn | AskError::Stopped(_)) if names_no_call(&request) => {
                        candidates.ended.push(asker);
                    }
                    answered => break answered,
                }
            };
            match answered {
                Ok(answer) => {
                    if is_roots {
                        *askers.roots.lock() = Some(answer.clone());
                    }
                    Ok(InputResponse::written(answer))
                }
                Err(AskError::Refused(failure)) => Err(failure),
                Err(error) => without_answer(is_elicitation, &error.to_string()),
            }
        })
    }

    fn delivered(&self, request: &InputRequest) {
        if request.method == "roots/list" {
            self.askers.roots_were_given();
        }
        let asked = UpstreamQuestion::of(request);
        if asked.has_key() {
            return;
        }
        if let Some(asker) = self.askers.of_settled(request, &asked) {
            // From now on the same text is another question.
            asker.unsettled.lock().remove(&asked.digest);
            *asker.delivered.lock().entry(asked.digest).or_default() += 1;
            asker.open.settle(request.request.as_deref());
            asker.was_settled.notify_one();
        }
    }

    fn not_taken(&self, request: &InputRequest) {
        let asker = self.askers.of_settled(request, &UpstreamQuestion::of(request));
        if let Some(asker) = asker.filter(|asker| asker.open.settle(request.request.as_deref())) {
            asker.was_settled.notify_one();
        }
    }

    fn lost_with_session(&self, request: &InputRequest) {
        self.not_taken(request);
        let asker = self.askers.of_settled(request, &UpstreamQuestion::of(request));
        if let Some(Context::Task(cx)) = asker.as_ref().map(|asker| &asker.context) {
            cx.status(format!(
                "upstream `{}` has ended the session in which it asked: it gets the answer only if it asks again",
                self.askers.upstream
            ));
        }
    }

    fn roots_change(&self) -> bool {
        self.capabilities.roots
    }

    fn elicitation_complete(&self, elicitation_id: &str) {
        let id: Arc<str> = Arc::from(elicitation_id);
        let all: Vec<Arc<Asker>> = self.askers.state.lock().by_number.values().cloned().collect();
        // It names no call. All of them are calls of one principal, whose client knows its questions by their ids.
        for asker in all {
            asker
                .context
                .send(ToolMessage::ElicitationComplete { id: Arc::clone(&id) });
        }
    }
}

/// Whether requests of this method are passed on to clients.
fn is_passed_on(method: &str) -> bool {
    matches!(method, "elicitation/create" | "sampling/createMessage" | "roots/list")
}

impl Askers {
    /// Logs that a question is not put to anybody.
    fn tell_of_no_client(&self, request: &InputRequest, is_roots: bool, has_been_put: bool) {
        let (upstream, method) = (&self.upstream, &request.method);
        match (is_roots, has_been_put) {
            // The gateway itself has none; of another one's client it is asked again before a call.
            (true, _) => {
                self.forget_roots();
                tracing::debug!(upstream, "no client can be asked for its roots");
            }
            (false, false) => tracing::warn!(
                upstream,
                method,
                "cancelled a question: it names no call, and calls of different clients may have asked it, or none"
            ),
            (false, true) => tracing::warn!(
                upstream,
                method,
                "cancelled a question: the calls that may have asked it have ended"
            ),
        }
    }
}

/// Whether any call on the connection may have asked it.
fn names_no_call(request: &InputRequest) -> bool {
    request.task.is_none() && request.source.is_none()
}

/// What an upstream is told if there is no answer: that an elicitation was dismissed, or an error.
fn without_answer(is_elicitation: bool, why: &str) -> Result<InputResponse, RpcFailure> {
    match is_elicitation {
        true => Ok(InputResponse::cancel()),
        false => Err(RpcFailure {
            code: -32603,
            message: why.into(),
            data: None,
        }),
    }
}

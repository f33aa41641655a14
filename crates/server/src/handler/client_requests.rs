//! Asking a legacy client while its request is open: by requests of ours, whose responses are awaited.

use super::outbox::{Outbox, OutboxItem};
use crate::{
    admission::identity::Identity,
    interaction::{Interaction, check_answer, legacy::desk::Delivery},
};
use longhaul_core::{BoxFuture, Json, RpcFailure, SessionKey};
use longhaul_runtime::{AskError, Question, QuestionReply, RequestChannel, ToolMessage, read_answer};
use longhaul_wire::{RpcError, legacy::input_request::LegacyInputRequest};
use std::sync::Arc;

/// Sends requests to the sender of one legacy request.
pub(super) struct ClientRequests {
    pub(super) interaction: Arc<Interaction>,
    /// Asked nothing once its credentials have ended.
    pub(super) sender: Arc<Identity>,
    /// Without one there is no way to answer.
    pub(super) session: Option<SessionKey>,
    pub(super) outbox: Arc<Outbox>,
}

impl RequestChannel for ClientRequests {
    fn ask(&self, question: Question) -> BoxFuture<'static, Result<Json, AskError>> {
        let clock = Arc::clone(&self.interaction.engine.ports().clock);
        let Some(session) = self.session.as_ref().filter(|_| !self.sender.has_ended(clock.wall())) else {
            return Box::pin(std::future::ready(Err(AskError::Withdrawn)));
        };
        let entropy = &*self.interaction.engine.ports().entropy;
        let mut expected = self.interaction.sessions.replies.expect(session, entropy);
        let put = self.interaction.desk.put(LegacyInputRequest {
            id: expected.id(),
            request: question.request.as_str(),
            task: None,
            client_task: None,
        });
        let (delivery, text) = match put {
            Ok(put) => put,
            Err(error) => return Box::pin(std::future::ready(Err(refused(&error)))),
        };
        let mut unanswered = UnansweredRequest {
            outbox: Arc::clone(&self.outbox),
            delivery: Some(delivery),
        };
        self.outbox.push(OutboxItem::Request(text));
        let sender = Arc::clone(&self.sender);
        Box::pin(async move {
            let reply = tokio::select! {
                reply = expected.reply() => reply,
                () = sender.ended(&*clock), if sender.can_end() => return Err(AskError::Withdrawn),
            };
            unanswered.settle();
            if let QuestionReply::Result(answer) = &reply {
                check_answer(&question.request, answer).map_err(|error| AskError::Refused(error.into_failure()))?;
            }
            read_answer(reply.into_answer())
        })
    }

    fn send(&self, message: ToolMessage) {
        self.outbox.push_message(message);
    }
}

fn refused(error: &RpcError) -> AskError {
    AskError::Refused(RpcFailure::new(
        i32::try_from(error.code()).unwrap_or(-32603),
        error.message(),
    ))
}

/// Cancels a request of ours whose response is no longer awaited.
struct UnansweredRequest {
    outbox: Arc<Outbox>,
    delivery: Option<Delivery>,
}

impl UnansweredRequest {
    fn settle(&mut self) {
        self.delivery = None;
    }
}

impl Drop for UnansweredRequest {
    fn drop(&mut self) {
        if let Some(text) = self.delivery.take().and_then(Delivery::take_back) {
            self.outbox.push(OutboxItem::Notification(text));
        }
    }
}

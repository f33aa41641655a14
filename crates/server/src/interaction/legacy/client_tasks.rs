//! Input requests that a client answers with a task of its own: here we are the requestor, which polls, fetches the result and cancels.
//!
//! The client's name for its task is known to this node only. If the task is lost, with its stream or with this process, the question is asked again:
//! only the question is stored.

use super::desk::{Duplicate, Key, Registration};
use crate::{
    interaction::{Interaction, check_answer},
    session::{
        Session, capabilities,
        other_nodes::{self, SessionMessage},
        replies::PendingReply,
    },
};
use longhaul_core::{AnsweredBy, ClientCapabilities, InputKey, Json, Scope, TaskId};
use longhaul_runtime::QuestionReply;
use longhaul_wire::{InputRequest, TaskStatus, legacy::client_task as wire, params::TaskMetadata};
use serde_json::value::RawValue;
use std::{sync::Arc, time::Duration};
use tracing::debug;

/// The TTL that we ask for, in milliseconds: a week.
const TTL: u64 = 7 * 24 * 3_600_000;
/// How long a client may take to answer a poll.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Milliseconds between two polls if the client names no interval, rising from the first to the second.
const POLL: (u64, u64) = (500, 15_000);
/// Bounds of an interval that the client names, in milliseconds.
const INTERVAL_BOUNDS: (u64, u64) = (50, 60_000);

/// The `task` member that goes with an input request, if the client has declared that it makes tasks of such requests.
pub(crate) fn task_metadata(declared: &ClientCapabilities, request: &InputRequest<'_>) -> Option<TaskMetadata> {
    capabilities::allow_client_task(declared, request).then_some(TaskMetadata { ttl: Some(TTL) })
}

/// Whether a client's answer names a task of its own. Whether it may is asked when it is taken.
pub(crate) fn is_task(answer: &RawValue) -> bool {
    matches!(wire::ClientTask::created(answer), Ok(Some(_)))
}

/// Polls the client's task that `answer` names, if it may name one; returns whether it did.
pub(crate) fn take(
    interaction: &Arc<Interaction>,
    session: &Session,
    task: &TaskId,
    key: &InputKey,
    request: &Json,
    answer: &Json,
) -> bool {
    let may_be_task = InputRequest::read(request.as_str())
        .is_ok_and(|question| capabilities::allow_client_task(&session.capabilities, &question));
    if !may_be_task {
        return false;
    }
    let created = serde_json::from_str::<&RawValue>(answer.as_str()).ok();
    let Some(Ok(Some(created))) = created.map(wire::ClientTask::created) else {
        return false;
    };
    let poller = ClientTaskPoller {
        interaction: Arc::clone(interaction),
        session: session.clone(),
        task: task.clone(),
        key: key.clone(),
        request: request.clone(),
        client_task: created.id.into_owned(),
        client_interval: created.poll_interval,
    };
    let spawner = &interaction.engine.ports().spawner;
    match interaction.desk.enter(poller.question(), &poller.client_task) {
        Ok(registration) => spawner.spawn(Box::pin(poller.poll(registration))),
        Err(Duplicate::Other) => spawner.spawn(Box::pin(async move {
            poller.send(wire::write_cancel).await;
        })),
        Err(Duplicate::Same) => {}
    }
    true
}

/// A client's task for a question of ours.
struct ClientTaskPoller {
    interaction: Arc<Interaction>,
    session: Session,
    task: TaskId,
    key: InputKey,
    request: Json,
    /// The client's name for its task, which means something to that client only.
    client_task: String,
    client_interval: Option<u64>,
}

/// How a client's task ended.
enum ClientTaskEnd {
    /// Its result, or the error that stands for it.
    Reply(QuestionReply),
    /// The question was answered elsewhere or withdrawn.
    Settled,
    /// The client has deleted it, or cannot be reached.
    Lost,
}

impl ClientTaskPoller {
    fn question(&self) -> Key {
        (self.session.key.clone(), self.task.clone(), self.key.clone())
    }

    async fn poll(mut self, registration: Registration) {
        let settled = self.settled();
        tokio::pin!(settled);
        let end = tokio::select! {
            end = self.end() => end,
            () = &mut settled => ClientTaskEnd::Settled,
        };
        let lost = match end {
            ClientTaskEnd::Reply(reply) => !self.store_answer(reply).await,
            ClientTaskEnd::Settled => {
                // The response changes nothing.
                self.send(wire::write_cancel).await;
                false
            }
            ClientTaskEnd::Lost => true,
        };
        if lost {
            debug!(
                task = self.task.short(),
                "a client's task is lost; its question is asked again"
            );
            registration.mark_lost();
            self.interaction.push.carriers.notify(&self.session.key, &self.task);
            // Registered as long as the question is open, so that it is asked without a task.
            settled.await;
        }
    }

    /// Stores the client's answer; `false` if it is not valid.
    async fn store_answer(&self, reply: QuestionReply) -> bool {
        if let QuestionReply::Result(answer) = &reply
            && check_answer(&self.request, answer).is_err()
        {
            return false;
        }
        let answer = reply.into_answer();
        let kept = self
            .interaction
            .engine
            .answer_question(&self.task, self.key.clone(), answer, AnsweredBy::Client);
        kept.await.is_ok()
    }

    async fn end(&mut self) -> ClientTaskEnd {
        let mut interval = POLL.0;
        loop {
            self.pause(interval).await;
            interval = (interval * 3 / 2).min(POLL.1);
            let Some(QuestionReply::Result(got)) = self.ask(wire::write_get).await else {
                return ClientTaskEnd::Lost;
            };
            let got = serde_json::from_str::<&RawValue>(got.as_str()).ok();
            let Some(Ok(theirs)) = got.map(wire::ClientTask::read) else {
                return ClientTaskEnd::Lost;
            };
            self.client_interval = theirs.poll_interval.or(self.client_interval);
            if matches!(
                theirs.status,
                TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled
            ) {
                // An error stands for the answer too.
                return self
                    .ask(wire::write_result)
                    .await
                    .map_or(ClientTaskEnd::Lost, ClientTaskEnd::Reply);
            }
        }
    }

    /// The client's response to a request about its task; `None` if it cannot be reached.
    async fn ask(&self, write: impl FnOnce(&mut String, &str, &str)) -> Option<QuestionReply> {
        let mut asked = self.send(write).await?;
        self.interaction.engine.ports().within(TIMEOUT, asked.reply()).await
    }

    /// Sends a request about the client's task on the stream that carries the messages about ours, else on another one of the session, at whichever node.
    async fn send(&self, write: impl FnOnce(&mut String, &str, &str)) -> Option<PendingReply> {
        let entropy = &*self.interaction.engine.ports().entropy;
        let asked = self.interaction.sessions.replies.expect(&self.session.key, entropy);
        let mut text = String::new();
        write(&mut text, asked.id(), &self.client_task);
        let read = self
            .interaction
            .push
            .carriers
            .read_carrier(&self.session.key, &self.task);
        let sent = match read {
            Some(sink) => sink.message(text.clone()).await.is_ok(),
            None => {
                self.interaction
                    .push
                    .streams
                    .send(&self.session.key, text.clone())
                    .await
            }
        };
        let engine = &self.interaction.engine;
        if !sent && engine.may_have_other_nodes() {
            let session = self.session.key.as_str().into();
            let request = RawValue::from_string(text).ok()?;
            other_nodes::broadcast(engine, &SessionMessage::ToClient { session, request });
            return Some(asked);
        }
        sent.then_some(asked)
    }

    /// Until the next poll, with a tenth of jitter: many that started together should not poll together.
    fn pause(&self, interval: u64) -> impl Future<Output = ()> + use<> {
        let interval = self
            .client_interval
            .map_or(interval, |named| named.clamp(INTERVAL_BOUNDS.0, INTERVAL_BOUNDS.1));
        let ports = self.interaction.engine.ports();
        let mut byte = [0];
        ports.entropy.fill(&mut byte);
        let jitter = interval * u64::from(byte[0]) / 255 / 5;
        ports.clock.sleep(Duration::from_millis(interval * 9 / 10 + jitter))
    }

    /// Completes when the question is answered elsewhere or withdrawn.
    fn settled(&self) -> impl Future<Output = ()> + use<> {
        let (engine, task, key) = (self.interaction.engine.clone(), self.task.clone(), self.key.clone());
        let scope = Scope::of(self.session.principal.clone());
        async move {
            let mut watch = engine.watch(&task);
            loop {
                let record = engine.get(&scope, &task).await;
                // If the store fails, it is read again at the next change.
                if record.is_ok_and(|record| record.is_none_or(|record| !record.task.open_inputs.contains(&key))) {
                    return;
                }
                watch.changed().await;
            }
        }
    }
}

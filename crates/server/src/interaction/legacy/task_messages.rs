//! The messages about one task on one stream: input requests, progress, log messages, each related to the task.

use super::{
    carrier::{CandidateKind, CarrierCandidate},
    client_tasks,
    desk::{self, Delivery},
};
use crate::{
    interaction::Interaction,
    response::{
        OwnedRequestId,
        stream::{ReaderGone, Sink},
    },
    session::Session,
};
use longhaul_core::{Input, InputKey, Json, Progress, Task, TaskId, store::Record, store::StoreError};
use longhaul_runtime::{ProgressStream, Requestor, ToolMessage};
use longhaul_wire::{
    InputRequest, RequestId,
    legacy::input_request::{LegacyInputRequest, write_elicitation_complete},
    notification,
};
use serde_json::value::RawValue;
use std::{collections::HashMap, sync::Arc};
use tracing::warn;

/// Sends the messages about a task on one stream.
pub(crate) struct TaskMessages {
    interaction: Arc<Interaction>,
    session: Session,
    task: TaskId,
    candidate: CarrierCandidate,
    tool_messages: ProgressStream,
    /// The progress token, if the client gave one.
    token: Option<OwnedRequestId>,
    /// The questions sent on this stream that are still open.
    sent: HashMap<InputKey, Delivery>,
}

/// What a [`TaskMessages`] has to handle.
pub(crate) enum TaskEvent {
    /// A message of the work: [`TaskMessages::send`] it.
    ToolMessage(ToolMessage),
    /// Another stream carries now, or this one is read again, or a client's task is lost: call [`TaskMessages::update`].
    CarrierChanged,
}

impl TaskMessages {
    /// Sends `session` the messages about `task` on `sink` whenever that is the stream that carries them. The stream is a candidate, and
    /// messages of the work are kept for it, from here on.
    pub(crate) fn new(
        interaction: &Arc<Interaction>,
        session: &Session,
        task: &Task,
        (kind, sink): (CandidateKind, &Sink),
    ) -> Self {
        Self {
            interaction: Arc::clone(interaction),
            session: session.clone(),
            task: task.id.clone(),
            candidate: interaction.push.carriers.enter(&session.key, task, kind, sink),
            tool_messages: interaction.engine.subscribe(&task.id),
            token: None,
            sent: HashMap::new(),
        }
    }

    /// Sends the progress too, under the progress token that the client gave.
    pub(crate) fn with_token(self, token: Option<OwnedRequestId>) -> Self {
        Self { token, ..self }
    }

    /// Completes when there is something to do.
    pub(crate) async fn next_event(&mut self) -> TaskEvent {
        tokio::select! {
            () = self.candidate.changed() => TaskEvent::CarrierChanged,
            message = self.tool_messages.next() => TaskEvent::ToolMessage(message),
        }
    }

    /// Cancels the requests whose questions are closed, sends those that are open and were not sent on this stream, and sends the
    /// progress if the client does not have it.
    pub(crate) async fn update(&mut self, record: &Record) -> Result<(), ReaderGone> {
        let open = &record.task.open_inputs;
        let closed: Vec<InputKey> = self.sent.keys().filter(|key| !open.contains(key)).cloned().collect();
        for key in closed {
            if let Some(text) = self.sent.remove(&key).and_then(Delivery::take_back) {
                self.candidate.sink().message(text).await?;
            }
        }
        for input in &record.inputs {
            // Another stream may have been opened while the last request was written.
            if self.candidate.reaches_client() && self.must_ask(input) {
                self.ask(input).await?;
            }
        }
        match record.task.progress {
            Some(progress) if self.candidate.carries() => {
                self.progress(progress, record.task.status.as_deref(), None).await
            }
            _ => Ok(()),
        }
    }

    /// Sends a message of the work.
    pub(crate) async fn send(&mut self, message: ToolMessage) -> Result<(), ReaderGone> {
        if !self.candidate.carries() {
            return Ok(());
        }
        match message {
            ToolMessage::Progress {
                current,
                total,
                message,
                relayed,
            } => {
                let progress = Progress { current, total };
                self.progress(progress, message.as_deref(), relayed.as_ref()).await
            }
            ToolMessage::Log {
                level,
                logger,
                data,
                relayed,
            } => {
                if level < self.interaction.sessions.preferences.level(&self.session.key) {
                    return Ok(());
                }
                let (mut text, related) = (String::new(), Some(&self.task));
                let (logger, data) = (logger.as_deref(), data.as_str());
                notification::write_log(&mut text, level, logger, data, related, relayed.as_ref());
                self.candidate.sink().message(text).await
            }
            ToolMessage::ElicitationComplete { id } if self.session.capabilities.elicitation_url => {
                let mut text = String::new();
                write_elicitation_complete(&mut text, &id);
                self.candidate.sink().message(text).await
            }
            ToolMessage::ElicitationComplete { .. }
            | ToolMessage::CloseStream
            | ToolMessage::Begins
            | ToolMessage::BecomesTask => Ok(()),
        }
    }

    async fn progress(
        &self,
        progress: Progress,
        message: Option<&str>,
        relayed: Option<&Json>,
    ) -> Result<(), ReaderGone> {
        let Some(token) = &self.token else { return Ok(()) };
        if !self.candidate.rises_to(progress.current) {
            return Ok(());
        }
        let mut text = String::new();
        notification::write_progress(&mut text, token.get(), progress, message, Some(&self.task), relayed);
        self.candidate.sink().message(text).await
    }

    fn must_ask(&self, input: &Input) -> bool {
        let before = self.sent.get(&input.key);
        self.interaction.desk.must_put(&self.question(&input.key), before)
    }

    fn question(&self, key: &InputKey) -> desk::Key {
        (self.session.key.clone(), self.task.clone(), key.clone())
    }

    async fn ask(&mut self, input: &Input) -> Result<(), ReaderGone> {
        let task = &self.task;
        let Ok(question) = InputRequest::read(input.request.as_str()) else {
            warn!(
                task = task.short(),
                key = input.key.as_str(),
                "a question of the tool cannot be asked"
            );
            return Ok(());
        };
        if !self.session.capabilities.has(question.capability()) {
            return Ok(());
        }
        let desk = &self.interaction.desk;
        let client_task = client_tasks::task_metadata(&self.session.capabilities, &question)
            .filter(|_| desk.may_offer_task(&self.question(&input.key)));
        let id = self.interaction.sessions.replies.delivery_id(task, &input.key);
        let request = LegacyInputRequest {
            id: &id,
            request: input.request.as_str(),
            task: Some(task),
            client_task,
        };
        let Ok((delivery, text)) = desk.put(request) else {
            return Ok(());
        };
        self.sent.insert(input.key.clone(), delivery);
        self.candidate.sink().message(text).await
    }
}

/// The progress token of the call that created the task, if `session` made it: to any other it means nothing.
///
/// # Errors
/// The store's.
pub(crate) async fn token(
    interaction: &Interaction,
    session: &Session,
    task: &Task,
) -> Result<Option<OwnedRequestId>, StoreError> {
    if task.owner.session.as_ref() != Some(&session.key) {
        return Ok(None);
    }
    let requestor = interaction.engine.store().requestor(&task.id).await?;
    let token = requestor.and_then(|kept| Requestor::from_json(&kept).progress_token);
    Ok(token.and_then(|token| {
        let raw: &RawValue = serde_json::from_str(token.as_str()).ok()?;
        RequestId::from_raw(raw).map(OwnedRequestId::of)
    }))
}

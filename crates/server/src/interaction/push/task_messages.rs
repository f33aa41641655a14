//! Tells one client of one task on one stream: questions, progress, log messages, each tied to the task (C-23).

use super::carrier::{Kind, Outlet};
use crate::{
    interaction::{Interaction, input_requests::client_tasks},
    response::{
        KeptId,
        stream::{Gone, Sink},
    },
    session::Session,
};
use longhaul_core::{Input, InputKey, Progress, Task, TaskId, store::Record, store::StoreError};
use longhaul_runtime::{Abilities, ProgressStream, Requestor, ToolMessage};
use longhaul_wire::{
    Capability, InputRequest, RequestId,
    legacy::input_request::{Delivery, write_elicitation_complete},
    notification,
};
use serde_json::value::{RawValue, to_raw_value};
use std::{collections::HashMap, sync::Arc};
use tracing::warn;

/// What a client is told of a task on one stream.
pub(crate) struct Teller {
    interaction: Arc<Interaction>,
    session: Session,
    task: TaskId,
    outlet: Outlet,
    hearing: ProgressStream,
    /// Under which the client hears of progress, if at all (G1-46).
    token: Option<KeptId>,
    /// The questions sent on this stream that are still open.
    sent: HashMap<InputKey, Sent>,
}

/// A delivery.
struct Sent {
    id: String,
    /// Whether the client was let make a task of it.
    hosted: bool,
}

/// What a [`Teller`] has to do.
pub(crate) enum News {
    /// The work said something: [`Teller::tell`] it.
    ToolMessage(ToolMessage),
    /// The stream carries now, or does so no longer, or is read again: [`Teller::look`].
    Turned,
}

impl Teller {
    /// Tells `session` of `task` on `sink`, whenever that is the stream which carries.
    pub(crate) fn new(
        interaction: &Arc<Interaction>,
        session: &Session,
        task: &Task,
        token: Option<KeptId>,
        (kind, sink): (Kind, &Sink),
    ) -> Self {
        Self {
            interaction: Arc::clone(interaction),
            session: session.clone(),
            task: task.id.clone(),
            outlet: interaction.push.carriers.enter(&session.key, task, kind, sink),
            hearing: interaction.engine.subscribe(&task.id),
            token,
            sent: HashMap::new(),
        }
    }

    /// Completes when there is something to do.
    pub(crate) async fn news(&mut self) -> News {
        tokio::select! {
            () = self.outlet.changed() => News::Turned,
            said = self.hearing.next() => News::ToolMessage(said),
        }
    }

    /// Takes back what is not asked any more, asks what is open and was not asked on this stream (G1-40), and tells how far the
    /// work has come, should that not have been heard.
    pub(crate) async fn look(&mut self, record: &Record) -> Result<(), Gone> {
        let open = &record.task.open_inputs;
        let closed: Vec<InputKey> = self.sent.keys().filter(|key| !open.contains(key)).cloned().collect();
        for key in closed {
            self.take_back(&key).await?;
        }
        for input in &record.inputs {
            // Another stream may have been opened while the last one was written.
            if self.outlet.reaches_client() && self.is_to_be_asked(input) {
                self.ask(input).await?;
            }
        }
        match record.task.progress {
            Some(progress) if self.outlet.carries() => self.progress(progress, record.task.status.as_deref()).await,
            _ => Ok(()),
        }
    }

    /// Passes on what the work says.
    pub(crate) async fn tell(&mut self, said: ToolMessage) -> Result<(), Gone> {
        if !self.outlet.carries() {
            return Ok(());
        }
        match said {
            ToolMessage::Progress {
                current,
                total,
                message,
            } => self.progress(Progress { current, total }, message.as_deref()).await,
            ToolMessage::Log { level, logger, data } => {
                if level < self.interaction.sessions.preferences.level(&self.session.key) {
                    return Ok(());
                }
                let mut text = String::new();
                notification::write_log(&mut text, level, logger.as_deref(), data.as_str(), Some(&self.task));
                self.outlet.sink().message(text).await
            }
            ToolMessage::ElicitationComplete { id } if self.session.abilities.elicit_url => {
                let mut text = String::new();
                write_elicitation_complete(&mut text, &id);
                self.outlet.sink().message(text).await
            }
            ToolMessage::ElicitationComplete { .. } | ToolMessage::Quiet => Ok(()),
        }
    }

    async fn progress(&self, progress: Progress, message: Option<&str>) -> Result<(), Gone> {
        let Some(token) = &self.token else { return Ok(()) };
        if !self.outlet.rises_to(progress.current) {
            return Ok(());
        }
        let mut text = String::new();
        notification::write_progress(&mut text, token.get(), progress, message, Some(&self.task));
        self.outlet.sink().message(text).await
    }

    fn is_to_be_asked(&self, input: &Input) -> bool {
        let hosting = &self.interaction.input_requests.client_tasks;
        let (session, task) = (&self.session.key, &self.task);
        match self.sent.get(&input.key) {
            _ if hosting.is_hosted(session, task, &input.key) => false,
            None => true,
            // What was to become of the client's task is lost: this time it is to answer at once.
            Some(sent) => sent.hosted && hosting.is_to_be_asked_plainly(session, task, &input.key),
        }
    }

    async fn ask(&mut self, input: &Input) -> Result<(), Gone> {
        let (session, task) = (&self.session.key, &self.task);
        let Ok(question) = InputRequest::read(input.request.as_str()) else {
            warn!(
                task = task.short(),
                key = input.key.as_str(),
                "a question of the tool cannot be asked"
            );
            return Ok(());
        };
        if !fits(&self.session.abilities, &question) {
            return Ok(());
        }
        let hosting = &self.interaction.input_requests.client_tasks;
        let wish = client_tasks::wish(&self.session.abilities, &question)
            .filter(|_| !hosting.is_to_be_asked_plainly(session, task, &input.key));
        let id = self.interaction.sessions.replies.delivery(task, &input.key);
        let mut text = String::new();
        let delivery = Delivery {
            id: &id,
            request: input.request.as_str(),
            task: Some(task),
            client_task: wish,
        };
        if delivery.write(&mut text).is_err() {
            return Ok(());
        }
        self.interaction.input_requests.unanswered.insert(&id);
        let sent = Sent {
            id,
            hosted: wish.is_some(),
        };
        if let Some(before) = self.sent.insert(input.key.clone(), sent) {
            self.interaction.input_requests.unanswered.remove(&before.id);
        }
        self.outlet.sink().message(text).await
    }

    async fn take_back(&mut self, key: &InputKey) -> Result<(), Gone> {
        let Some(Sent { id, .. }) = self.sent.remove(key) else {
            return Ok(());
        };
        match self.interaction.input_requests.unanswered.take_back(&id) {
            Some(text) => self.outlet.sink().message(text).await,
            None => Ok(()),
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        for sent in self.sent.values() {
            self.interaction.input_requests.unanswered.remove(&sent.id);
        }
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
) -> Result<Option<KeptId>, StoreError> {
    if task.owner.session.as_ref() != Some(&session.key) {
        return Ok(None);
    }
    let requestor = interaction.engine.store().requestor(&task.id).await?;
    let token = requestor.and_then(|kept| Requestor::from_json(&kept).progress_token);
    let raw: Option<Box<RawValue>> = token.and_then(|token| to_raw_value(&token).ok());
    Ok(raw.and_then(|raw| RequestId::from_raw(&raw).map(KeptId::of)))
}

/// Whether a client of these abilities may be asked (G1-42).
fn fits(abilities: &Abilities, question: &InputRequest<'_>) -> bool {
    match question.capability() {
        Capability::ElicitationForm => abilities.elicit_form,
        Capability::ElicitationUrl => abilities.elicit_url,
        Capability::Sampling => abilities.sampling,
        Capability::SamplingTools => abilities.sampling && abilities.sampling_tools,
        Capability::Roots => abilities.roots,
        Capability::Tasks => false,
    }
}

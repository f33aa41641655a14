//! `tasks/result` (legacy): answers once the task is done, as often and to as many as ask.
//!
//! As a stream it carries the messages about the task: input requests, progress, log messages. An answer that is
//! one JSON message cannot carry any.

use crate::{
    admission::{authenticator::Denied, identity::Identity, request::AdmittedRequest},
    interaction::{
        Interaction,
        legacy::{
            carrier::CandidateKind,
            push_stream,
            task_messages::{self, TaskEvent, TaskMessages},
        },
    },
    methods::Methods,
    response::{
        Answer, OwnedRequestId, credentials_ended,
        resumption::Resumption,
        shutting_down, store_failed,
        stream::{self, KEEP_ALIVE, ReaderGone, Sink},
    },
    session::in_flight::InFlightRequest,
};
use longhaul_core::{Outcome, Scope, Task, TaskId, store::Record};
use longhaul_runtime::{LogRange, TaskWatch, ToolMessage};
use longhaul_wire::{RpcError, legacy};
use std::sync::Arc;

/// Bytes of the log in the answer about a cancelled task.
const SHOWN: u64 = 8 * 1024;

pub(crate) async fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let (task, interaction) = (request.task_id()?, &methods.interaction);
    let wait = Wait {
        interaction: Arc::clone(interaction),
        sender: Arc::clone(request.caller.identity()),
        scope: request.caller.scope(),
        watch: interaction.engine.watch(&task),
        task,
        id: OwnedRequestId::of(request.id),
        in_flight: interaction
            .sessions
            .in_flight
            .enter(request.caller.session_key(), request.id),
    };
    let record = wait.read().await?;
    if let Some(text) = wait.response(&record).await {
        return Ok(Answer::response(text));
    }
    let permit = interaction.admission.meter.stream(request.caller.principal())?;
    let session = request.caller.session();
    if let Some(session) = session {
        push_stream::follow(interaction, session, &record.task);
    }
    if !request.caller.takes_stream {
        return Ok(Answer::Later(Box::pin(async move {
            let _held = permit;
            wait.respond().await
        })));
    }
    // If the session's push stream is on the same connection, the messages already go out there.
    let recipient = match session.filter(|session| !interaction.push.streams.is_shared(&session.key)) {
        Some(session) => {
            let token = task_messages::token(interaction, session, &record.task)
                .await
                .map_err(store_failed)?;
            Some((session.clone(), token))
        }
        None => None,
    };
    let again = Resumption::Repeat(wait.request());
    let events = stream::events(interaction.engine.ports(), |sink| {
        // Here and not in the future, so that the client misses nothing.
        let messages = recipient.map(|(session, token)| {
            let stream = (CandidateKind::TaskResult, &sink);
            TaskMessages::new(&wait.interaction, &session, &record.task, stream).with_token(token)
        });
        async move {
            // A reader that has left missed nothing: the next one gets the result.
            let _ = wait.stream(sink, messages, record).await;
        }
    });
    Ok(Answer::Stream(events.resumed_by(Some(again)).with_permit(Some(permit))))
}

/// One wait for a task's end. Dropping it ends the wait and nothing else.
struct Wait {
    interaction: Arc<Interaction>,
    sender: Arc<Identity>,
    scope: Scope,
    task: TaskId,
    watch: TaskWatch,
    id: OwnedRequestId,
    in_flight: InFlightRequest,
}

/// What a wait has to handle.
enum Next {
    /// The task may have changed.
    Read,
    /// Nothing happened for a while.
    Silence,
    /// The client has cancelled the request.
    Cancelled,
    /// The client's credentials have expired or were revoked.
    Denied,
    /// The server stops.
    Draining,
}

impl Wait {
    /// The request that leads to the same answer again.
    fn request(&self) -> String {
        let (id, task) = (self.id.get().as_json(), self.task.as_str());
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tasks/result","params":{{"taskId":"{task}"}}}}"#)
    }

    async fn read_response(&self) -> Result<Option<String>, RpcError> {
        Ok(self.response(&self.read().await?).await)
    }

    async fn read(&self) -> Result<Record, RpcError> {
        let record = self.interaction.engine.get(&self.scope, &self.task).await;
        record.map_err(store_failed)?.ok_or_else(RpcError::task_not_found)
    }

    /// The end of the task's log, if it has one.
    async fn log_end(&self, task: &Task) -> Option<String> {
        let end = LogRange {
            offset: None,
            limit: Some(SHOWN),
        };
        Some(self.interaction.engine.read_log(task, None, end).await.ok()??.text)
    }

    /// The response, if the task is done.
    async fn response(&self, record: &Record) -> Option<String> {
        let outcome = record.outcome.as_ref()?;
        let mut text = String::new();
        if *outcome == Outcome::Cancelled {
            let output = self.log_end(&record.task).await;
            let exit = self
                .interaction
                .cancelled_exits
                .of(&self.interaction.engine, &record.task)
                .await;
            let error = RpcError::task_cancelled(self.task.as_str(), output.as_deref(), exit.as_deref());
            error.write_response(&mut text, Some(self.id.get()));
            return Some(text);
        }
        legacy::tasks::write_payload(
            &mut text,
            self.id.get(),
            &self.task,
            record.task.lineage.as_ref(),
            outcome,
        );
        Some(text)
    }

    async fn next(&mut self) -> Next {
        tokio::select! {
            () = self.watch.changed() => Next::Read,
            () = self.interaction.engine.ports().clock.sleep(KEEP_ALIVE) => Next::Silence,
            () = self.in_flight.cancelled() => Next::Cancelled,
            () = self.sender.ended(&*self.interaction.engine.ports().clock), if self.sender.can_end() => Next::Denied,
            () = self.interaction.shutdown.drained() => Next::Draining,
        }
    }

    async fn respond(mut self) -> Answer {
        loop {
            match self.next().await {
                Next::Read => match self.read_response().await {
                    Ok(None) => {}
                    Ok(Some(text)) => return Answer::response(text),
                    Err(error) => return Answer::error(Some(self.id.get()), &error),
                },
                Next::Silence => {}
                Next::Cancelled => return Answer::Accepted,
                Next::Denied => return self.denied(),
                // The HTTP status shows that the server stopped, not the task.
                Next::Draining => return Answer::error(Some(self.id.get()), &shutting_down()),
            }
        }
    }

    /// What the next request would be answered with.
    fn denied(&self) -> Answer {
        let access = &self.interaction.admission.access;
        let error = credentials_ended().with_status(401);
        Answer::challenge(Some(self.id.get()), &error, access.challenge(&Denied::ended()))
    }

    async fn stream(
        mut self,
        sink: Sink,
        mut messages: Option<TaskMessages>,
        mut record: Record,
    ) -> Result<(), ReaderGone> {
        // The client sees that its wait has begun.
        sink.keep_alive();
        loop {
            if let Some(messages) = &mut messages {
                messages.update(&record).await?;
            }
            if let Some(text) = self.response(&record).await {
                return sink.message(text).await;
            }
            loop {
                let next = tokio::select! {
                    next = self.next() => next,
                    event = next_event(&mut messages) => match event {
                        (_, TaskEvent::CarrierChanged) => Next::Read,
                        (_, TaskEvent::ToolMessage(ToolMessage::CloseStream)) => {
                            sink.close_stream().await?;
                            continue;
                        }
                        (messages, TaskEvent::ToolMessage(message)) => {
                            messages.send(message).await?;
                            continue;
                        }
                    },
                };
                match next {
                    Next::Read => break,
                    Next::Silence => sink.keep_alive(),
                    // An error on a stream would read as the outcome of the task: the stream just ends, and the client asks
                    // again.
                    Next::Cancelled | Next::Denied | Next::Draining => return Ok(()),
                }
            }
            record = match self.read().await {
                Ok(record) => record,
                Err(error) => {
                    let mut text = String::new();
                    error.write_response(&mut text, Some(self.id.get()));
                    return sink.message(text).await;
                }
            };
        }
    }
}

/// The next event; never completes without `messages`.
async fn next_event(messages: &mut Option<TaskMessages>) -> (&mut TaskMessages, TaskEvent) {
    match messages {
        Some(messages) => {
            let event = messages.next_event().await;
            (messages, event)
        }
        None => std::future::pending().await,
    }
}

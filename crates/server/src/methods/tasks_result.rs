//! `tasks/result` (legacy): holds its answer until the task is over, as often and by as many as ask (G1-28, G1-32).
//!
//! As a stream it carries what there is to hear of the task meanwhile (G1-34): questions, progress, log messages. An answer that is
//! one JSON message cannot carry any.

use super::Methods;
use crate::{
    admission::request::AdmittedRequest,
    interaction::{
        Interaction,
        push::{
            carrier::Kind,
            session_stream,
            task_messages::{self, News, Teller},
        },
    },
    response::{
        Answer, KeptId, exit_of_cancelled, shutting_down, store_failed,
        stream::{self, Gone, KEEP_ALIVE, Sink},
    },
    session::in_flight::Entry,
};
use longhaul_core::{Outcome, Scope, Task, TaskId, store::Record};
use longhaul_runtime::{LogRange, ToolMessage, Watch};
use longhaul_wire::{RpcError, legacy};
use std::sync::Arc;

/// How much of its log the answer about a cancelled task shows.
const SHOWN: u64 = 8 * 1024;

pub(crate) async fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let (task, interaction) = (request.task_id()?, &methods.interaction);
    let wait = Wait {
        interaction: Arc::clone(interaction),
        scope: request.caller.scope(),
        watch: interaction.engine.watch(&task),
        task,
        id: KeptId::of(request.id),
        cancelled: interaction
            .sessions
            .in_flight
            .enter(request.caller.session_key(), request.id),
    };
    let record = wait.read().await?;
    if let Some(text) = wait.response(&record).await {
        return Ok(Answer::response(text));
    }
    let session = request.caller.session();
    if let Some(session) = session {
        session_stream::follow(interaction, session, &record.task);
    }
    if !request.caller.takes_stream {
        return Ok(Answer::Later(Box::pin(wait.respond())));
    }
    // What travels on one connection with the session's push stream needs no second voice there.
    let hears = match session.filter(|session| !interaction.push.streams.is_shared(&session.key)) {
        Some(session) => {
            let token = task_messages::token(interaction, session, &record.task)
                .await
                .map_err(store_failed)?;
            Some((session.clone(), token))
        }
        None => None,
    };
    let again = wait.request();
    let events = stream::events(interaction.engine.ports(), |sink| {
        // Here and not in the future, so that the client misses nothing from now on.
        let teller = hears
            .map(|(session, token)| Teller::new(&wait.interaction, &session, &record.task, token, (Kind::Wait, &sink)));
        async move {
            // A reader that has gone missed nothing: the result is there for the next one (G1-31).
            let _ = wait.stream(sink, teller, record).await;
        }
    });
    Ok(Answer::Stream(events.asked_again_by(again)))
}

/// One wait for a task's end. Dropping it ends the wait and nothing else.
struct Wait {
    interaction: Arc<Interaction>,
    scope: Scope,
    task: TaskId,
    watch: Watch,
    id: KeptId,
    cancelled: Entry,
}

/// What there is to do for a wait.
enum Next {
    /// Look at the task.
    Look,
    /// Nothing happened for a while.
    Silence,
    /// The client does not want the answer any more.
    Cancelled,
    /// The server stops.
    Draining,
}

impl Wait {
    /// What asks for the same answer once more.
    fn request(&self) -> String {
        let (id, task) = (self.id.get().as_json(), self.task.as_str());
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tasks/result","params":{{"taskId":"{task}"}}}}"#)
    }

    async fn looked(&self) -> Result<Option<String>, RpcError> {
        Ok(self.response(&self.read().await?).await)
    }

    async fn read(&self) -> Result<Record, RpcError> {
        let record = self.interaction.engine.get(&self.scope, &self.task).await;
        record.map_err(store_failed)?.ok_or_else(RpcError::task_not_found)
    }

    /// The end of what the task's work has written so far, if it leaves a log.
    async fn written(&self, task: &Task) -> Option<String> {
        let end = LogRange {
            offset: None,
            limit: Some(SHOWN),
        };
        Some(self.interaction.engine.read_log(task, end).await.ok()??.text)
    }

    /// The response, if the task is over.
    async fn response(&self, record: &Record) -> Option<String> {
        let outcome = record.outcome.as_ref()?;
        let mut text = String::new();
        if *outcome == Outcome::Cancelled {
            let output = self.written(&record.task).await;
            let exit = exit_of_cancelled(&self.interaction.engine, &record.task).await;
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
            () = self.watch.changed() => Next::Look,
            () = self.interaction.engine.ports().clock.sleep(KEEP_ALIVE) => Next::Silence,
            () = self.cancelled.cancelled() => Next::Cancelled,
            () = self.interaction.shutdown.drained() => Next::Draining,
        }
    }

    async fn respond(mut self) -> Answer {
        loop {
            match self.next().await {
                Next::Look => match self.looked().await {
                    Ok(None) => {}
                    Ok(Some(text)) => return Answer::response(text),
                    Err(error) => return Answer::error(Some(self.id.get()), &error),
                },
                Next::Silence => {}
                Next::Cancelled => return Answer::Accepted,
                // The status says that it is the server's end and not the task's.
                Next::Draining => return Answer::error(Some(self.id.get()), &shutting_down()),
            }
        }
    }

    async fn stream(mut self, sink: Sink, mut teller: Option<Teller>, mut record: Record) -> Result<(), Gone> {
        // The client sees that its wait has begun.
        sink.keep_alive();
        loop {
            if let Some(teller) = &mut teller {
                teller.look(&record).await?;
            }
            if let Some(text) = self.response(&record).await {
                return sink.message(text).await;
            }
            loop {
                let next = tokio::select! {
                    next = self.next() => next,
                    news = told(&mut teller) => match news {
                        (_, News::Turned) => Next::Look,
                        (_, News::ToolMessage(ToolMessage::Quiet)) => {
                            sink.quiet().await?;
                            continue;
                        }
                        (teller, News::ToolMessage(said)) => {
                            teller.tell(said).await?;
                            continue;
                        }
                    },
                };
                match next {
                    Next::Look => break,
                    Next::Silence => sink.keep_alive(),
                    // An error on a stream would read as what the task itself came to (G1-29): it just ends, and the client asks
                    // again.
                    Next::Cancelled | Next::Draining => return Ok(()),
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

/// The teller with its news; never without one.
async fn told(teller: &mut Option<Teller>) -> (&mut Teller, News) {
    match teller {
        Some(teller) => {
            let news = teller.news().await;
            (teller, news)
        }
        None => std::future::pending().await,
    }
}

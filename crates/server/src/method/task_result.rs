//! `tasks/result` (legacy): holds its answer until the task is over, as often and by as many as ask (G1-28, G1-32).

use super::task_id;
use crate::{
    answer::{Answer, KeptId, shutting_down, store_failed},
    dispatch::Call,
    front::Front,
    inflight::Entry,
    stream::{self, Gone, KEEP_ALIVE, Sink},
};
use longhaul_core::{Scope, TaskId};
use longhaul_runtime::Watch;
use longhaul_wire::{RpcError, legacy};
use std::sync::Arc;

pub(super) async fn answer(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let task = task_id(call)?;
    let wait = Wait {
        front: Arc::clone(front),
        scope: call.caller.scope(),
        watch: front.engine.watch(&task),
        task,
        id: KeptId::of(call.id),
        called_off: front.inflight.enter(&call.caller, call.id),
    };
    if let Some(text) = wait.look().await? {
        return Ok(Answer::response(text));
    }
    if !call.caller.takes_stream {
        return Ok(Answer::Later(Box::pin(wait.respond())));
    }
    Ok(Answer::Stream(stream::events(front, |sink| async move {
        // A reader that has gone missed nothing: the result is there for the next one (G1-31).
        let _ = wait.stream(sink).await;
    })))
}

/// One wait for a task's end. Dropping it ends the wait and nothing else.
struct Wait {
    front: Arc<Front>,
    scope: Scope,
    task: TaskId,
    watch: Watch,
    id: KeptId,
    called_off: Entry,
}

/// What a wait comes to.
enum End {
    /// The task is over; this is the response.
    Response(String),
    /// The task cannot be read any more.
    Unreadable(RpcError),
    /// The client does not want the answer any more.
    CalledOff,
    /// The server stops.
    Draining,
}

impl Wait {
    /// The response, if the task is over.
    async fn look(&self) -> Result<Option<String>, RpcError> {
        let record = self
            .front
            .engine
            .get(&self.scope, &self.task)
            .await
            .map_err(store_failed)?;
        let record = record.ok_or_else(RpcError::task_not_found)?;
        Ok(record.outcome.map(|outcome| {
            let mut text = String::new();
            legacy::tasks::write_payload(&mut text, self.id.get(), &self.task, &outcome);
            text
        }))
    }

    async fn end(&mut self, mut silent: impl FnMut()) -> End {
        loop {
            tokio::select! {
                () = self.watch.changed() => {}
                () = self.front.engine.ports().clock.sleep(KEEP_ALIVE) => {
                    silent();
                    continue;
                }
                () = self.called_off.called_off() => return End::CalledOff,
                () = self.front.drained() => return End::Draining,
            }
            match self.look().await {
                Ok(None) => {}
                Ok(Some(text)) => return End::Response(text),
                Err(error) => return End::Unreadable(error),
            }
        }
    }

    async fn respond(mut self) -> Answer {
        match self.end(|| ()).await {
            End::Response(text) => Answer::response(text),
            End::Unreadable(error) => Answer::error(Some(self.id.get()), &error),
            End::CalledOff => Answer::Accepted,
            // The status says that it is the server's end and not the task's.
            End::Draining => Answer::error(Some(self.id.get()), &shutting_down()),
        }
    }

    async fn stream(mut self, sink: Sink) -> Result<(), Gone> {
        // The client sees that its wait has begun.
        sink.keep_alive();
        match self.end(|| sink.keep_alive()).await {
            End::Response(text) => sink.message(&text).await,
            End::Unreadable(error) => {
                let mut text = String::new();
                error.write_response(&mut text, Some(self.id.get()));
                sink.message(&text).await
            }
            // An error on a stream would read as what the task itself came to (G1-29): it just ends, and the client asks again.
            End::CalledOff | End::Draining => Ok(()),
        }
    }
}

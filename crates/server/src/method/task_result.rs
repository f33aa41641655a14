//! `tasks/result` (legacy): holds its answer until the task is over, as often and by as many as ask (G1-28, G1-32).

use super::task_id;
use crate::{
    answer::{Answer, shutting_down, store_failed},
    dispatch::Call,
    front::Front,
    stream::{self, KEEP_ALIVE, Sink},
};
use longhaul_core::{Scope, TaskId};
use longhaul_runtime::Watch;
use longhaul_wire::{RequestId, RpcError, legacy};
use serde_json::value::RawValue;
use std::sync::Arc;

pub(super) async fn answer(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let task = task_id(call)?;
    let watch = front.engine.watch(&task);
    let id = RawValue::from_string(call.id.as_json().to_owned()).map_err(|_| RpcError::internal("unreadable id"))?;
    let mut wait = Wait {
        front: Arc::clone(front),
        scope: call.caller.scope(),
        task,
        watch,
        id,
    };
    if let Some(text) = wait.look().await? {
        return Ok(Answer::Message { status: 200, text });
    }
    if call.caller.takes_stream {
        return Ok(Answer::Stream(stream::events(front, |sink| wait.stream(sink))));
    }
    loop {
        tokio::select! {
            () = wait.watch.changed() => {}
            () = front.drained() => return Err(shutting_down()),
        }
        if let Some(text) = wait.look().await? {
            return Ok(Answer::Message { status: 200, text });
        }
    }
}

struct Wait {
    front: Arc<Front>,
    scope: Scope,
    task: TaskId,
    watch: Watch,
    id: Box<RawValue>,
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
        Ok(record.outcome.zip(RequestId::from_raw(&self.id)).map(|(outcome, id)| {
            let mut text = String::new();
            legacy::tasks::write_payload(&mut text, id, &self.task, &outcome);
            text
        }))
    }

    async fn stream(mut self, sink: Sink) {
        // The client sees that its wait has begun.
        sink.keep_alive();
        loop {
            match self.look().await {
                Ok(None) => {}
                Ok(Some(text)) => return sink.message(&text).await,
                Err(error) => {
                    let mut text = String::new();
                    error.write_response(&mut text, RequestId::from_raw(&self.id));
                    return sink.message(&text).await;
                }
            }
            tokio::select! {
                () = self.watch.changed() => {}
                () = self.front.engine.ports().clock.sleep(KEEP_ALIVE) => sink.keep_alive(),
            }
        }
    }
}

//! The promises of [`Store`], kept by SQLite.

use super::{SqliteStore, read, write};
use longhaul_core::{
    AttemptEnd, BoxFuture, Event, HostId, Input, InputKey, NodeId, Outcome, Scope, SessionKey, SpecId, Store, Task,
    TaskId, ToolSpec, UnixMillis,
    store::{ApplyError, Change, Claim, Claimed, Counts, Listener, NewTask, Page, Record, SigningKey, StoreError},
};
use rusqlite::Connection;
use std::{future::ready, sync::Arc};

impl SqliteStore {
    fn at_once<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> BoxFuture<'_, Result<T, StoreError>> {
        Box::pin(ready(self.readers().and_then(|readers| readers.at_once(question))))
    }

    fn in_turn<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, StoreError>> {
        Box::pin(async move { self.readers()?.in_turn(question).await })
    }
}

impl Store for SqliteStore {
    fn open_node(&self, host: &HostId, at: UnixMillis) -> BoxFuture<'_, Result<NodeId, StoreError>> {
        let host = host.clone();
        Box::pin(self.write(0, move |tx| write::open_node(tx, &host, at)))
    }

    fn put_spec(&self, spec: ToolSpec) -> BoxFuture<'_, Result<(), StoreError>> {
        let weight = spec.definition.as_str().len();
        Box::pin(self.write(weight, move |tx| write::put_spec(tx, &spec)))
    }

    fn spec(&self, id: &SpecId) -> BoxFuture<'_, Result<Option<ToolSpec>, StoreError>> {
        self.at_once(|connection| read::spec(connection, id))
    }

    fn create(&self, new: NewTask) -> BoxFuture<'_, Result<Task, StoreError>> {
        let (task, arguments, outcome) = new.into_task();
        let weight = arguments.as_str().len() + outcome.as_ref().map_or(0, outcome_weight);
        Box::pin(self.write(weight, move |tx| write::create(tx, &task, &arguments, outcome.as_ref())))
    }

    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        let weight = change.events.iter().map(event_weight).sum();
        Box::pin(self.write(weight, move |tx| write::apply(tx, &change)))
    }

    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        Box::pin(self.write(0, move |tx| write::claim(tx, &claim)))
    }

    fn adopt(
        &self,
        node: NodeId,
        host: &HostId,
        limit: usize,
        at: UnixMillis,
    ) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        let host = host.clone();
        Box::pin(self.write(0, move |tx| write::adopt(tx, node, &host, limit, at)))
    }

    fn forsaken(&self, node: NodeId, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        self.in_turn(move |connection| read::forsaken(connection, node, limit))
    }

    fn queued_tools(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        self.in_turn(read::queued_tools)
    }

    fn next_ready(&self, tool: &str) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        self.at_once(|connection| read::next_ready(connection, tool))
    }

    fn get(&self, scope: &Scope, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        self.at_once(|connection| read::get(connection, scope, id))
    }

    fn peek(&self, id: &TaskId) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        self.at_once(|connection| read::peek(connection, id))
    }

    fn answer(&self, id: &TaskId, key: &InputKey) -> BoxFuture<'_, Result<Option<Input>, StoreError>> {
        self.at_once(|connection| read::answer(connection, id, key))
    }

    fn list(&self, scope: &Scope, before: Option<&TaskId>, limit: usize) -> BoxFuture<'_, Result<Page, StoreError>> {
        let (scope, before) = (scope.clone(), before.cloned());
        self.in_turn(move |connection| read::list(connection, &scope, before.as_ref(), limit))
    }

    fn due(&self, at: UnixMillis, limit: usize) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        self.in_turn(move |connection| read::due(connection, at, limit))
    }

    fn next_wake(&self) -> BoxFuture<'_, Result<Option<UnixMillis>, StoreError>> {
        self.at_once(read::next_wake)
    }

    fn expired(&self, at: UnixMillis, limit: usize) -> BoxFuture<'_, Result<Vec<TaskId>, StoreError>> {
        self.in_turn(move |connection| read::expired(connection, at, limit))
    }

    fn delete(&self, ids: Vec<TaskId>, at: UnixMillis) -> BoxFuture<'_, Result<usize, StoreError>> {
        Box::pin(self.write(0, move |tx| write::delete(tx, &ids, at)))
    }

    fn counts(&self) -> BoxFuture<'_, Result<Counts, StoreError>> {
        self.in_turn(read::counts)
    }

    fn signing_keys(&self, purpose: &str, fresh: [u8; 32]) -> BoxFuture<'_, Result<Vec<SigningKey>, StoreError>> {
        let purpose = purpose.to_owned();
        Box::pin(self.write(0, move |tx| write::signing_keys(tx, &purpose, &fresh)))
    }

    fn end_session(&self, session: &SessionKey, until: UnixMillis) -> BoxFuture<'_, Result<(), StoreError>> {
        let session = session.clone();
        Box::pin(self.write(0, move |tx| write::end_session(tx, &session, until)))
    }

    fn session_ended(&self, session: &SessionKey) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(ready(Ok(self.board.session_ended(session))))
    }

    fn listen(&self, listener: Listener) {
        self.board.listen(listener);
    }
}

fn event_weight(event: &Event) -> usize {
    match event {
        Event::InputRequested { request: json, .. } | Event::InputAnswered { answer: json, .. } => json.as_str().len(),
        Event::AttemptEnded(AttemptEnd::Finished(outcome) | AttemptEnd::Failed { outcome, .. })
        | Event::Abandoned(outcome) => outcome_weight(outcome),
        _ => 0,
    }
}

fn outcome_weight(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Result { json, .. } => json.as_str().len(),
        Outcome::RpcError(failure) => {
            failure.message.len() + failure.data.as_ref().map_or(0, |data| data.as_str().len())
        }
        Outcome::Cancelled => 0,
    }
}

//! A store that breaks its first promise.

use longhaul::{Principal, Store, TaskId};
use longhaul_core::{
    BoxFuture, Entry, Event, HostId, Input, InputKey, Json, NodeId, Scope, SessionKey, SpecId, Task, ToolSpec,
    UnixMillis, Usage,
    store::{
        ApplyError, Change, Claim, Claimed, Counts, CreateError, Created, Listener, NewTask, Page, Record, SigningKey,
        StoreError,
    },
    transition,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::Mutex;

/// Acknowledges entries before they are committed.
pub(super) struct Hasty {
    inner: Arc<dyn Store>,
    turn: Arc<Mutex<()>>,
}

impl Hasty {
    pub(super) fn over(inner: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Self {
            inner,
            turn: Arc::default(),
        })
    }

    /// The task as it would be.
    async fn promise(&self, change: &Change) -> Option<Task> {
        if !change.events.iter().all(|event| matches!(event, Event::Journaled(_))) {
            return None;
        }
        let task = self.inner.peek(&change.task).await.ok()??.task;
        let apply = |task: Task, event| Some(transition(&task, event, change.at).ok()?.0);
        change.events.iter().try_fold(task, apply)
    }
}

macro_rules! pass {
    ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(fn $name(&self, $($arg: $type),*) -> BoxFuture<'_, $answer> {
            self.inner.$name($($arg),*)
        })*
    };
}

impl Store for Hasty {
    #[expect(clippy::disallowed_methods, reason = "the test is the outside world")]
    fn apply(&self, change: Change) -> BoxFuture<'_, Result<Task, ApplyError>> {
        Box::pin(async move {
            let turn = Arc::clone(&self.turn).lock_owned().await;
            let Some(task) = self.promise(&change).await else {
                return self.inner.apply(change).await;
            };
            let inner = Arc::clone(&self.inner);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                let _ = inner.apply(change).await;
                drop(turn);
            });
            Ok(task)
        })
    }

    fn listen(&self, listener: Listener) {
        self.inner.listen(listener);
    }

    pass! {
        create(new: NewTask) -> Result<Created, CreateError>;
        claim(claim: Claim) -> Result<Vec<Claimed>, StoreError>;
        open_node(host: &HostId, at: UnixMillis) -> Result<NodeId, StoreError>;
        put_spec(spec: ToolSpec) -> Result<(), StoreError>;
        spec(id: &SpecId) -> Result<Option<ToolSpec>, StoreError>;
        adopt(node: NodeId, host: &HostId, limit: usize, at: UnixMillis) -> Result<Vec<Claimed>, StoreError>;
        forsaken(node: NodeId, limit: usize) -> Result<Vec<Task>, StoreError>;
        queued_tools() -> Result<Vec<Arc<str>>, StoreError>;
        next_ready(tool: &str) -> Result<Option<UnixMillis>, StoreError>;
        next_wake() -> Result<Option<UnixMillis>, StoreError>;
        get(scope: &Scope, id: &TaskId) -> Result<Option<Record>, StoreError>;
        peek(id: &TaskId) -> Result<Option<Record>, StoreError>;
        answer(id: &TaskId, key: &InputKey) -> Result<Option<Input>, StoreError>;
        journal(id: &TaskId, after: u32, limit: usize) -> Result<Vec<Entry>, StoreError>;
        children(parent: &TaskId, limit: usize) -> Result<Vec<Task>, StoreError>;
        stranded(limit: usize) -> Result<Vec<Task>, StoreError>;
        usage(of: Option<&Principal>) -> Result<Usage, StoreError>;
        requestor(id: &TaskId) -> Result<Option<Json>, StoreError>;
        list(scope: &Scope, before: Option<&TaskId>, limit: usize) -> Result<Page, StoreError>;
        live(owner: &Principal, session: &SessionKey, after: Option<&TaskId>, limit: usize) -> Result<Vec<Task>, StoreError>;
        due(at: UnixMillis, limit: usize) -> Result<Vec<Task>, StoreError>;
        expired(at: UnixMillis, limit: usize) -> Result<Vec<TaskId>, StoreError>;
        delete(ids: Vec<TaskId>, at: UnixMillis) -> Result<usize, StoreError>;
        counts() -> Result<Counts, StoreError>;
        signing_keys(purpose: &str, fresh: [u8; 32]) -> Result<Vec<SigningKey>, StoreError>;
        end_session(session: &SessionKey, until: UnixMillis) -> Result<(), StoreError>;
        session_ended(session: &SessionKey) -> Result<bool, StoreError>;
    }
}

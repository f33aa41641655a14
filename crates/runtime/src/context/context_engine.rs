//! What a context asks of the engine: whether its attempt may begin, and to start children of its task.

use super::TaskContext;
use longhaul_core::{
    BoxFuture, Json, TaskHeader,
    store::{CreateError, Created, NewTask},
};
use std::sync::Arc;

/// How deep children may be nested.
pub(super) const DEEPEST: u32 = 8;
/// How many children one task may start over its life.
pub(super) const MOST_CHILDREN: u32 = 1_000;

/// Why a child was not started; recorded as its entry.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum ChildRefusal {
    #[error("there is no such tool")]
    UnknownTool,
    #[error("{0}")]
    Arguments(String),
    #[error("it would be more than {DEEPEST} tasks below the one that the client called")]
    TooDeep,
    #[error("a task may start {MOST_CHILDREN} others")]
    TooMany,
    #[error(transparent)]
    Create(#[from] CreateError),
}

/// The engine, as contexts see it.
pub(crate) trait ContextEngine: Send + Sync {
    /// Whether the tool of a task is not paused, and this node begins work.
    fn may_begin(&self, task: &TaskHeader) -> bool;

    /// Whether the first attempt of a task may not begin, since nobody is its principal any more.
    fn is_withdrawn(&self, task: &TaskHeader) -> bool;

    /// A child of the task of `parent`, ready to be [started](Self::start) once its entry is known.
    ///
    /// # Errors
    /// [`ChildRefusal`] if there is no such tool, or the arguments do not fit it.
    fn new_child<'a>(
        &'a self,
        parent: &'a TaskContext,
        tool: &'a str,
        arguments: Json,
    ) -> BoxFuture<'a, Result<NewTask, ChildRefusal>>;

    /// Writes a child together with its parent's entry, and starts it.
    fn start(self: Arc<Self>, child: NewTask) -> BoxFuture<'static, Result<Created, CreateError>>;
}

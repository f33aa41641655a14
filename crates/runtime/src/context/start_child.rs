//! What a context asks of the engine to start a child of its task.

use super::TaskContext;
use longhaul_core::{
    BoxFuture, Json,
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

/// Starts the children of tasks. The engine implements it, and contexts use nothing else of the engine.
pub(crate) trait StartChild: Send + Sync {
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

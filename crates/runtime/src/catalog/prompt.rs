//! Prompts: texts that a person chooses and fills in.

use super::{Completer, HandlerError};
use crate::question::RequestContext;
use longhaul_core::{BoxFuture, Json};
use std::{collections::BTreeMap, sync::Arc};

/// A prompt.
pub struct Prompt {
    /// Unique in the catalog.
    pub name: Arc<str>,
    /// The `Prompt` object as lists show it: name, title, description, arguments, icons.
    pub shown: Json,
    /// The names of arguments that must be given.
    pub required: Vec<Arc<str>>,
    /// Fills it in.
    pub handler: Arc<dyn PromptHandler>,
    /// Completes its arguments, if it can.
    pub completer: Option<Arc<dyn Completer>>,
}

/// Fills a prompt in.
pub trait PromptHandler: Send + Sync + 'static {
    /// The `GetPromptResult` for these arguments; those that are required are there. May be run several times for one request
    /// that asks something (MRTR), so it must not change anything.
    fn get(
        self: Arc<Self>,
        arguments: BTreeMap<String, String>,
        cx: RequestContext,
    ) -> BoxFuture<'static, Result<Json, HandlerError>>;
}

//! Completion of arguments while the user types them.

use super::request_handler::TextArguments;
use crate::{Error, RequestContext, ServerHandle};
use longhaul_core::{BoxFuture, Json};
use longhaul_runtime::{Completer, HandlerError};
use std::{collections::HashMap, sync::Arc};

/// What a completing function is given: the text so far, and the arguments that are known.
#[derive(Clone)]
#[non_exhaustive]
pub struct CompletionRequest {
    /// The text that the user has typed so far.
    pub value: String,
    /// The other arguments that are known already, by name.
    pub arguments: TextArguments,
    /// The context of the request.
    pub cx: RequestContext,
}

/// What a completing function may return: a vector of texts, or a `Result` of one. At most 100 are shown.
pub trait IntoCompletions {
    /// The texts.
    ///
    /// # Errors
    /// That of the function.
    fn into_completions(self) -> Result<Vec<String>, Error>;
}

impl<T: Into<String>> IntoCompletions for Vec<T> {
    fn into_completions(self) -> Result<Vec<String>, Error> {
        Ok(self.into_iter().map(Into::into).collect())
    }
}

impl<T: IntoCompletions, E: Into<Error>> IntoCompletions for Result<T, E> {
    fn into_completions(self) -> Result<Vec<String>, Error> {
        self.map_err(Into::into)?.into_completions()
    }
}

type Complete = dyn Fn(CompletionRequest) -> BoxFuture<'static, Result<Vec<String>, Error>> + Send + Sync;

/// The completing functions, by argument.
#[derive(Clone, Default)]
pub(crate) struct Completions(HashMap<String, Arc<Complete>>);

impl Completions {
    pub(crate) fn add<F, W, R>(&mut self, argument: String, complete: F)
    where
        F: Fn(CompletionRequest) -> W + Send + Sync + 'static,
        W: Future<Output = R> + Send + 'static,
        R: IntoCompletions,
    {
        let complete = move |request| {
            let work = complete(request);
            Box::pin(async move { work.await.into_completions() }) as BoxFuture<'static, _>
        };
        self.0.insert(argument, Arc::new(complete));
    }

    /// Completes from a list: the values that begin with the text so far, ignoring case.
    pub(crate) fn add_values(&mut self, argument: String, values: Vec<String>) {
        self.add(argument, move |request: CompletionRequest| {
            let prefix = request.value.to_lowercase();
            let fits = |value: &&String| value.to_lowercase().starts_with(&prefix);
            std::future::ready(values.iter().filter(fits).cloned().collect::<Vec<_>>())
        });
    }

    /// Adds `others`, which replace functions for the same arguments.
    pub(crate) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    pub(crate) fn arguments(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// `None` if it completes nothing.
    pub(crate) fn completer(self, server: &ServerHandle) -> Option<Arc<dyn Completer>> {
        let server = server.clone();
        (!self.0.is_empty()).then(|| {
            Arc::new(ArgumentCompleter {
                completions: self,
                server,
            }) as Arc<dyn Completer>
        })
    }
}

struct ArgumentCompleter {
    completions: Completions,
    server: ServerHandle,
}

impl Completer for ArgumentCompleter {
    fn complete(
        self: Arc<Self>,
        argument: String,
        value: String,
        context: Json,
        cx: longhaul_runtime::RequestContext,
    ) -> BoxFuture<'static, Result<Vec<String>, HandlerError>> {
        let Some(complete) = self.completions.0.get(&argument) else {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        };
        let request = CompletionRequest {
            value,
            // A context that is not an object of texts is treated as empty.
            arguments: serde_json::from_str(context.as_str()).unwrap_or_default(),
            cx: RequestContext::of_request(cx, self.server.clone()),
        };
        let completed = complete(request);
        Box::pin(async move { Ok(completed.await?) })
    }
}

//! The functions of an author as handlers: their arguments, and the schemas of those.

mod arguments;
mod completion;
mod request_handler;
pub(crate) mod schema;

pub use arguments::{Arguments, NoArguments};
pub(crate) use arguments::{ArgumentsOnly, ContextAndArguments, ContextOnly, NoParameters, read};
pub(crate) use completion::Completions;
pub use completion::{CompletionRequest, IntoCompletions};
pub use request_handler::RequestHandler;
pub(crate) use request_handler::{BoxedRequestHandler, TextArguments, properties, required};

//! Headers that repeat parts of a message, and server-sent events.

pub mod header;
mod param_header;
pub mod sse;

pub use header::Headers;
pub use param_header::{AnnotationError, InvalidAnnotation, ParamHeaders};

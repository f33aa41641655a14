//! MCP messages without I/O: parsing requests and writing responses, for both generations of the protocol.
//!
//! How a request is handled: [`Message::parse`] finds its id, method and params. [`admit`] detects its era, checks its headers,
//! looks up its method and checks the client's capabilities, in the order the protocol requires. [`Params`] parses what the
//! method needs. A writer in [`legacy`] or [`modern`] appends the response to a buffer.
//!
//! Messages stay text: Longhaul reads the members it acts on and passes everything else on byte for byte. Nothing here allocates
//! per member, recurses into a peer's JSON, or panics on any input; only a [`Form`] is read as a whole, within limits.

mod admission;
mod capability;
mod http;
mod input;
pub mod json;
pub mod jsonrpc;
pub mod legacy;
pub mod meta;
pub mod modern;
pub mod notification;
pub mod params;
mod protocol;
mod result;
mod task;

pub use admission::{
    AdmissionRules, Admitted, admit, admit_custom,
    era::{Era, LegacyPhase, MessageTransport, ModernClient, SessionState, detect_era},
};
pub use capability::{
    client::read as read_client_capabilities,
    server::{ListCapability, RelayedCapabilities, ResourcesCapability, ServerCapabilities},
};
pub use http::{AnnotationError, Headers, InvalidAnnotation, ParamHeaders, header, sse};
pub use input::{
    form::{FieldKind, Form, FormChoice, FormField, FormMistake, FormMistakes, InvalidForm, TextFormat},
    request::{InputRequest, InvalidInputRequest, InvalidResponse},
};
pub use jsonrpc::{Message, Rejection, Request, batch::Batch};
pub use longhaul_core::MAX_DEPTH;
pub use meta::{Meta, relayed};
pub use notification::ListChange;
pub use params::Params;
pub use protocol::{
    CONNECTION_LOST, Generation, Method, NameSource, RemoteError, RequestId, ReservedCode, RpcError, Version,
};
pub use result::{
    CacheHints, CacheScope, ContentBody, ContentPage, ListKind, LogPage, OutputPage, OutputSchema, ResourceContent,
    ServerInfo, ToolEntry, completion,
};
pub use task::{InvalidTaskUri, TaskPart, TaskStatus, TaskUri};

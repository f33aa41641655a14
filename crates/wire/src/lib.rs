//! MCP messages without I/O: parsing requests and writing responses, for both generations of the protocol.
//!
//! How a request is handled: [`Message::parse`] finds its id, method and params. [`admit`] detects its era, checks its headers,
//! looks up its method and checks the client's capabilities, in the order the protocol requires. [`Params`] parses what the
//! method needs. A writer in [`legacy`] or [`modern`] appends the response to a buffer.
//!
//! Messages stay text: Longhaul reads the members it acts on and passes everything else on byte for byte. Nothing here allocates
//! per member, recurses into a peer's JSON, or panics on any input; only a [`Form`] is read as a whole, within limits.

mod admission;
mod batch;
mod cache;
mod client_capabilities;
pub mod completion;
mod era;
mod error;
mod form;
pub mod header;
mod input_request;
pub mod json;
pub mod jsonrpc;
pub mod legacy;
mod lineage;
mod list;
mod log_level;
pub mod meta;
mod meta_keys;
mod method;
pub mod modern;
pub mod notification;
mod object;
mod param_header;
pub mod params;
pub mod relayed;
mod remote_error;
mod request_id;
mod resource;
mod server_capabilities;
mod server_info;
mod splice;
pub mod sse;
mod task_uri;
mod task_view;
mod tool;
mod version;

pub use admission::{AdmissionRules, Admitted, admit, admit_custom};
pub use batch::Batch;
pub use cache::{CacheHints, CacheScope};
pub use client_capabilities::read as read_client_capabilities;
pub use era::{Era, LegacyPhase, MessageTransport, ModernClient, SessionState, detect_era};
pub use error::{CONNECTION_LOST, ReservedCode, RpcError};
pub use form::{FieldKind, Form, FormChoice, FormField, FormMistake, FormMistakes, InvalidForm, TextFormat};
pub use header::Headers;
pub use input_request::{InputRequest, InvalidInputRequest, InvalidResponse};
pub use jsonrpc::{Message, Rejection, Request};
pub use list::ListKind;
pub use longhaul_core::MAX_DEPTH;
pub use meta::Meta;
pub use method::{Method, NameSource};
pub use notification::ListChange;
pub use param_header::{AnnotationError, InvalidAnnotation, ParamHeaders};
pub use params::Params;
pub use remote_error::RemoteError;
pub use request_id::RequestId;
pub use resource::{LogPage, OutputPage, TextContent};
pub use server_capabilities::{ListCapability, RelayedCapabilities, ResourcesCapability, ServerCapabilities};
pub use server_info::ServerInfo;
pub use task_uri::{InvalidTaskUri, TaskPart, TaskUri};
pub use task_view::TaskStatus;
pub use tool::{OutputSchema, ToolEntry};
pub use version::{Generation, Version};

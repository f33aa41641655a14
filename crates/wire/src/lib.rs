//! MCP without I/O: what messages say and how answers are written, for both generations of the protocol.
//!
//! The way of a request: [`Message::parse`] finds its id, method and params; [`admit`] decides its era, checks its headers, looks
//! its method up and asks for the capabilities it needs, in the order the protocol wants; [`Params`] shows what the method asks
//! for; a writer in [`legacy`] or [`modern`] appends the answer to a buffer.
//!
//! Messages stay text: Longhaul reads the members it acts on and passes everything else on byte for byte (invariant 8). Nothing
//! here allocates per member, recurses into a peer's JSON, or panics on any input.

mod admission;
mod batch;
mod cache;
mod capabilities;
pub mod completion;
mod depth;
pub mod envelope;
mod era;
mod error;
mod features;
pub mod header;
mod identity;
pub mod json;
pub mod legacy;
mod lineage;
mod list;
mod log_level;
pub mod meta;
mod method;
pub mod modern;
pub mod notification;
mod object;
mod param_header;
pub mod params;
mod projection;
mod question;
mod remote_error;
mod resource;
mod splice;
pub mod sse;
mod task_uri;
mod tool;
mod version;

pub use admission::{Admitted, Rules, admit, admit_custom};
pub use batch::Batch;
pub use cache::{Cache, CacheScope};
pub use capabilities::ClientCapabilities;
pub use depth::MAX_DEPTH;
pub use envelope::{Message, Refusal, Request, RequestId};
pub use era::{Era, Legacy, Modern, Peer, Session, decide};
pub use error::{Capability, ReservedCode, RpcError};
pub use features::{Features, Listed, Watched};
pub use header::Headers;
pub use identity::Identity;
pub use list::Listing;
pub use meta::Meta;
pub use method::{Method, NameSource};
pub use notification::Change;
pub use param_header::{AnnotationFlaw, InvalidAnnotation, ParamHeaders};
pub use params::Params;
pub use projection::Status;
pub use question::{NotAQuestion, Question};
pub use remote_error::RemoteError;
pub use resource::{OutputPage, Stretch, TextContent};
pub use task_uri::{InvalidTaskUri, TaskPart, TaskUri};
pub use tool::ToolEntry;
pub use version::{Generation, Version};

//! Resources: what a client may read, by URI, one by one or in families.

use super::{Completer, HandlerError, UriTemplate};
use crate::question::RequestContext;
use longhaul_core::{BoxFuture, Json};
use std::sync::Arc;

/// A resource.
pub struct Resource {
    /// Unique in the catalog.
    pub uri: Arc<str>,
    /// The `Resource` object as lists show it: uri, name, title, description, mimeType, size, annotations, icons.
    pub shown: Json,
    /// Reads it.
    pub handler: Arc<dyn ResourceHandler>,
}

/// A family of resources.
pub struct ResourceTemplate {
    /// Unique in the catalog.
    pub uri_template: UriTemplate,
    /// The `ResourceTemplate` object as lists show it.
    pub shown: Json,
    /// Reads its members.
    pub handler: Arc<dyn ResourceHandler>,
    /// Completes its variables, if it can.
    pub completer: Option<Arc<dyn Completer>>,
}

/// Reads resources.
pub trait ResourceHandler: Send + Sync + 'static {
    /// The `ReadResourceResult`, `{"contents":[…]}`, of the resource at `uri`; for a member of a family with the values of its
    /// template's variables. [`HandlerError::NotFound`] for a URI that names nothing. May be run several times for one request that
    /// asks something (MRTR).
    fn read(
        self: Arc<Self>,
        uri: String,
        variables: Vec<(String, String)>,
        cx: RequestContext,
    ) -> BoxFuture<'static, Result<Json, HandlerError>>;
}

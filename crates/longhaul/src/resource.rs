//! Resources and resource templates.

use crate::{
    CompletionRequest, DefinitionError, Error, Icon, IntoCompletions, RequestContext, RequestHandler, ResourceContents,
    Role, ServerHandle,
    content::{Annotations, icons_json},
    handler::{BoxedRequestHandler, Completions, TextArguments, required},
};
use longhaul_core::{BoxFuture, Json};
use longhaul_runtime::{HandlerError, ResourceHandler, UriTemplate};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// A resource: something that clients may read, at a URI.
///
/// ```
/// use longhaul::{Resource, RequestContext};
/// let readme = Resource::text("docs://readme", "Read me.").name("readme").mime_type("text/markdown");
/// let log = Resource::new("logs://today", async || std::fs::read_to_string("today.log")).name("today's log");
/// ```
pub struct Resource {
    uri: Arc<str>,
    info: Description,
    size: Option<u64>,
    handler: BoxedRequestHandler<ResourceOutput>,
}

/// Resources at all URIs that a template matches (RFC 6570).
///
/// The function takes the variables of the template as a type that derives `Deserialize` and `JsonSchema`. A URI whose variables cannot be read
/// as that type does not exist.
///
/// ```
/// use longhaul::{Json, ResourceTemplate};
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct User {
///     id: u64,
/// }
/// let users = ResourceTemplate::new("users://{id}/profile", async |user: User| Json(serde_json::json!({"id": user.id})))
///     .name("profile")
///     .complete_from("id", ["1", "2"]);
/// ```
pub struct ResourceTemplate {
    uri_template: Arc<str>,
    info: Description,
    handler: BoxedRequestHandler<ResourceOutput>,
    completions: Completions,
}

/// The description of a resource or a template.
#[derive(Default)]
struct Description {
    name: Option<String>,
    title: Option<String>,
    description: Option<String>,
    mime_type: Option<String>,
    icons: Vec<Icon>,
    annotations: Option<Annotations>,
}

impl Description {
    fn to_json(&self, uri_member: &str, uri: &str) -> Value {
        let mut shown = json!({uri_member: uri, "name": self.name.as_deref().unwrap_or(uri)});
        let members = [
            ("title", self.title.as_deref().map(Value::from)),
            ("description", self.description.as_deref().map(Value::from)),
            ("mimeType", self.mime_type.as_deref().map(Value::from)),
            ("icons", icons_json(&self.icons)),
            (
                "annotations",
                self.annotations.as_ref().map(|annotations| json!(annotations)),
            ),
        ];
        for (member, value) in members {
            if let Some(value) = value {
                shown[member] = value;
            }
        }
        shown
    }
}

/// The content that a resource's function returns, without its URI.
pub struct ResourceOutput(Kind);

enum Kind {
    Text(String),
    Json(String),
    Bytes(Vec<u8>),
    Several(Vec<ResourceContents>),
}

impl ResourceOutput {
    fn at(self, uri: &str, mime_type: Option<&str>) -> Vec<ResourceContents> {
        let with_type = |contents: ResourceContents, default: Option<&str>| match mime_type.or(default) {
            Some(mime_type) => contents.mime_type(mime_type),
            None => contents,
        };
        match self.0 {
            Kind::Text(text) => vec![with_type(ResourceContents::text(uri, text), None)],
            Kind::Json(text) => vec![with_type(ResourceContents::text(uri, text), Some("application/json"))],
            Kind::Bytes(bytes) => vec![with_type(ResourceContents::blob(uri, bytes), None)],
            Kind::Several(contents) => contents,
        }
    }
}

/// What a resource's function may return: text, bytes, [`Json`](crate::Json), `Vec<`[`ResourceContents`]`>`, or a `Result` of one of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the content of a resource",
    note = "it is `&'static str`, `String`, `Vec<u8>`, `longhaul::Json<T>`, `Vec<ResourceContents>`, or a `Result` of one of them with an error"
)]
pub trait IntoResourceOutput {
    /// The content.
    ///
    /// # Errors
    /// That of the function; [`Error::not_found`] for a URI that does not exist.
    fn into_resource_output(self) -> Result<ResourceOutput, Error>;
}

macro_rules! contents {
    ($($kind:ty: |$value:ident| $contents:expr;)*) => {$(
        impl IntoResourceOutput for $kind {
            fn into_resource_output(self) -> Result<ResourceOutput, Error> {
                let $value = self;
                Ok(ResourceOutput($contents))
            }
        }
    )*};
}
contents! {
    &'static str: |text| Kind::Text(text.to_owned());
    String: |text| Kind::Text(text);
    Vec<u8>: |bytes| Kind::Bytes(bytes);
    Vec<ResourceContents>: |contents| Kind::Several(contents);
}

impl<T: Serialize> IntoResourceOutput for crate::Json<T> {
    fn into_resource_output(self) -> Result<ResourceOutput, Error> {
        Ok(ResourceOutput(Kind::Json(serde_json::to_string(&self.0)?)))
    }
}

impl<T: IntoResourceOutput, E: Into<Error>> IntoResourceOutput for Result<T, E> {
    fn into_resource_output(self) -> Result<ResourceOutput, Error> {
        self.map_err(Into::into)?.into_resource_output()
    }
}

/// The setters of resources and templates.
macro_rules! description_setters {
    () => {
        /// The name, for programs; by default the URI.
        #[must_use]
        pub fn name(mut self, name: impl Into<String>) -> Self {
            self.info.name = Some(name.into());
            self
        }

        /// The display name.
        #[must_use]
        pub fn title(mut self, title: impl Into<String>) -> Self {
            self.info.title = Some(title.into());
            self
        }

        /// The description.
        #[must_use]
        pub fn description(mut self, text: impl Into<String>) -> Self {
            self.info.description = Some(text.into());
            self
        }

        /// The media type, such as `text/plain`.
        #[must_use]
        pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
            self.info.mime_type = Some(mime_type.into());
            self
        }

        /// An icon; may be called several times.
        #[must_use]
        pub fn icon(mut self, icon: Icon) -> Self {
            self.info.icons.push(icon);
            self
        }

        /// The audience.
        #[must_use]
        pub fn for_audience(mut self, audience: impl IntoIterator<Item = Role>) -> Self {
            self.info.annotations.get_or_insert_default().audience = audience.into_iter().collect();
            self
        }

        /// The importance, from 0 (least) to 1 (required). Other numbers are clamped.
        #[must_use]
        pub fn priority(mut self, priority: f64) -> Self {
            self.info.annotations.get_or_insert_default().priority = Some(priority.clamp(0.0, 1.0));
            self
        }
    };
}

impl Resource {
    /// A resource that an async function reads. It may take a [`RequestContext`], and its result
    /// [becomes](IntoResourceOutput) the content.
    pub fn new<In, H>(uri: impl Into<Arc<str>>, handler: H) -> Self
    where
        H: RequestHandler<In, Output: IntoResourceOutput + 'static, Future: Send>,
    {
        Self {
            uri: uri.into(),
            info: Description::default(),
            size: None,
            handler: BoxedRequestHandler::new(handler, IntoResourceOutput::into_resource_output, not_found),
        }
    }

    /// A text that does not change.
    pub fn text(uri: impl Into<Arc<str>>, text: impl Into<String>) -> Self {
        let text = text.into();
        let size = text.len() as u64;
        Self::new(uri, move || std::future::ready(text.clone())).size(size)
    }

    /// Bytes that do not change.
    pub fn blob(uri: impl Into<Arc<str>>, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let size = bytes.len() as u64;
        Self::new(uri, move || std::future::ready(bytes.clone())).size(size)
    }

    description_setters!();

    /// Its size in bytes, if it is known.
    #[must_use]
    pub fn size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes);
        self
    }

    /// Checks the definition and binds it to `server`.
    pub(crate) fn build(self, server: &ServerHandle) -> Result<longhaul_runtime::Resource, DefinitionError> {
        let wrong = |why: &str| DefinitionError {
            what: format!("resource `{}`", self.uri),
            why: why.to_owned(),
        };
        if !self.uri.contains(':') {
            return Err(wrong("its URI has no scheme: `docs://readme` has one"));
        }
        if self.handler.schema.is_some() {
            return Err(wrong("its function takes arguments, which only a ResourceTemplate has"));
        }
        let mut shown = self.info.to_json("uri", &self.uri);
        if let Some(size) = self.size {
            shown["size"] = size.into();
        }
        Ok(longhaul_runtime::Resource {
            uri: self.uri,
            shown: Json::from(shown),
            handler: bind(self.handler, self.info.mime_type, server),
        })
    }

    pub(crate) fn uri(&self) -> &Arc<str> {
        &self.uri
    }
}

impl ResourceTemplate {
    /// Resources that a function reads.
    pub fn new<In, H>(uri_template: impl Into<Arc<str>>, handler: H) -> Self
    where
        H: RequestHandler<In, Output: IntoResourceOutput + 'static, Future: Send>,
    {
        Self {
            uri_template: uri_template.into(),
            info: Description::default(),
            handler: BoxedRequestHandler::new(handler, IntoResourceOutput::into_resource_output, not_found),
            completions: Completions::default(),
        }
    }

    description_setters!();

    /// Completes a variable while the user types it; see [`Prompt::complete`](crate::Prompt::complete).
    #[must_use]
    pub fn complete<F, W, R>(mut self, variable: impl Into<String>, complete: F) -> Self
    where
        F: Fn(CompletionRequest) -> W + Send + Sync + 'static,
        W: Future<Output = R> + Send + 'static,
        R: IntoCompletions,
    {
        self.completions.add(variable.into(), complete);
        self
    }

    /// Completes a variable from a list of values: those that begin with what the user has typed.
    #[must_use]
    pub fn complete_from<T: Into<String>>(
        mut self,
        variable: impl Into<String>,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        self.completions
            .add_values(variable.into(), values.into_iter().map(Into::into).collect());
        self
    }

    /// Checks the definition and binds it to `server`.
    pub(crate) fn build(self, server: &ServerHandle) -> Result<longhaul_runtime::ResourceTemplate, DefinitionError> {
        let wrong = |why: String| DefinitionError {
            what: format!("resource template `{}`", self.uri_template),
            why,
        };
        let uri_template = UriTemplate::new(Arc::clone(&self.uri_template)).map_err(|error| wrong(error.why))?;
        if let Some(completed) = self
            .completions
            .arguments()
            .find(|variable| !uri_template.has(variable))
        {
            return Err(wrong(format!("it has no variable `{completed}` to complete")));
        }
        if let Some(member) = required(self.handler.schema.as_ref()).find(|member| !uri_template.has(member)) {
            return Err(wrong(format!(
                "its function needs `{member}`, which is not a variable of the template, so no URI could be read: add `{{{member}}}`, \
                 or make the field an `Option`"
            )));
        }
        let shown = self.info.to_json("uriTemplate", &self.uri_template);
        Ok(longhaul_runtime::ResourceTemplate {
            uri_template,
            shown: Json::from(shown),
            handler: bind(self.handler, self.info.mime_type, server),
            completer: self.completions.completer(server),
        })
    }

    pub(crate) fn uri_template(&self) -> &Arc<str> {
        &self.uri_template
    }
}

/// The error for a URI whose variables cannot be read.
fn not_found(_: String) -> Error {
    Error::not_found()
}

fn bind(
    handler: BoxedRequestHandler<ResourceOutput>,
    mime_type: Option<String>,
    server: &ServerHandle,
) -> Arc<dyn ResourceHandler> {
    Arc::new(FunctionHandler {
        handler,
        mime_type,
        server: server.clone(),
    })
}

struct FunctionHandler {
    handler: BoxedRequestHandler<ResourceOutput>,
    mime_type: Option<String>,
    server: ServerHandle,
}

impl ResourceHandler for FunctionHandler {
    fn read(
        self: Arc<Self>,
        uri: String,
        variables: Vec<(String, String)>,
        cx: longhaul_runtime::RequestContext,
    ) -> BoxFuture<'static, Result<Json, HandlerError>> {
        let cx = RequestContext::of_request(cx, self.server.clone());
        let read = self.handler.run(cx, TextArguments::from_iter(variables));
        Box::pin(async move {
            let contents = read.await?.at(&uri, self.mime_type.as_deref());
            Ok(Json::from(json!({"contents": contents})))
        })
    }
}

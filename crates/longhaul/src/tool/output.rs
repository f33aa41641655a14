//! The result of a tool.

use crate::{Content, Error, handler::schema};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The result of a tool's function; see [`ToolOutput`] and [`IntoToolOutput`].
pub type ToolResult<T = ToolOutput> = Result<T, Error>;

/// The result of a tool: blocks of content, and perhaps structured content for programs.
///
/// ```
/// use longhaul::{Content, ToolOutput};
/// let output = ToolOutput::text("A chart:").with(Content::image("image/png", b"\x89PNG..."));
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    content: Vec<Content>,
    structured: Option<Value>,
    is_error: bool,
    meta: Option<Map<String, Value>>,
}

impl ToolOutput {
    /// One block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::default().with(Content::text(text))
    }

    /// Structured content, and the same as text for clients that do not read it. [`Json`] also sets the tool's output schema.
    ///
    /// # Errors
    /// If `value` cannot be written as JSON: for example a map whose keys are not strings.
    pub fn json(value: &impl Serialize) -> Result<Self, Error> {
        let value = serde_json::to_value(value)?;
        let text = value.to_string();
        Ok(Self {
            structured: Some(value),
            ..Self::text(text)
        })
    }

    /// With one more block.
    #[must_use]
    pub fn with(mut self, block: impl Into<Content>) -> Self {
        self.content.push(block.into());
        self
    }

    /// Marks it as an error (`isError`). Returning an [`Error`] does the same with a text.
    #[must_use]
    pub fn as_error(mut self) -> Self {
        self.is_error = true;
        self
    }

    /// With `_meta`. Names need a prefix of your own, such as `com.example/took`.
    #[must_use]
    pub fn meta(mut self, meta: Map<String, Value>) -> Self {
        self.meta = Some(meta);
        self
    }

    pub(crate) fn structured(&self) -> Option<&Value> {
        self.structured.as_ref()
    }

    pub(crate) fn is_error(&self) -> bool {
        self.is_error
    }

    /// The `CallToolResult`.
    pub(crate) fn into_json(self) -> longhaul_core::Json {
        let mut result = json!({"content": self.content, "isError": self.is_error});
        if let Some(structured) = self.structured {
            result["structuredContent"] = structured;
        }
        if let Some(meta) = self.meta {
            result["_meta"] = Value::Object(meta);
        }
        result.into()
    }
}

impl From<Content> for ToolOutput {
    fn from(block: Content) -> Self {
        Self::default().with(block)
    }
}

impl FromIterator<Content> for ToolOutput {
    fn from_iter<I: IntoIterator<Item = Content>>(blocks: I) -> Self {
        Self {
            content: blocks.into_iter().collect(),
            ..Self::default()
        }
    }
}

/// Structured output: `structuredContent`, with the schema of `T` as the tool's `outputSchema`, and the same as text for clients that do not read
/// it.
///
/// ```
/// use longhaul::{Json, Tool};
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Size { bytes: u64 }
/// let tool = Tool::new("size", async || Json(Size { bytes: 42 }));
/// ```
///
/// Clients of the legacy era read only objects here; of anything else they get the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

/// What a tool's function may return: text, [`Json`], [`ToolOutput`], [`Content`], nothing, or a `Result` of one of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a tool",
    note = "it is `&'static str`, `String`, `longhaul::Json<T>`, `longhaul::ToolOutput`, `longhaul::Content`, `()`, or a `Result` of one of them with an error",
    note = "wrap a type that derives `serde::Serialize` and `schemars::JsonSchema` in `longhaul::Json`"
)]
pub trait IntoToolOutput {
    /// The output.
    ///
    /// # Errors
    /// The tool's own error, or that a value cannot be written as JSON.
    fn into_tool_output(self) -> Result<ToolOutput, Error>;

    /// The JSON Schema of the structured content, if there is any.
    fn output_schema() -> Option<Value> {
        None
    }
}

impl IntoToolOutput for ToolOutput {
    fn into_tool_output(self) -> Result<ToolOutput, Error> {
        Ok(self)
    }
}

impl IntoToolOutput for () {
    fn into_tool_output(self) -> Result<ToolOutput, Error> {
        Ok(ToolOutput::default())
    }
}

impl IntoToolOutput for &'static str {
    fn into_tool_output(self) -> Result<ToolOutput, Error> {
        Ok(ToolOutput::text(self))
    }
}

impl IntoToolOutput for String {
    fn into_tool_output(self) -> Result<ToolOutput, Error> {
        Ok(ToolOutput::text(self))
    }
}

impl IntoToolOutput for Content {
    fn into_tool_output(self) -> Result<ToolOutput, Error> {
        Ok(self.into())
    }
}

impl<T: Serialize + JsonSchema> IntoToolOutput for Json<T> {
    fn into_tool_output(self) -> Result<ToolOutput, Error> {
        ToolOutput::json(&self.0)
    }

    fn output_schema() -> Option<Value> {
        Some(schema::of_output::<T>())
    }
}

impl<T: IntoToolOutput, E: Into<Error>> IntoToolOutput for Result<T, E> {
    fn into_tool_output(self) -> Result<ToolOutput, Error> {
        self.map_err(Into::into)?.into_tool_output()
    }

    fn output_schema() -> Option<Value> {
        T::output_schema()
    }
}

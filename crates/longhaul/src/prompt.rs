//! Prompts.

use crate::{
    CompletionRequest, Content, DefinitionError, Error, Icon, IntoCompletions, Message, RequestContext, RequestHandler,
    ServerHandle,
    content::icons_json,
    handler::{BoxedRequestHandler, Completions, TextArguments, properties},
    tool,
};
use longhaul_core::{BoxFuture, Json};
use longhaul_runtime::{HandlerError, PromptHandler};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A prompt: messages that the user chooses and fills in.
///
/// The function is async. It may take a [`RequestContext`] and its arguments: a type that derives `Deserialize` and `JsonSchema`, whose fields are
/// strings, numbers, booleans, plain enums or options of those. It returns a text (one message of the user), [`Message`]s, or a [`PromptOutput`].
/// The values of enums are completed automatically; for other arguments use [`complete`](Self::complete).
///
/// ```
/// use longhaul::Prompt;
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Review {
///     /// The language of the code.
///     language: String,
///     /// Be kind or be thorough.
///     tone: Option<String>,
/// }
/// let prompt = Prompt::new("review", async |args: Review| {
///     format!("Review this {} code. {}", args.language, args.tone.unwrap_or_default())
/// })
/// .description("Reviews code")
/// .complete_from("tone", ["Be kind.", "Be thorough."]);
/// ```
pub struct Prompt {
    name: Arc<str>,
    title: Option<String>,
    description: Option<String>,
    icons: Vec<Icon>,
    handler: BoxedRequestHandler<PromptOutput>,
    completions: Completions,
}

/// The messages of a prompt, filled in.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PromptOutput {
    description: Option<String>,
    messages: Vec<Message>,
}

impl PromptOutput {
    /// A result with these messages.
    pub fn new(messages: impl IntoIterator<Item = Message>) -> Self {
        Self {
            description: None,
            messages: messages.into_iter().collect(),
        }
    }

    /// The description of this result.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    fn into_json(self) -> Json {
        // In a prompt, a message has one block.
        let blocks = |message: Message| {
            message
                .content
                .into_iter()
                .map(move |block: Content| (message.role, block))
        };
        let messages = self.messages.into_iter().flat_map(blocks);
        let messages: Vec<Value> = messages
            .map(|(role, content)| json!({"role": role, "content": content}))
            .collect();
        let mut result = json!({"messages": messages});
        if let Some(description) = self.description {
            result["description"] = description.into();
        }
        result.into()
    }
}

/// What a prompt's function may return: text, [`Message`]s, [`PromptOutput`], or a `Result` of one of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot fill in a prompt",
    note = "it is `&'static str`, `String`, `longhaul::Message`, a `Vec` or an array of them, `longhaul::PromptOutput`, or a `Result` of one of them with an error"
)]
pub trait IntoPromptOutput {
    /// The messages.
    ///
    /// # Errors
    /// That of the function.
    fn into_prompt_output(self) -> Result<PromptOutput, Error>;
}

macro_rules! outputs {
    ($($kind:ty: |$value:ident| $output:expr;)*) => {$(
        impl IntoPromptOutput for $kind {
            fn into_prompt_output(self) -> Result<PromptOutput, Error> {
                let $value = self;
                Ok($output)
            }
        }
    )*};
}
outputs! {
    PromptOutput: |output| output;
    Message: |message| PromptOutput::new([message]);
    Vec<Message>: |messages| PromptOutput::new(messages);
    String: |text| PromptOutput::new([Message::user(text)]);
    &'static str: |text| PromptOutput::new([Message::user(text)]);
}

impl<const N: usize> IntoPromptOutput for [Message; N] {
    fn into_prompt_output(self) -> Result<PromptOutput, Error> {
        Ok(PromptOutput::new(self))
    }
}

impl<T: IntoPromptOutput, E: Into<Error>> IntoPromptOutput for Result<T, E> {
    fn into_prompt_output(self) -> Result<PromptOutput, Error> {
        self.map_err(Into::into)?.into_prompt_output()
    }
}

impl Prompt {
    /// A prompt that a function fills in. The name is unique on its server: 1 to 128 of `A-Z a-z 0-9 _ - .`.
    pub fn new<In, H>(name: impl Into<Arc<str>>, handler: H) -> Self
    where
        H: RequestHandler<In, Output: IntoPromptOutput + 'static, Future: Send>,
    {
        Self {
            name: name.into(),
            title: None,
            description: None,
            icons: Vec::new(),
            handler: BoxedRequestHandler::new(handler, IntoPromptOutput::into_prompt_output, Error::invalid_params),
            completions: Completions::default(),
        }
    }

    /// The description.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// The display name.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// An icon; may be called several times.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }

    /// Completes an argument while the user types it.
    ///
    /// ```
    /// # let prompt = longhaul::Prompt::new("p", async || "");
    /// use longhaul::CompletionRequest;
    /// prompt.complete("city", async |request: CompletionRequest| match request.arguments.get("country").map(String::as_str) {
    ///     Some("France") => vec!["Paris", "Lyon"],
    ///     _ => vec!["London", "Paris"],
    /// });
    /// ```
    #[must_use]
    pub fn complete<F, W, R>(mut self, argument: impl Into<String>, complete: F) -> Self
    where
        F: Fn(CompletionRequest) -> W + Send + Sync + 'static,
        W: Future<Output = R> + Send + 'static,
        R: IntoCompletions,
    {
        self.completions.add(argument.into(), complete);
        self
    }

    /// Completes an argument from a list of values: those that begin with what the user has typed.
    #[must_use]
    pub fn complete_from<T: Into<String>>(
        mut self,
        argument: impl Into<String>,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        self.completions
            .add_values(argument.into(), values.into_iter().map(Into::into).collect());
        self
    }

    /// Checks the prompt and binds it to `server`.
    pub(crate) fn build(mut self, server: &ServerHandle) -> Result<longhaul_runtime::Prompt, DefinitionError> {
        let wrong = |why: String| DefinitionError {
            what: format!("prompt `{}`", self.name),
            why,
        };
        tool::check_name(&self.name).map_err(wrong)?;
        let schema = self.handler.schema.take();
        let arguments = Argument::read_all(schema.as_ref()).map_err(wrong)?;
        for completed in self.completions.arguments() {
            if !arguments.iter().any(|argument| argument.name == *completed) {
                return Err(wrong(format!("it has no argument `{completed}` to complete")));
            }
        }
        let mut completions = Completions::default();
        for argument in arguments.iter().filter(|argument| !argument.values.is_empty()) {
            completions.add_values(argument.name.clone(), argument.values.clone());
        }
        completions.extend(self.completions);
        self.handler.schema = schema;
        let description = self.description.or_else(|| {
            let documented = self.handler.schema.as_ref()?["description"].as_str()?;
            Some(documented.to_owned())
        });
        let mut shown = json!({"name": &*self.name});
        let members = [
            ("title", self.title.map(Value::from)),
            ("description", description.map(Value::from)),
            (
                "arguments",
                (!arguments.is_empty()).then(|| arguments.iter().map(Argument::to_json).collect()),
            ),
            ("icons", icons_json(&self.icons)),
        ];
        for (member, value) in members {
            if let Some(value) = value {
                shown[member] = value;
            }
        }
        Ok(longhaul_runtime::Prompt {
            name: Arc::clone(&self.name),
            shown: Json::from(shown),
            required: arguments
                .iter()
                .filter(|argument| argument.required)
                .map(|argument| argument.name.as_str().into())
                .collect(),
            handler: Arc::new(FunctionHandler {
                function: self.handler,
                server: server.clone(),
            }),
            completer: completions.completer(server),
        })
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }
}

/// One argument of a prompt, read from its type's schema.
struct Argument {
    name: String,
    title: Option<String>,
    description: Option<String>,
    required: bool,
    /// All values that it may have, if its type is an enum.
    values: Vec<String>,
}

impl Argument {
    fn read_all(schema: Option<&Value>) -> Result<Vec<Self>, String> {
        let Some(schema) = schema else {
            return Ok(Vec::new());
        };
        let no_members = Map::new();
        let properties = match properties(Some(schema)) {
            Some(properties) => properties,
            None if is_empty_struct(schema) => &no_members,
            None => return Err("its arguments are not a struct with named fields".to_owned()),
        };
        let required = |name: &str| {
            schema["required"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one == name))
        };
        let argument = |(name, property): (&String, &Value)| {
            let text = |member: &str| property[member].as_str().map(str::to_owned);
            Ok(Self {
                name: name.clone(),
                title: text("title"),
                description: text("description"),
                required: required(name),
                values: allowed_values(schema, property, name)?,
            })
        };
        properties.iter().map(argument).collect()
    }

    fn to_json(&self) -> Value {
        let mut shown = json!({"name": self.name, "required": self.required});
        for (member, text) in [("title", &self.title), ("description", &self.description)] {
            if let Some(text) = text {
                shown[member] = text.as_str().into();
            }
        }
        shown
    }
}

/// Whether it is the schema of a struct without fields. The schema of a map has `additionalProperties`.
fn is_empty_struct(schema: &Value) -> bool {
    schema["type"] == "object" && matches!(schema["additionalProperties"], Value::Null | Value::Bool(false))
}

/// All values that an argument may have, if its type is an enum; otherwise none.
///
/// # Errors
/// If its values cannot be written as text.
fn allowed_values(root: &Value, property: &Value, name: &str) -> Result<Vec<String>, String> {
    let mut schema = property;
    if let Some(any) = property["anyOf"].as_array() {
        // An `Option` of an enum.
        schema = any.iter().find(|one| one["type"] != "null").unwrap_or(property);
    }
    if let Some(definition) = schema["$ref"]
        .as_str()
        .and_then(|reference| root.pointer(reference.trim_start_matches('#')))
    {
        schema = definition;
    }
    let texts = |values: Vec<&Value>| {
        values
            .into_iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    if let Some(values) = schema["enum"].as_array() {
        return Ok(texts(values.iter().collect()));
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        return Ok(texts(choices.iter().map(|choice| &choice["const"]).collect()));
    }
    let plain = |kind: &Value| {
        ["string", "integer", "number", "boolean", "null"]
            .iter()
            .any(|plain| kind == plain)
    };
    let fits = match &schema["type"] {
        Value::Array(any) => any.iter().all(plain),
        one => plain(one),
    };
    match fits {
        true => Ok(Vec::new()),
        false => Err(format!(
            "its argument `{name}` is not text: the arguments of prompts are strings, numbers, booleans, plain enums, or options of those"
        )),
    }
}

struct FunctionHandler {
    function: BoxedRequestHandler<PromptOutput>,
    server: ServerHandle,
}

impl PromptHandler for FunctionHandler {
    fn get(
        self: Arc<Self>,
        arguments: TextArguments,
        cx: longhaul_runtime::RequestContext,
    ) -> BoxFuture<'static, Result<Json, HandlerError>> {
        let cx = RequestContext::of_request(cx, self.server.clone());
        let output = self.function.run(cx, arguments);
        Box::pin(async move { Ok(output.await?.into_json()) })
    }
}

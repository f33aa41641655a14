//! Sampling: questions to the client's model.

use super::{Ask, AskError, QuestionKind};
use crate::{Content, Message, RequestContext, Role, content::message, handler::schema};
use longhaul_core::{BoxFuture, Capability};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{collections::BTreeSet, future::IntoFuture};

/// The default length limit of an answer, in tokens.
const MAX_TOKENS: u32 = 1024;

/// A question to the client's model; see [`RequestContext::sample`].
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sampling {
    messages: Vec<Message>,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stop_sequences: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_preferences: Option<Preferences>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<SampleTool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice>,
}

#[derive(Serialize, Default)]
struct Preferences {
    hints: Vec<Hint>,
}

#[derive(Serialize)]
struct Hint {
    name: String,
}

#[derive(Serialize)]
struct Choice {
    mode: ToolChoice,
}

/// Whether the model uses the tools it is given. An example is at [`SampleTool`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// It must use at least one.
    Required,
    /// It must not use any.
    None,
}

/// A tool that the model may ask for in its answer. The handler runs it, not the client.
///
/// ```
/// use longhaul::{Content, Message, SampleTool, TaskContext, ToolChoice, ToolResult};
///
/// #[derive(schemars::JsonSchema)]
/// struct Forecast { city: String }
///
/// async fn advise(cx: TaskContext) -> ToolResult<String> {
///     let mut messages = vec![Message::user("Do I need an umbrella in Oslo?")];
///     let tool = SampleTool::new::<Forecast>("forecast").description("The weather of tomorrow");
///     let answer = cx.sample(messages.clone()).tools([tool]).tool_choice(ToolChoice::Required).await?;
///     let calls = answer.content.iter().filter_map(Content::as_tool_use);
///     let results: Vec<Content> = calls
///         .map(|(id, _name, _input)| Content::tool_result(id, vec!["Rain".into()]))
///         .collect();
///     messages.extend([answer.into_message(), Message { role: longhaul::Role::User, content: results }]);
///     Ok(cx.sample(messages).await?.text())
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SampleTool {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    input_schema: Value,
}

impl SampleTool {
    /// A tool that takes `A`.
    pub fn new<A: JsonSchema>(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: None,
            input_schema: schema::of_input::<A>(),
        }
    }

    /// What it does.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }
}

/// The answer of a model: the result of a sampling request.
///
/// ```
/// # use longhaul::{Error, TaskContext, ToolResult};
/// async fn summarize(cx: TaskContext, text: String) -> ToolResult<String> {
///     let answer = cx.sample(format!("Summarize: {text}")).max_tokens(200).await?;
///     match answer.stop_reason.as_deref() {
///         Some("maxTokens") => Err(Error::new(format!("{} needs more than 200 tokens", answer.model))),
///         _ => Ok(answer.text()),
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateMessageResult {
    /// The role of the message, as a rule [`Role::Assistant`].
    pub role: Role,
    /// The content blocks.
    #[serde(deserialize_with = "message::read_blocks")]
    pub content: Vec<Content>,
    /// Which model it was.
    pub model: String,
    /// Why the model stopped: `endTurn`, `maxTokens`, `stopSequence`, `toolUse`, or another reason.
    pub stop_reason: Option<String>,
}

impl CreateMessageResult {
    /// All text of the answer, concatenated.
    pub fn text(&self) -> String {
        self.content.iter().filter_map(Content::as_text).collect()
    }

    /// The answer as a message, to continue the conversation with.
    pub fn into_message(self) -> Message {
        Message {
            role: self.role,
            content: self.content,
        }
    }
}

/// What [`sample`](RequestContext::sample) takes: a text, which is a message of the user, or messages.
pub trait IntoMessages {
    /// The messages.
    fn into_messages(self) -> Vec<Message>;
}

impl IntoMessages for Vec<Message> {
    fn into_messages(self) -> Vec<Message> {
        self
    }
}

impl<const N: usize> IntoMessages for [Message; N] {
    fn into_messages(self) -> Vec<Message> {
        self.into()
    }
}

impl<T: Into<Message>> IntoMessages for T {
    fn into_messages(self) -> Vec<Message> {
        vec![self.into()]
    }
}

impl RequestContext {
    /// Asks the client's model. Awaiting it returns the model's answer.
    ///
    /// ```
    /// # async fn f(cx: longhaul::TaskContext) -> longhaul::ToolResult<String> {
    /// let answer = cx.sample("What is the capital of France?").max_tokens(100).await?;
    /// # Ok(
    /// answer.text()
    /// # ) }
    /// ```
    pub fn sample(&self, messages: impl IntoMessages) -> Ask<Sampling> {
        let question = Sampling {
            messages: messages.into_messages(),
            max_tokens: MAX_TOKENS,
            system_prompt: None,
            temperature: None,
            stop_sequences: Vec::new(),
            model_preferences: None,
            tools: Vec::new(),
            tool_choice: None,
        };
        Ask::new(self, question)
    }
}

impl Ask<Sampling> {
    /// How long the answer may be, in tokens; by default 1024.
    ///
    /// ```
    /// # async fn f(cx: longhaul::TaskContext) -> longhaul::ToolResult<()> {
    /// let question = cx.sample("Name three fruits.").max_tokens(200).temperature(0.2).model_hint("haiku");
    /// let answer = question.await?;
    /// # Ok(()) }
    /// ```
    pub fn max_tokens(mut self, most: u32) -> Self {
        self.question.max_tokens = most;
        self
    }

    /// The system prompt. The client may change it.
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.question.system_prompt = Some(text.into());
        self
    }

    /// The sampling temperature; its range depends on the model.
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.question.temperature = Some(temperature);
        self
    }

    /// Texts at which the model stops.
    pub fn stop_sequences<T: Into<String>>(mut self, texts: impl IntoIterator<Item = T>) -> Self {
        self.question.stop_sequences = texts.into_iter().map(Into::into).collect();
        self
    }

    /// Part of the name of a preferred model. Call it several times for several models, the best one first.
    pub fn model_hint(mut self, name: impl Into<String>) -> Self {
        let preferences = self.question.model_preferences.get_or_insert_default();
        preferences.hints.push(Hint { name: name.into() });
        self
    }

    /// Tools that the model may ask for. Its answer then has [tool calls](Content::as_tool_use): run them, and ask again with its message and
    /// a message of the user that has a [result](Content::tool_result) for each call and nothing else.
    pub fn tools(mut self, tools: impl IntoIterator<Item = SampleTool>) -> Self {
        self.question.tools = tools.into_iter().collect();
        self
    }

    /// Whether the model uses its tools.
    pub fn tool_choice(mut self, mode: ToolChoice) -> Self {
        self.question.tool_choice = Some(Choice { mode });
        self
    }
}

impl IntoFuture for Ask<Sampling> {
    type Output = Result<CreateMessageResult, AskError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.ask_within()
    }
}

impl QuestionKind for Sampling {
    type Answer = CreateMessageResult;

    fn request(&self, _: Option<&str>) -> Result<(Value, Capability), AskError> {
        check_pairs(&self.messages).map_err(AskError::Invalid)?;
        let needs = match self.tools.is_empty() && self.tool_choice.is_none() {
            true => Capability::Sampling,
            false => Capability::SamplingTools,
        };
        Ok((json!({"method": "sampling/createMessage", "params": self}), needs))
    }

    fn read(&self, answer: &str) -> Result<CreateMessageResult, String> {
        serde_json::from_str(answer).map_err(|error| error.to_string())
    }
}

/// Each message with tool calls is followed by a message of the user with a result for each call and nothing else.
fn check_pairs(messages: &[Message]) -> Result<(), String> {
    let mut called: BTreeSet<&str> = BTreeSet::new();
    for message in messages {
        let answered: Vec<&str> = message.content.iter().filter_map(Content::answered_tool_use).collect();
        if !answered.is_empty() && (answered.len() < message.content.len() || message.role != Role::User) {
            return Err("a message with tool results must be the user's and have nothing else".to_owned());
        }
        let answered = BTreeSet::from_iter(answered);
        if let Some(missing) = called.difference(&answered).next() {
            return Err(format!("the tool call `{missing}` has no result in the next message"));
        }
        if let Some(extra) = answered.difference(&called).next() {
            return Err(format!(
                "the result for `{extra}` belongs to no tool call of the message before"
            ));
        }
        called = message
            .content
            .iter()
            .filter_map(|block| Some(block.as_tool_use()?.0))
            .collect();
    }
    match called.first() {
        Some(missing) => Err(format!("the tool call `{missing}` has no result")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> Message {
        let block = json!({"type": "tool_use", "id": id, "name": "clock", "input": {}});
        let answer = json!({"role": "assistant", "model": "m", "content": [block]});
        serde_json::from_value::<CreateMessageResult>(answer)
            .unwrap()
            .into_message()
    }

    fn result(id: &str) -> Content {
        Content::tool_result(id, vec!["12:00".into()])
    }

    #[test]
    fn each_tool_call_has_its_result() {
        let hello = || Message::user("What time is it?");
        let good = [
            vec![hello()],
            vec![hello(), call("a"), Message::user(result("a"))],
            vec![
                hello(),
                call("a"),
                Message::user(result("a")),
                Message::assistant("Noon."),
            ],
        ];
        for messages in good {
            assert_eq!(check_pairs(&messages), Ok(()));
        }
        let bad = [
            vec![hello(), call("a")],
            vec![hello(), call("a"), hello()],
            vec![hello(), call("a"), Message::user(result("b"))],
            vec![hello(), call("a"), Message::user(result("a")).with("And?")],
            vec![hello(), call("a"), Message::assistant(result("a"))],
            vec![hello(), Message::user(result("a"))],
        ];
        for messages in bad {
            assert!(check_pairs(&messages).is_err(), "{messages:?}");
        }
    }

    #[test]
    fn the_content_of_an_answer_is_one_block_or_a_list() {
        let one = r#"{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m","stopReason":"endTurn"}"#;
        let several =
            r#"{"role":"assistant","content":[{"type":"text","text":"Pa"},{"type":"text","text":"ris"}],"model":"m"}"#;
        for answer in [one, several] {
            assert_eq!(
                serde_json::from_str::<CreateMessageResult>(answer).unwrap().text(),
                "Paris"
            );
        }
    }
}

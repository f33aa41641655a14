//! Asking the client's model.

use super::{Ask, AskError, Questioning};
use crate::{Audience, Content, Message, RequestContext, message, schema};
use longhaul_core::BoxFuture;
use longhaul_runtime::Ability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{collections::BTreeSet, future::IntoFuture};

/// How long an answer may be, unless the question says otherwise.
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

/// Whether the model is to use the tools it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolChoice {
    /// As it likes.
    Auto,
    /// At least one.
    Required,
    /// None.
    None,
}

/// A tool that a model may wish for in its answer. It is for the asking handler to run, not the client's to call.
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

/// What a model said.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Sampled {
    /// Who says it: the model.
    pub role: Audience,
    /// What it says.
    #[serde(deserialize_with = "message::read_blocks")]
    pub content: Vec<Content>,
    /// Which model it was.
    pub model: String,
    /// Why it stopped there: `endTurn`, `maxTokens`, `stopSequence`, `toolUse`, or another word.
    pub stop_reason: Option<String>,
}

impl Sampled {
    /// All text it holds, put together.
    pub fn text(&self) -> String {
        self.content.iter().filter_map(Content::as_text).collect()
    }

    /// As a message, to go on from.
    pub fn into_message(self) -> Message {
        Message {
            role: self.role,
            content: self.content,
        }
    }
}

/// What a conversation may begin with: a text of the user's, or messages.
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
    /// Asks the client's model. Awaiting it gives what the model said.
    ///
    /// ```
    /// # async fn f(cx: longhaul::TaskContext) -> longhaul::ToolResult<String> {
    /// let said = cx.sample("What is the capital of France?").max_tokens(100).await?;
    /// # Ok(
    /// said.text()
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
    pub fn max_tokens(mut self, most: u32) -> Self {
        self.question.max_tokens = most;
        self
    }

    /// What the model is told before all else. The client may change it.
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.question.system_prompt = Some(text.into());
        self
    }

    /// How freely it may answer; what the figure means depends on the model.
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.question.temperature = Some(temperature);
        self
    }

    /// Texts at which it is to stop.
    pub fn stop_sequences<T: Into<String>>(mut self, texts: impl IntoIterator<Item = T>) -> Self {
        self.question.stop_sequences = texts.into_iter().map(Into::into).collect();
        self
    }

    /// A part of the name of a model that would be good for this; may be called several times, the best one first.
    pub fn model_hint(mut self, name: impl Into<String>) -> Self {
        let preferences = self.question.model_preferences.get_or_insert_default();
        preferences.hints.push(Hint { name: name.into() });
        self
    }

    /// Tools that the model may wish for. It then answers with [wishes](Content::as_tool_use): run them, and ask again with its message
    /// and one of the user's that holds a [result](Content::tool_result) for each, and nothing else.
    pub fn tools(mut self, tools: impl IntoIterator<Item = SampleTool>) -> Self {
        self.question.tools = tools.into_iter().collect();
        self
    }

    /// Whether the model is to use them.
    pub fn tool_choice(mut self, mode: ToolChoice) -> Self {
        self.question.tool_choice = Some(Choice { mode });
        self
    }
}

impl IntoFuture for Ask<Sampling> {
    type Output = Result<Sampled, AskError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.asked()
    }
}

impl Questioning for Sampling {
    type Answer = Sampled;

    fn request(&self, _: Option<&str>) -> Result<(Value, Ability), AskError> {
        check_pairs(&self.messages).map_err(AskError::Invalid)?;
        let needs = match self.tools.is_empty() && self.tool_choice.is_none() {
            true => Ability::Sampling,
            false => Ability::SamplingTools,
        };
        Ok((json!({"method": "sampling/createMessage", "params": self}), needs))
    }

    fn read(&self, answer: &str) -> Result<Sampled, String> {
        serde_json::from_str(answer).map_err(|error| error.to_string())
    }
}

/// Each message with wishes for tools is followed by one of the user's with a result for each of them and nothing else.
fn check_pairs(messages: &[Message]) -> Result<(), String> {
    let mut wished: BTreeSet<&str> = BTreeSet::new();
    for message in messages {
        let answered: Vec<&str> = message.content.iter().filter_map(Content::answered_tool_use).collect();
        if !answered.is_empty() && (answered.len() < message.content.len() || message.role != Audience::User) {
            return Err("a message with results of tools is the user's and holds nothing else".to_owned());
        }
        let answered = BTreeSet::from_iter(answered);
        if let Some(missing) = wished.difference(&answered).next() {
            return Err(format!(
                "the wish for a tool `{missing}` has no result in the next message"
            ));
        }
        if let Some(extra) = answered.difference(&wished).next() {
            return Err(format!(
                "the result for `{extra}` answers no wish of the message before"
            ));
        }
        wished = message
            .content
            .iter()
            .filter_map(|block| Some(block.as_tool_use()?.0))
            .collect();
    }
    match wished.first() {
        Some(missing) => Err(format!("the wish for a tool `{missing}` has no result")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(id: &str) -> Message {
        let block = json!({"type": "tool_use", "id": id, "name": "clock", "input": {}});
        let said = json!({"role": "assistant", "model": "m", "content": [block]});
        serde_json::from_value::<Sampled>(said).unwrap().into_message()
    }

    fn result(id: &str) -> Content {
        Content::tool_result(id, vec!["12:00".into()])
    }

    #[test]
    fn each_wish_for_a_tool_has_its_result() {
        let hello = || Message::user("What time is it?");
        let good = [
            vec![hello()],
            vec![hello(), wish("a"), Message::user(result("a"))],
            vec![
                hello(),
                wish("a"),
                Message::user(result("a")),
                Message::assistant("Noon."),
            ],
        ];
        for messages in good {
            assert_eq!(check_pairs(&messages), Ok(()));
        }
        let bad = [
            vec![hello(), wish("a")],
            vec![hello(), wish("a"), hello()],
            vec![hello(), wish("a"), Message::user(result("b"))],
            vec![hello(), wish("a"), Message::user(result("a")).with("And?")],
            vec![hello(), wish("a"), Message::assistant(result("a"))],
            vec![hello(), Message::user(result("a"))],
        ];
        for messages in bad {
            assert!(check_pairs(&messages).is_err(), "{messages:?}");
        }
    }

    #[test]
    fn what_a_model_says_is_one_block_or_several() {
        let one = r#"{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m","stopReason":"endTurn"}"#;
        let several =
            r#"{"role":"assistant","content":[{"type":"text","text":"Pa"},{"type":"text","text":"ris"}],"model":"m"}"#;
        for said in [one, several] {
            assert_eq!(serde_json::from_str::<Sampled>(said).unwrap().text(), "Paris");
        }
    }
}

//! Prompts whose texts have placeholders.

use super::shown;
use crate::config::{PromptArgument, PromptConfig};
use longhaul_core::{BoxFuture, Json, RpcFailure};
use longhaul_runtime::{Completer, HandlerError, Prompt, PromptHandler, RequestContext};
use serde_json::{Value, json};
use std::{collections::BTreeMap, future::ready, sync::Arc};

/// The prompt of a section.
pub(super) fn build(config: &PromptConfig) -> Prompt {
    let arguments: Vec<Value> = config.arguments.iter().map(argument_json).collect();
    let mut members = json!({"name": config.name});
    if !arguments.is_empty() {
        members["arguments"] = arguments.into();
    }
    let texts = [("description", config.description.as_deref()), ("title", None)];
    let required = config.arguments.iter().filter(|argument| argument.required);
    let has_choices = config.arguments.iter().any(|argument| !argument.choices.is_empty());
    let handler = Arc::new(FilePrompt(config.clone()));
    Prompt {
        name: config.name.as_str().into(),
        shown: shown(members, &config.display, texts),
        required: required.map(|argument| argument.name.as_str().into()).collect(),
        completer: has_choices.then(|| Arc::clone(&handler) as Arc<dyn Completer>),
        handler,
    }
}

fn argument_json(argument: &PromptArgument) -> Value {
    let mut shown = json!({"name": argument.name, "required": argument.required});
    for (member, text) in [("title", &argument.title), ("description", &argument.description)] {
        if let Some(text) = text {
            shown[member] = text.as_str().into();
        }
    }
    shown
}

struct FilePrompt(PromptConfig);

impl FilePrompt {
    /// What is wrong with the arguments of a request.
    fn mistake(&self, given: &BTreeMap<String, String>) -> Option<String> {
        let Self(PromptConfig { name, arguments, .. }) = self;
        let listed = |names: Vec<&str>| names.join(", ");
        let missing = |one: &&PromptArgument| one.required && !given.contains_key(&one.name);
        let missing: Vec<&str> = arguments.iter().filter(missing).map(|one| &*one.name).collect();
        if !missing.is_empty() {
            return Some(format!("The prompt {name} needs the argument {}", listed(missing)));
        }
        let known = || arguments.iter().map(|argument| &*argument.name);
        let unknown = |one: &&str| !known().any(|known| known == *one);
        let unknown: Vec<&str> = given.keys().map(String::as_str).filter(unknown).collect();
        if !unknown.is_empty() {
            let takes = match arguments.is_empty() {
                true => "none".to_owned(),
                false => listed(known().collect()),
            };
            return Some(format!(
                "The prompt {name} has no argument {}; it takes {takes}",
                listed(unknown)
            ));
        }
        arguments.iter().find_map(|argument| {
            let value = given.get(&argument.name)?;
            let is_choice = argument.choices.is_empty() || argument.choices.contains(value);
            (!is_choice).then(|| {
                format!(
                    "The argument {} of the prompt {name} must be one of: {}",
                    argument.name,
                    argument.choices.join(", ")
                )
            })
        })
    }
}

impl PromptHandler for FilePrompt {
    fn get(
        self: Arc<Self>,
        arguments: BTreeMap<String, String>,
        _: RequestContext,
    ) -> BoxFuture<'static, Result<Json, HandlerError>> {
        if let Some(message) = self.mistake(&arguments) {
            return Box::pin(ready(Err(HandlerError::Rpc(RpcFailure {
                code: -32602,
                message: message.into(),
                data: None,
            }))));
        }
        let messages = self.0.messages.iter().map(|(role, text)| {
            let text = text.fill(|name| arguments.get(name).map(String::as_str));
            json!({"role": role, "content": {"type": "text", "text": text}})
        });
        let mut result = json!({"messages": messages.collect::<Vec<_>>()});
        if let Some(description) = &self.0.description {
            result["description"] = description.as_str().into();
        }
        Box::pin(ready(Ok(Json::from(result))))
    }
}

impl Completer for FilePrompt {
    fn complete(
        self: Arc<Self>,
        argument: String,
        value: String,
        _: Json,
        _: RequestContext,
    ) -> BoxFuture<'static, Result<Vec<String>, HandlerError>> {
        let typed = value.to_lowercase();
        let known = self.0.arguments.iter().find(|known| known.name == argument);
        let choices = known.into_iter().flat_map(|known| &known.choices);
        let fitting = choices.filter(|choice| choice.to_lowercase().starts_with(&typed));
        Box::pin(ready(Ok(fitting.cloned().collect())))
    }
}

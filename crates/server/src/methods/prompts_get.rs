//! `prompts/get`: a prompt with its arguments.

use super::Methods;
use crate::{
    admission::request::AdmittedRequest,
    handler,
    interaction::rounds::{Round, RoundRequest},
    response::Answer,
};
use longhaul_core::Json;
use longhaul_runtime::Prompt;
use longhaul_wire::{Method, RpcError, params::GetPrompt};
use serde_json::value::RawValue;
use std::{collections::BTreeMap, sync::Arc};

pub(crate) fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let params = request.params.get_prompt()?;
    let unknown = || RpcError::invalid_params(format!("Unknown prompt: {}", params.name));
    let snapshot = methods.engine.catalog().snapshot();
    let prompt = snapshot.prompts.get(&*params.name).cloned().ok_or_else(unknown)?;
    let arguments = arguments(&prompt, params.arguments)?;
    let round = Round::of(&methods.interaction, request, round_request(&params))?;
    let handler = Box::new(move |cx| Arc::clone(&prompt.handler).get(arguments, cx));
    handler::answer_with(
        &methods.interaction,
        request,
        round,
        handler,
        handler::not_found(unknown()),
        handler::result_writer(&methods.server_info, request.caller.generation),
    )
}

/// What a series of rounds needs of it.
pub(crate) fn round_request<'a>(params: &'a GetPrompt<'_>) -> RoundRequest<'a> {
    RoundRequest {
        method: Method::PromptsGet,
        target: &params.name,
        arguments: params.arguments.map(Json::from),
        answers: &params.input_responses,
        state: params.request_state.as_deref(),
    }
}

fn arguments(prompt: &Prompt, given: Option<&RawValue>) -> Result<BTreeMap<String, String>, RpcError> {
    let given: BTreeMap<String, String> = match given {
        None => BTreeMap::new(),
        Some(raw) => serde_json::from_str(raw.get())
            .map_err(|_| RpcError::invalid_params("params.arguments must be an object of strings"))?,
    };
    let missing: Vec<&str> = (prompt.required.iter().map(|name| &**name))
        .filter(|name| !given.contains_key(*name))
        .collect();
    if missing.is_empty() {
        return Ok(given);
    }
    Err(RpcError::invalid_params(format!(
        "The prompt {} needs the argument {}",
        prompt.name,
        missing.join(", ")
    )))
}

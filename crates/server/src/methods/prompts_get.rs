//! `prompts/get`: a prompt, filled in.

use crate::{
    dispatch::Call,
    handler,
    interaction::rounds::{Asked, Round},
    response::Answer,
    transport::front::Front,
};
use longhaul_core::Json;
use longhaul_runtime::Prompt;
use longhaul_wire::{Generation, Method, RpcError, legacy, modern};
use serde_json::value::RawValue;
use std::{collections::BTreeMap, sync::Arc};

pub(super) fn answer(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let wish = call.params.get_prompt()?;
    let unknown = || RpcError::invalid_params(format!("Unknown prompt: {}", wish.name));
    let snapshot = front.engine.catalog().snapshot();
    let prompt = snapshot.prompts.get(&*wish.name).cloned().ok_or_else(unknown)?;
    let arguments = arguments(&prompt, wish.arguments)?;
    let asked = Asked {
        method: Method::PromptsGet,
        target: &wish.name,
        arguments: wish.arguments.map(Json::from),
        answers: &wish.input_responses,
        state: wish.request_state.as_deref(),
    };
    let round = Round::of(front, call, asked)?;
    let handler = Box::new(move |cx| Arc::clone(&prompt.handler).get(arguments, cx));
    let (writer, generation) = (Arc::clone(front), call.caller.generation);
    handler::answer(
        front,
        call,
        round,
        handler,
        unknown(),
        Box::new(move |out, id, result| match generation {
            Generation::Legacy => legacy::result::write(out, id, result),
            Generation::Modern => modern::result::write(out, id, result, None, &writer.identity),
        }),
    )
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

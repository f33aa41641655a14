//! `inputResponses`: the answers to input requests, in a retried request or in `tasks/update`.

use super::wrong;
use crate::{
    json::{self, for_each_member},
    protocol::RpcError,
};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Answers by key. Each is an object that has not been validated further.
pub type InputResponses<'a> = Vec<(Cow<'a, str>, &'a RawValue)>;

/// The largest number of answers in one request.
pub const MAX_INPUT_RESPONSES: usize = 1_000;

/// Reads `inputResponses`.
pub(super) fn read(raw: &RawValue) -> Result<InputResponses<'_>, RpcError> {
    let mut answers = InputResponses::new();
    let mut too_many = false;
    for_each_member(raw.get(), |key, answer| {
        too_many = answers.len() == MAX_INPUT_RESPONSES;
        if !too_many {
            answers.push((Cow::Owned(key.to_owned()), answer));
        }
    })
    .map_err(|_| wrong("inputResponses", "an object"))?;
    if too_many {
        return Err(RpcError::invalid_params(format!(
            "params.inputResponses holds more than {MAX_INPUT_RESPONSES} answers"
        )));
    }
    let mut keys: Vec<&str> = answers.iter().map(|(key, _)| key.as_ref()).collect();
    keys.sort_unstable();
    if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
        let key = pair[0];
        return Err(RpcError::invalid_params(format!(
            "params.inputResponses answers {key} twice"
        )));
    }
    match answers.iter().find(|(_, answer)| !json::is_object(answer)) {
        Some((key, _)) => Err(wrong(&format!("inputResponses.{key}"), "an object")),
        None => Ok(answers),
    }
}

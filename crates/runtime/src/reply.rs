//! Responses of legacy clients to input requests, and how they are stored as answers.

use crate::question::AskError;
use longhaul_core::{Json, RpcFailure};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use std::borrow::Cow;

/// How the stored answer of a refusal begins. A client that sends the same as its answer refuses, too.
const REFUSED: &str = r#"{"dev.longhaul/refused":"#;

/// A client's response to a question that was sent to it as a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// Its result, as it came.
    Result(Json),
    /// An error: the client refuses to answer.
    Error(RpcFailure),
}

impl Reply {
    /// The answer to store for `request`, `{"method":…,"params":…}`.
    ///
    /// An error for an elicitation is stored as `cancel`. Other requests have no such answer, so the tool gets [`AskError::Refused`].
    pub fn into_answer(self, request: &Json) -> Json {
        match self {
            Self::Result(answer) => answer,
            Self::Error(_) if is_elicitation(request) => Json::trusted(r#"{"action":"cancel"}"#),
            Self::Error(failure) => {
                let said = json!({"code": failure.code, "message": &*failure.message});
                Json::trusted(format!("{REFUSED}{said}}}"))
            }
        }
    }
}

fn is_elicitation(request: &Json) -> bool {
    #[derive(Deserialize)]
    struct Request<'a> {
        #[serde(borrow)]
        method: Cow<'a, str>,
    }
    serde_json::from_str(request.as_str()).is_ok_and(|Request { method }| method == "elicitation/create")
}

/// Reads a stored answer.
///
/// # Errors
/// [`AskError::Refused`] if the client refused to give one.
pub fn read_answer(answer: Json) -> Result<Json, AskError> {
    #[derive(Deserialize)]
    struct StoredRefusal<'a> {
        #[serde(borrow, rename = "dev.longhaul/refused")]
        refused: &'a RawValue,
    }
    #[derive(Deserialize)]
    struct Refused<'a> {
        code: i32,
        #[serde(borrow)]
        message: Cow<'a, str>,
    }
    if !answer.as_str().starts_with(REFUSED) {
        return Ok(answer);
    }
    let said = serde_json::from_str::<StoredRefusal<'_>>(answer.as_str())
        .and_then(|kept| serde_json::from_str::<Refused<'_>>(kept.refused.get()));
    Err(AskError::Refused(RpcFailure {
        code: said.as_ref().map_or(-32603, |said| said.code),
        message: said.map_or("no reason given".into(), |said| said.message.into()),
        data: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(method: &str) -> Json {
        let request = Json::from(json!({"method": method, "params": {}}));
        let failure = RpcFailure {
            code: -1,
            message: "the user said \"no\"".into(),
            data: None,
        };
        Reply::Error(failure).into_answer(&request)
    }

    #[test]
    fn a_refused_elicitation_is_stored_as_cancel_and_other_refusals_as_errors() {
        let form = refused("elicitation/create");
        assert_eq!(form.as_str(), r#"{"action":"cancel"}"#);
        assert_eq!(read_answer(form.clone()), Ok(form));
        for method in ["sampling/createMessage", "roots/list"] {
            let Err(AskError::Refused(failure)) = read_answer(refused(method)) else {
                panic!("an answer to {method}")
            };
            assert_eq!((failure.code, &*failure.message), (-1, "the user said \"no\""));
        }
    }

    #[test]
    fn a_garbled_refusal_is_one_too_and_answers_are_not() {
        for garbled in ["1}", r#"{"code":"x"}}"#, "null}"] {
            let kept = Json::trusted(format!("{REFUSED}{garbled}"));
            assert!(matches!(read_answer(kept), Err(AskError::Refused(_))), "{garbled}");
        }
        let answer = Json::trusted(r#"{"roots":[]}"#);
        assert_eq!(read_answer(answer.clone()), Ok(answer));
    }
}

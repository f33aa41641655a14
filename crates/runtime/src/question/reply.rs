//! Responses of legacy clients to input requests, and how they are stored as answers.

use super::AskError;
use longhaul_core::{Json, RpcFailure};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::borrow::Cow;

/// How the stored answer of a refusal begins. A client that sends the same as its answer refuses, too.
const REFUSED: &str = r#"{"dev.longhaul/refused":"#;

/// A client's response to a question that was sent to it as a request.
#[derive(Debug, Clone, PartialEq)]
pub enum QuestionReply {
    /// Its result, as it came.
    Result(Json),
    /// An error: the client refuses to answer.
    Error(RpcFailure),
}

impl QuestionReply {
    /// The answer to store. What a tool reads of an error is [`AskError::Refused`]: a client that cannot show a form has not dismissed it.
    pub fn into_answer(self) -> Json {
        match self {
            Self::Result(answer) => answer,
            Self::Error(failure) => {
                let (code, message) = (failure.code, Value::from(&*failure.message));
                let data = failure
                    .data
                    .map_or_else(String::new, |data| format!(r#","data":{}"#, data.as_str()));
                Json::trusted(format!(r#"{REFUSED}{{"code":{code},"message":{message}{data}}}}}"#))
            }
        }
    }
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
    struct RpcRefusal<'a> {
        code: i32,
        #[serde(borrow)]
        message: Cow<'a, str>,
        /// Earlier releases have stored none.
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    if !answer.as_str().starts_with(REFUSED) {
        return Ok(answer);
    }
    let said = serde_json::from_str::<StoredRefusal<'_>>(answer.as_str())
        .and_then(|kept| serde_json::from_str::<RpcRefusal<'_>>(kept.refused.get()));
    Err(AskError::Refused(RpcFailure {
        code: said.as_ref().map_or(-32603, |said| said.code),
        data: said.as_ref().ok().and_then(|said| said.data).map(Json::from),
        message: said.map_or("no reason given".into(), |said| said.message.into()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_as_the_error_that_it_was() {
        let failure = RpcFailure {
            code: -1,
            message: "the user said \"no\"".into(),
            data: Some(Json::trusted(r#"{"n":1.0}"#)),
        };
        let stored = QuestionReply::Error(failure.clone()).into_answer();
        assert_eq!(read_answer(stored), Err(AskError::Refused(failure)));
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

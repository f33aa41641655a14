//! What a result must have to be usable. A result of another shape would be taken for an empty one.

use crate::{Completion, RequestError, connect::response::result_type::INPUT_REQUIRED};
use longhaul_core::Json;
use longhaul_wire::{Generation, Method};
use serde::{Deserialize, de::IgnoredAny};
use std::collections::HashMap;

type Object = HashMap<String, IgnoredAny>;

#[derive(Deserialize)]
struct Prompt {
    #[serde(rename = "messages")]
    _messages: Vec<Object>,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(rename = "contents")]
    _contents: Vec<Object>,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "resultType")]
    result_type: Option<String>,
}

/// Checks the results of `prompts/get`, `resources/read` and `completion/complete`, unless the server asks before it answers. Whoever reads lists, tasks and
/// results of calls checks those: a result of a call may lack its `content`, which other clients take for an empty one.
///
/// # Errors
/// [`RequestError::Invalid`]
pub(crate) fn check(method: &str, result: &Json) -> Result<(), RequestError> {
    let text = result.as_str();
    let read = match Method::parse(method, Generation::Modern) {
        Some(Method::CompletionComplete) => return Completion::read(text).map(drop),
        Some(Method::PromptsGet) => serde_json::from_str::<Prompt>(text).map(drop),
        Some(Method::ResourcesRead) => serde_json::from_str::<Resource>(text).map(drop),
        _ => return Ok(()),
    };
    let Err(error) = read else { return Ok(()) };
    match serde_json::from_str(text) {
        Ok(Kind {
            result_type: Some(kind),
        }) if kind == INPUT_REQUIRED => Ok(()),
        _ => Err(RequestError::Invalid(format!(
            "its result of {method} cannot be read: {error}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_without_what_was_asked_for_is_invalid() {
        let check = |method, result: &str| check(method, &Json::parse(result).unwrap());
        for (method, member) in [("prompts/get", "messages"), ("resources/read", "contents")] {
            for value in ["[]", r#"[{"a":[1,{"b":2}],"c":"\u00e4"}]"#] {
                check(method, &format!(r#"{{"_meta":{{}},"{member}":{value}}}"#)).unwrap();
            }
            check(method, r#"{"resultType":"input_required","inputRequests":{}}"#).unwrap();
            let wrong =
                ["null", "5", r#""x""#, "{}", "[1]", "[null]"].map(|value| format!(r#"{{"{member}":{value}}}"#));
            for result in wrong
                .iter()
                .map(String::as_str)
                .chain(["{}", r#"{"resultType":"complete"}"#])
            {
                let error = check(method, result).unwrap_err().to_string();
                assert!(error.contains(method), "{error}");
            }
        }
        check("completion/complete", r#"{"completion":{"values":["a"]}}"#).unwrap();
        assert!(check("completion/complete", r#"{"completion":{"values":"a"}}"#).is_err());
        check("tools/call", "{}").unwrap();
        check("com.example/other", "{}").unwrap();
    }
}

//! The kinds of results of a modern server (MCP 2026-07-28, "ResultType").

use crate::{RequestError, error::excerpt};
use longhaul_core::Json;
use longhaul_wire::{Generation, Method};
use serde::Deserialize;
use serde_json::Value;

const COMPLETE: &str = "complete";
/// The server asks before it answers.
pub(crate) const INPUT_REQUIRED: &str = "input_required";
/// The answer is a task.
pub(crate) const TASK: &str = "task";

#[derive(Deserialize)]
struct Discriminator {
    #[serde(rename = "resultType")]
    result_type: Option<Value>,
}

/// Checks that a result is an object of a kind that the method may be answered with. A result that does not say is complete.
///
/// # Errors
/// [`RequestError::Invalid`]
pub(crate) fn check(method: &str, result: &Json) -> Result<(), RequestError> {
    let invalid = |what: String| Err(RequestError::Invalid(format!("its result of {method} {what}")));
    if !result.as_str().trim_start().starts_with('{') {
        return invalid(format!("is no object: {}", excerpt(result.as_str())));
    }
    let given = match serde_json::from_str(result.as_str()) {
        Ok(Discriminator { result_type: None }) => return Ok(()),
        Ok(Discriminator {
            result_type: Some(given),
        }) => given,
        Err(error) => return invalid(format!("cannot be read: {error}")),
    };
    let allowed: &[&str] = match Method::parse(method, Generation::Modern) {
        Some(Method::ToolsCall) => &[COMPLETE, INPUT_REQUIRED, TASK],
        Some(Method::PromptsGet | Method::ResourcesRead) => &[COMPLETE, INPUT_REQUIRED],
        Some(_) => &[COMPLETE],
        // Another extension may have kinds of its own.
        None if given.is_string() && given != TASK => return Ok(()),
        None => &[COMPLETE],
    };
    if allowed.iter().any(|allowed| given == *allowed) {
        return Ok(());
    }
    let allowed: Vec<String> = allowed.iter().map(|allowed| format!("{allowed:?}")).collect();
    invalid(format!(
        "has the resultType {}, and it must be {}",
        excerpt(&given.to_string()),
        allowed.join(" or ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(method: &str, result: &str) -> Result<(), String> {
        check(method, &Json::parse(result).unwrap()).map_err(|error| error.to_string())
    }

    /// Every method of the modern protocol, with every kind.
    #[test]
    fn each_method_takes_the_kinds_that_the_protocol_allows_it() {
        let methods = Method::ALL
            .iter()
            .filter(|method| method.exists_in(Generation::Modern))
            .map(|method| method.as_str());
        for method in methods.chain(["com.example/other"]) {
            let may_ask = ["tools/call", "prompts/get", "resources/read"].contains(&method);
            let is_other = method == "com.example/other";
            for (kind, is_allowed) in [
                (r#""complete""#, true),
                (r#""input_required""#, may_ask || is_other),
                (r#""task""#, method == "tools/call"),
                (r#""surprise""#, is_other),
                ("5", false),
                ("{}", false),
            ] {
                let checked = check_text(method, &format!(r#"{{"a":1,"resultType":{kind}}}"#));
                assert_eq!(checked.is_ok(), is_allowed, "{method} {kind}: {checked:?}");
                if let Err(error) = checked {
                    assert!(
                        error.contains(kind) && error.contains(method) && error.contains(r#"must be "complete""#),
                        "{error}"
                    );
                }
            }
            assert_eq!(check_text(method, "{}"), Ok(()));
            for nonsense in ["[]", "null", "7", r#""complete""#] {
                assert!(check_text(method, nonsense).is_err(), "{method} {nonsense}");
            }
        }
    }
}

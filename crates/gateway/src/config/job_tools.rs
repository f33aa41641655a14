//! Which tools of an upstream belong together, and how their results are read.

use crate::raw_json;
use longhaul_core::{Json, Millis, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

/// Tools of an upstream that submit a job, tell its state and cancel it, offered as one tool. Places in results are JSON pointers (RFC 6901) into the structured
/// content of a result, else into its first text if that is JSON; the empty pointer is all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobTools {
    /// The name of the one tool.
    pub name: String,
    /// What it is told to the model as, if not as the tool that submits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The tool that submits a job. It has the arguments.
    pub submit: String,
    /// The tool that tells the state of a job.
    pub status: String,
    /// The tool that cancels a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<String>,
    /// The tool that has the result of a job that is done; without one it is in the last status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Where the id is in what `submit` returns.
    pub id: String,
    /// The argument that the other tools take it in.
    pub id_argument: String,
    /// Where the state is in what `status` returns.
    pub state: String,
    /// Where a line for people is in what `status` returns; by default `message` beside the state. It need not be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_at: Option<String>,
    /// The states of a job that is done. Upper and lower case of ASCII are the same here and in `failed`.
    pub done: Vec<String>,
    /// The states of a job that has failed.
    pub failed: Vec<String>,
    /// Where the result is in what `result` returns, or in the last status; by default all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_at: Option<String>,
    /// Where the reason is in the status of a job that has failed; by default all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_at: Option<String>,
    /// The pause between two questions for the state, in milliseconds.
    pub poll: Millis,
}

impl JobTools {
    /// The names of the tools that are no longer offered by themselves.
    pub fn bound(&self) -> impl Iterator<Item = &str> {
        let others = [self.cancel.as_deref(), self.result.as_deref()];
        [self.submit.as_str(), self.status.as_str()]
            .into_iter()
            .chain(others.into_iter().flatten())
    }

    /// The status message of the task of a job in this state.
    pub(crate) fn status_message(&self, status: &Json, state: &str) -> String {
        let beside = || match self.state.rsplit_once('/') {
            Some((parent, _)) => format!("{parent}/message"),
            None => "/message".to_owned(),
        };
        let at = self.message_at.clone().unwrap_or_else(beside);
        let message = text_at(status, &at).filter(|message| !message.is_empty() && at != self.state);
        match message {
            Some(message) => format!("{state}: {message}"),
            None => state.to_owned(),
        }
    }
}

/// Whether a state is one of these.
pub(crate) fn names(states: &[String], state: &str) -> bool {
    states.iter().any(|named| named.eq_ignore_ascii_case(state))
}

/// What a result says, for programs.
pub(crate) fn document(result: &Json) -> Json {
    let members = raw_json::members(result.as_str()).unwrap_or_default();
    if let Some(structured) = members
        .get("structuredContent")
        .filter(|value| value.get().starts_with('{'))
    {
        return Json::from(*structured);
    }
    let contents = members.get("content").map_or("[]", |contents| contents.get());
    let contents: Vec<&RawValue> = serde_json::from_str(contents).unwrap_or_default();
    let text = contents
        .iter()
        .find_map(|content| raw_json::at(content.get(), "/text").and_then(raw_json::text))
        .unwrap_or_default();
    Json::parse(&text).unwrap_or_else(|_| Value::from(text).into())
}

/// A text, a number or a boolean.
pub(crate) fn text_at(document: &Json, pointer: &str) -> Option<String> {
    raw_json::scalar(raw_json::at(document.as_str(), pointer)?)
}

/// For people: a text, or JSON.
pub(crate) fn shown(value: &str) -> String {
    raw_json::text(value).unwrap_or_else(|| value.to_owned())
}

/// The result of the one tool, which is in the result of a bound one.
pub(crate) fn picked(result: &Json, at: Option<&str>) -> Outcome {
    let document = document(result);
    let Some(value) = at.and_then(|at| raw_json::at(document.as_str(), at)) else {
        return Outcome::result(result.clone());
    };
    let content = json!([{"type": "text", "text": shown(value)}]).to_string();
    let structured = value.starts_with('{').then_some(("structuredContent", value));
    Outcome::result(raw_json::object(
        [("content", content.as_str())].into_iter().chain(structured),
    ))
}

/// The result of a job that has failed.
pub(crate) fn failure(status: &Json, state: &str, at: Option<&str>) -> Outcome {
    let document = document(status);
    let reason = at.and_then(|at| text_at(&document, at));
    let text = reason.unwrap_or_else(|| shown(document.as_str()));
    Outcome::tool_error(&format!("The job has ended as {state:?}: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(value: &Value) -> Json {
        Json::from(value)
    }

    fn text(outcome: &Outcome) -> (String, bool) {
        let Outcome::Result { json, is_error } = outcome else {
            panic!("{outcome:?}")
        };
        let value: Value = serde_json::from_str(json.as_str()).unwrap();
        (value["content"][0]["text"].as_str().unwrap().to_owned(), *is_error)
    }

    #[test]
    fn results_are_read_as_structured_content_then_as_json_then_as_text() {
        let structured = json!({"content": [{"type": "text", "text": "{\"id\":1}"}], "structuredContent": {"id": 2}});
        assert_eq!(document(&result(&structured)), Json::from(json!({"id": 2})));
        let json = json!({"content": [{"type": "image"}, {"type": "text", "text": "{\"id\":1}"}]});
        assert_eq!(document(&result(&json)), Json::from(json!({"id": 1})));
        let plain = json!({"content": [{"type": "text", "text": "job-7"}]});
        assert_eq!(document(&result(&plain)), Json::from(json!("job-7")));
        assert_eq!(text_at(&document(&result(&plain)), ""), Some("job-7".to_owned()));
        assert_eq!(
            text_at(&json!({"a": [{"done": true}]}).into(), "/a/0/done"),
            Some("true".to_owned())
        );
        assert_eq!(text_at(&json!({"a": {}}).into(), "/a"), None);
    }

    /// An id of a job may be a number that no Rust type holds, as `uuid4().int` of Python is one.
    #[test]
    fn numbers_of_results_are_passed_on_as_they_are_written() {
        let big = r#"{"content":[],"structuredContent":{"id":12345678901234567890123,"r":{"b":1.10,"n":1E400}}}"#;
        let big = Json::trusted(big);
        let expected = Some("12345678901234567890123");
        assert_eq!(text_at(&document(&big), "/id").as_deref(), expected);
        let Outcome::Result { json, .. } = picked(&big, Some("/r")) else {
            panic!()
        };
        assert!(
            json.as_str().ends_with(r#""structuredContent":{"b":1.10,"n":1E400}}"#),
            "{}",
            json.as_str()
        );
        let text = Json::trusted(r#"{"content":[{"type":"text","text":"{\"id\":12345678901234567890123}"}]}"#);
        let expected = Some("12345678901234567890123");
        assert_eq!(text_at(&document(&text), "/id").as_deref(), expected);
    }

    #[test]
    fn results_and_reasons_are_where_they_are_said_to_be() {
        let status =
            result(&json!({"content": [], "structuredContent": {"state": "ok", "out": {"n": 1}, "why": "no disk"}}));
        assert_eq!(text(&picked(&status, Some("/out"))), (r#"{"n":1}"#.to_owned(), false));
        let whole = picked(&status, None);
        assert!(matches!(&whole, Outcome::Result { json, .. } if *json == status));
        assert_eq!(
            text(&failure(&status, "bad", Some("/why"))),
            ("The job has ended as \"bad\": no disk".to_owned(), true)
        );
    }
}

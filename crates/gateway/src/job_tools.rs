//! Which tools of an upstream belong together, and how their results are read.

use longhaul_core::{Json, Millis, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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
    /// The states of a job that is done.
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
    pub(crate) fn status_message(&self, status: &Value, state: &str) -> String {
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

/// What a result says, for programs.
pub(crate) fn document(result: &Json) -> Value {
    let mut result: Value = serde_json::from_str(result.as_str()).unwrap_or_default();
    if result["structuredContent"].is_object() {
        return result["structuredContent"].take();
    }
    let contents = result["content"].as_array().into_iter().flatten();
    let text = contents
        .filter_map(|content| content["text"].as_str())
        .next()
        .unwrap_or_default();
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// A text, a number or a boolean.
pub(crate) fn text_at(document: &Value, pointer: &str) -> Option<String> {
    match document.pointer(pointer)? {
        Value::String(text) => Some(text.clone()),
        value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_string()),
        _ => None,
    }
}

/// The result of the one tool, which is in the result of a bound one.
pub(crate) fn picked(result: &Json, at: Option<&str>) -> Outcome {
    let Some(at) = at else {
        return Outcome::result(result.clone());
    };
    let document = document(result);
    let Some(value) = document.pointer(at) else {
        return Outcome::result(result.clone());
    };
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut picked = json!({"content": [{"type": "text", "text": text}]});
    if value.is_object() {
        picked["structuredContent"] = value.clone();
    }
    Outcome::result(Json::from(&picked))
}

/// The result of a job that has failed.
pub(crate) fn failure(status: &Json, state: &str, at: Option<&str>) -> Outcome {
    let document = document(status);
    let text = match at.and_then(|at| text_at(&document, at)) {
        Some(reason) => reason,
        None => match document {
            Value::String(text) => text,
            document => document.to_string(),
        },
    };
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
        assert_eq!(document(&result(&structured)), json!({"id": 2}));
        let json = json!({"content": [{"type": "image"}, {"type": "text", "text": "{\"id\":1}"}]});
        assert_eq!(document(&result(&json)), json!({"id": 1}));
        let plain = json!({"content": [{"type": "text", "text": "job-7"}]});
        assert_eq!(document(&result(&plain)), json!("job-7"));
        assert_eq!(text_at(&document(&result(&plain)), ""), Some("job-7".to_owned()));
        assert_eq!(
            text_at(&json!({"a": [{"done": true}]}), "/a/0/done"),
            Some("true".to_owned())
        );
        assert_eq!(text_at(&json!({"a": {}}), "/a"), None);
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

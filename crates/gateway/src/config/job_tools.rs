//! Which tools of an upstream belong together, and how their results are read.

use crate::{
    raw_json,
    remote_job::states::{JobStates, result_of},
};
use longhaul_core::{Json, Millis, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

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
    /// Where the state and what belongs to it are in what `status` returns, and the result in what `result` returns.
    #[serde(flatten)]
    pub states: JobStates,
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

/// The result of the one tool, which is in the result of a bound one.
pub(crate) fn picked(result: &Json, at: Option<&str>) -> Outcome {
    let document = document(result);
    let Some(value) = at.and_then(|at| raw_json::at(document.as_str(), at)) else {
        return Outcome::result(result.clone());
    };
    result_of(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote_job::states::text_at;
    use serde_json::json;

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
    fn results_are_where_they_are_said_to_be() {
        let status = result(&json!({"content": [], "structuredContent": {"state": "ok", "out": {"n": 1}}}));
        assert_eq!(text(&picked(&status, Some("/out"))), (r#"{"n":1}"#.to_owned(), false));
        let whole = picked(&status, None);
        assert!(matches!(&whole, Outcome::Result { json, .. } if *json == status));
    }
}

//! The entry of a child in its parent's journal: first its id, later its outcome too.

use crate::{Failure, InvalidJson, Json, MAX_ENTRY_BYTES, Outcome, RpcFailure, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The value of an [`EntryKind::Child`](crate::EntryKind::Child) entry.
///
/// ```
/// use longhaul_core::{ChildEntry, Outcome};
/// let ended = ChildEntry { task: "t1".parse().unwrap(), outcome: Some(Outcome::Cancelled) };
/// assert_eq!(ended.to_json().as_str(), r#"{"task":"t1","ended":"cancelled"}"#);
/// assert_eq!(ChildEntry::from_json(&ended.to_json()).unwrap(), ended);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildEntry {
    /// The child.
    pub task: TaskId,
    /// Its outcome, once it has ended.
    pub outcome: Option<Outcome>,
}

#[derive(Serialize, Deserialize)]
struct Layout<'a> {
    #[serde(borrow)]
    task: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    ended: Option<OutcomeLayout<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutcomeLayout<'a> {
    #[serde(borrow)]
    Result(&'a RawValue),
    #[serde(borrow)]
    Error(ErrorLayout<'a>),
    Cancelled,
}

#[derive(Serialize, Deserialize)]
struct ErrorLayout<'a> {
    code: i32,
    #[serde(borrow)]
    message: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
}

impl ChildEntry {
    /// The value of the entry of a child that has ended. If it were longer than [`MAX_ENTRY_BYTES`], the outcome is an error that says so; the
    /// child's own task has the real one.
    pub fn of_ended(task: &TaskId, outcome: &Outcome) -> Json {
        let entry = |outcome| {
            let task = task.clone();
            Self { task, outcome }.to_json()
        };
        let whole = entry(Some(outcome.clone()));
        match whole.as_str().len() {
            ..=MAX_ENTRY_BYTES => whole,
            bytes => entry(Some(Failure::TooLongForParent { bytes }.into())),
        }
    }

    /// Serializes it as it is stored.
    pub fn to_json(&self) -> Json {
        let raw = |json: &'_ Json| {
            serde_json::from_str::<&RawValue>(json.as_str())
                .ok()
                .map(ToOwned::to_owned)
        };
        let (result, data) = match &self.outcome {
            Some(Outcome::Result { json, .. }) => (raw(json), None),
            Some(Outcome::RpcError(failure)) => (None, failure.data.as_ref().and_then(raw)),
            _ => (None, None),
        };
        let ended = self.outcome.as_ref().map(|outcome| match outcome {
            Outcome::Result { .. } => OutcomeLayout::Result(result.as_deref().unwrap_or(RawValue::NULL)),
            Outcome::RpcError(failure) => OutcomeLayout::Error(ErrorLayout {
                code: failure.code,
                message: Cow::Borrowed(&failure.message),
                data: data.as_deref(),
            }),
            Outcome::Cancelled => OutcomeLayout::Cancelled,
        });
        let layout = Layout {
            task: Cow::Borrowed(self.task.as_str()),
            ended,
        };
        // Strings and JSON can always be serialized.
        Json::trusted(serde_json::to_string(&layout).unwrap_or_default())
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`InvalidJson`] for what [`to_json`](Self::to_json) did not write.
    pub fn from_json(json: &Json) -> Result<Self, InvalidJson> {
        let layout: Layout<'_> = serde_json::from_str(json.as_str()).map_err(|error| InvalidJson(error.to_string()))?;
        let task = layout.task.parse().map_err(|error| InvalidJson(format!("{error}")))?;
        let outcome = layout.ended.map(|ended| match ended {
            OutcomeLayout::Result(result) => Outcome::result(result.into()),
            OutcomeLayout::Error(error) => Outcome::RpcError(RpcFailure {
                code: error.code,
                message: error.message.into(),
                data: error.data.map(Json::from),
            }),
            OutcomeLayout::Cancelled => Outcome::Cancelled,
        });
        Ok(Self { task, outcome })
    }
}

//! The values that a server suggests for an argument.

use crate::RequestError;
use serde::Deserialize;
use serde_json::Number;

/// What a server suggests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Completion {
    /// The values that may follow what was typed: at most 100.
    pub values: Vec<String>,
    /// How many there are in all, if the server says so.
    pub total: Option<u64>,
    /// Whether there are more than these. The server may say so without a total.
    pub has_more: bool,
}

/// The result of `completion/complete`.
#[derive(Deserialize)]
struct CompleteResult {
    completion: CompletionValues,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CompletionValues {
    values: Vec<String>,
    total: Option<Number>,
    has_more: Option<bool>,
}

impl Completion {
    pub(crate) fn read(result: &str) -> Result<Self, RequestError> {
        let CompleteResult { completion } = serde_json::from_str(result)
            .map_err(|error| RequestError::Invalid(format!("its completion cannot be read: {error}")))?;
        Ok(Self {
            values: completion.values,
            total: completion.total.as_ref().and_then(Number::as_u64),
            has_more: completion.has_more.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_completion_that_is_none_is_an_error() {
        let read = |completion: Value| Completion::read(&json!({"completion": completion}).to_string());
        let all = read(json!({"values": ["a"], "total": 3, "hasMore": true, "other": 1})).unwrap();
        assert_eq!(
            (all.values, all.total, all.has_more),
            (vec!["a".to_owned()], Some(3), true)
        );
        let least = read(json!({"values": []})).unwrap();
        assert_eq!(least, Completion::default());
        for nonsense in [
            json!(null),
            json!("a"),
            json!([]),
            json!({}),
            json!({"values": "a"}),
            json!({"values": [1]}),
            json!({"values": [], "hasMore": "yes"}),
            json!({"values": [], "total": "3"}),
        ] {
            assert!(read(nonsense.clone()).is_err(), "{nonsense}");
        }
        assert!(Completion::read("{}").is_err());
    }
}

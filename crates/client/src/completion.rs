//! The values that a server suggests for an argument.

use crate::{Connection, RequestError};
use longhaul_wire::Method;
use serde_json::{Map, Value, json};

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

impl Connection {
    /// Completes an argument of a prompt, or a variable of a resource template: `reference` is `{"type": "ref/prompt", "name": …}` or
    /// `{"type": "ref/resource", "uri": …}`. `known` are the other arguments that have values already, by which a server can suggest less.
    ///
    /// ```no_run
    /// # async fn example(connection: longhaul_client::Connection) -> Result<(), longhaul_client::RequestError> {
    /// use serde_json::json;
    /// let prompt = json!({"type": "ref/prompt", "name": "review"});
    /// let completion = connection.complete(prompt, "framework", "fl", &[("language", "python")]).await?;
    /// println!("{:?}, and more: {}", completion.values, completion.has_more);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub async fn complete(
        &self,
        reference: Value,
        argument: &str,
        typed: &str,
        known: &[(&str, &str)],
    ) -> Result<Completion, RequestError> {
        let mut params = Map::from_iter([
            ("ref".to_owned(), reference),
            ("argument".to_owned(), json!({"name": argument, "value": typed})),
        ]);
        if !known.is_empty() {
            let known = known
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
            let known: Map<String, Value> = known.collect();
            params.insert("context".to_owned(), json!({"arguments": known}));
        }
        let result = self.request(Method::CompletionComplete, params).await?;
        let result: Value = serde_json::from_str(result.as_str())
            .map_err(|error| RequestError::Invalid(format!("its completion: {error}")))?;
        let completion = &result["completion"];
        let values = completion["values"].as_array().into_iter().flatten();
        Ok(Completion {
            values: values.filter_map(|value| value.as_str().map(str::to_owned)).collect(),
            total: completion["total"].as_u64(),
            has_more: completion["hasMore"] == true,
        })
    }
}

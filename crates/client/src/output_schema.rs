//! Checking the results of a tool against its output schema.

use crate::{Outcome, RequestError, error::excerpt};
use jsonschema::Validator;
use serde::Deserialize;
use serde_json::Value;
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// A longer schema is not used, so that compiling it takes bounded time and memory.
const MAX_BYTES: usize = 256 * 1024;

/// The output schema of a tool, compiled when the first result is checked. Clones share what is compiled.
#[derive(Clone)]
pub(crate) struct OutputSchema(Arc<Inner>);

struct Inner {
    schema: Value,
    /// `None` if the schema cannot be used.
    compiled: OnceLock<Option<Validator>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StructuredContent {
    structured_content: Option<Value>,
}

impl OutputSchema {
    pub(crate) fn new(schema: Value) -> Self {
        let compiled = OnceLock::new();
        Self(Arc::new(Inner { schema, compiled }))
    }

    /// Checks an outcome. Errors of the tool need not fit.
    ///
    /// # Errors
    /// [`RequestError::InvalidOutput`], with the result.
    pub(crate) fn check(&self, outcome: &Outcome) -> Result<(), RequestError> {
        let Outcome::Result { json, is_error: false } = outcome else {
            return Ok(());
        };
        let Some(validator) = self.0.compiled.get_or_init(|| self.compile()) else {
            return Ok(());
        };
        let invalid = |reason: String| RequestError::InvalidOutput {
            reason,
            result: json.clone(),
        };
        let result: StructuredContent =
            serde_json::from_str(json.as_str()).map_err(|error| invalid(format!("it cannot be read: {error}")))?;
        let Some(content) = result.structured_content else {
            return Err(invalid("it has no `structuredContent`".to_owned()));
        };
        validator.validate(&content).map_err(|violation| {
            let place = match violation.instance_path().as_str() {
                "" => String::new(),
                path => format!(" at {path}"),
            };
            invalid(format!("{}{place}", excerpt(&violation.to_string())))
        })
    }

    /// No reference out of the schema is followed: nothing is fetched, and such a schema does not compile.
    fn compile(&self) -> Option<Validator> {
        if self.0.schema.to_string().len() > MAX_BYTES {
            tracing::warn!("an output schema of more than {MAX_BYTES} bytes is not used");
            return None;
        }
        let compiled = jsonschema::options().offline().build(&self.0.schema);
        compiled
            .map_err(|error| tracing::warn!(%error, "an output schema cannot be used, so no result is checked"))
            .ok()
    }
}

impl fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.schema.fmt(f)
    }
}

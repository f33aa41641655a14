//! Checking the results of a tool against its output schema, and other values against the schemas of servers.

use crate::{Outcome, RequestError, error::excerpt};
use longhaul_core::Json;
use longhaul_json_schema::{Schema, SchemaAuthor, Violation, off_thread};
use serde::Deserialize;
use serde_json::Value;
use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// The output schema of a tool, compiled when the first result is checked. Clones share what is compiled.
#[derive(Clone)]
pub(crate) struct OutputSchema(Arc<Inner>);

struct Inner {
    schema: Value,
    /// `None` if the schema cannot be used.
    compiled: OnceLock<Option<Schema>>,
    /// Whether a check has taken too long. Then there is no other, since the schema may be made for that.
    is_given_up: AtomicBool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StructuredContent {
    structured_content: Option<Value>,
}

impl OutputSchema {
    pub(crate) fn new(schema: Value) -> Self {
        Self(Arc::new(Inner {
            schema,
            compiled: OnceLock::new(),
            is_given_up: AtomicBool::new(false),
        }))
    }

    /// Checks an outcome. Errors of the tool need not fit.
    ///
    /// # Errors
    /// [`RequestError::InvalidOutput`], with the result.
    pub(crate) async fn check(&self, outcome: &Outcome) -> Result<(), RequestError> {
        let Outcome::Result { json, is_error: false } = outcome else {
            return Ok(());
        };
        let at_once = self.0.compiled.get().and_then(|compiled| match compiled {
            None => Some(Ok(())),
            Some(schema) if schema.is_quick(json.as_str().len()) => check_now(schema, json),
            Some(_) => None,
        });
        let checked = match at_once {
            Some(checked) => checked,
            // A schema of others takes its time to compile, too.
            None => self.check_elsewhere(json.clone()).await,
        };
        checked.map_err(|reason| RequestError::InvalidOutput {
            reason,
            result: json.clone(),
        })
    }

    async fn check_elsewhere(&self, json: Json) -> Result<(), String> {
        if self.0.is_given_up.load(Ordering::Relaxed) {
            return Ok(());
        }
        let checked = off_thread(&self.0, move |inner| {
            let Some(schema) = inner.compiled.get_or_init(|| inner.compile()) else {
                return Ok(());
            };
            let content = structured_content(&json)?;
            let checked = schema.check(&content, json.as_str().len(), describe);
            checked.unwrap_or_else(|unchecked| {
                tracing::warn!(
                    "a result was not checked: {unchecked}; large results of its tool are not checked any more"
                );
                inner.is_given_up.store(true, Ordering::Relaxed);
                Ok(())
            })
        });
        checked.await.unwrap_or_else(|busy| {
            tracing::warn!("a result was not checked: {busy}");
            Ok(())
        })
    }
}

impl Inner {
    fn compile(&self) -> Option<Schema> {
        Schema::with_formats(&self.schema, SchemaAuthor::Foreign, false)
            .map_err(|error| tracing::warn!(%error, "an output schema cannot be used, so no result is checked"))
            .ok()
    }
}

fn structured_content(json: &Json) -> Result<Value, String> {
    let result: StructuredContent =
        serde_json::from_str(json.as_str()).map_err(|error| format!("it cannot be read: {error}"))?;
    result
        .structured_content
        .ok_or_else(|| "it has no `structuredContent`".to_owned())
}

/// `None` if the check takes too long for here.
fn check_now(schema: &Schema, json: &Json) -> Option<Result<(), String>> {
    match structured_content(json) {
        Ok(content) => schema.check_now(&content, json.as_str().len(), describe),
        Err(reason) => Some(Err(reason)),
    }
}

/// What does not fit first, and where.
fn describe(violations: &mut dyn Iterator<Item = Violation<'_>>) -> String {
    let Some(violation) = violations.next() else {
        return "it does not fit, and is too large to say where".to_owned();
    };
    let place = match violation.instance_path().as_str() {
        "" => String::new(),
        path => format!(" at {path}"),
    };
    format!("{}{place}", excerpt(&violation.to_string()))
}

impl fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.schema.fmt(f)
    }
}

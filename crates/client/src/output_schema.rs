//! Checking the results of a tool against its output schema, and other values against the schemas of servers.

use crate::{Outcome, RequestError, error::excerpt};
use jsonschema::Validator;
use serde::Deserialize;
use serde_json::Value;
use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

/// A longer schema is not used, so that compiling it takes bounded time and memory.
const MAX_BYTES: usize = 256 * 1024;
/// A result is checked for at most this long.
const LONGEST_CHECK: Duration = Duration::from_secs(2);

/// The output schema of a tool, compiled when the first result is checked. Clones share what is compiled.
#[derive(Clone)]
pub(crate) struct OutputSchema(Arc<Inner>);

struct Inner {
    schema: Value,
    /// `None` if the schema cannot be used.
    compiled: OnceLock<Option<Arc<Validator>>>,
    /// Whether a check was given up. `None` without references: then a check takes no longer than the schema and the result are large.
    is_endless: Option<AtomicBool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StructuredContent {
    structured_content: Option<Value>,
}

impl OutputSchema {
    pub(crate) fn new(schema: Value) -> Self {
        let is_endless = has_references(&schema).then(AtomicBool::default);
        Self(Arc::new(Inner {
            schema,
            compiled: OnceLock::new(),
            is_endless,
        }))
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
        let violation = match &self.0.is_endless {
            None => violation(validator, &content),
            Some(is_endless) if is_endless.load(Ordering::Relaxed) => None,
            Some(is_endless) => violation_in_time(Arc::clone(validator), content).unwrap_or_else(|| {
                tracing::warn!(
                    "a result was not checked within {LONGEST_CHECK:?}; its tool's results are not checked any more"
                );
                is_endless.store(true, Ordering::Relaxed);
                None
            }),
        };
        violation.map_or(Ok(()), |violation| Err(invalid(violation)))
    }

    fn compile(&self) -> Option<Arc<Validator>> {
        compile(&self.0.schema, false)
            .map_err(|error| tracing::warn!(%error, "an output schema cannot be used, so no result is checked"))
            .ok()
            .map(Arc::new)
    }
}

/// What of the value does not fit the schema first, and where. Nothing if the schema cannot be used, or the check takes too long, as for outputs.
pub(crate) fn violation_of(schema: &Value, value: &Value, checks_formats: bool) -> Option<String> {
    let validator = Arc::new(compile(schema, checks_formats).ok()?);
    match has_references(schema) {
        false => violation(&validator, value),
        true => violation_in_time(validator, value.clone()).flatten(),
    }
}

/// No reference out of the schema is followed: nothing is fetched, and such a schema does not compile.
fn compile(schema: &Value, checks_formats: bool) -> Result<Validator, String> {
    if schema.to_string().len() > MAX_BYTES {
        return Err(format!("it has more than {MAX_BYTES} bytes"));
    }
    let options = jsonschema::options().should_validate_formats(checks_formats).offline();
    options.build(schema).map_err(|error| error.to_string())
}

/// Whether a check may take longer than the schema and the value are large.
fn has_references(schema: &Value) -> bool {
    let text = schema.to_string();
    let repeats = ["\"$ref\"", "\"$dynamicRef\"", "\"$recursiveRef\""];
    repeats.iter().any(|name| text.contains(name))
}

/// What does not fit, and where.
fn violation(validator: &Validator, content: &Value) -> Option<String> {
    let violation = validator.validate(content).err()?;
    let place = match violation.instance_path().as_str() {
        "" => String::new(),
        path => format!(" at {path}"),
    };
    Some(format!("{}{place}", excerpt(&violation.to_string())))
}

/// As [`violation`]; outside, `None` if it takes too long. With references a schema of some lines can ask for more steps than anybody can wait for, and no
/// validator can be stopped: its thread goes on alone.
fn violation_in_time(validator: Arc<Validator>, content: Value) -> Option<Option<String>> {
    let (sender, checked) = mpsc::channel();
    let checking = thread::Builder::new()
        .name("output-schema".to_owned())
        // Nobody waits any more if sending fails.
        .spawn(move || drop(sender.send(violation(&validator, &content))));
    checking.ok()?;
    checked.recv_timeout(LONGEST_CHECK).ok()
}

impl fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.schema.fmt(f)
    }
}

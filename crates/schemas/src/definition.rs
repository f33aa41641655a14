//! Validating a value against a definition of a schema.

use jsonschema::Validator;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, LazyLock},
};

/// By schema and definition.
type ValidatorCache = HashMap<(PublishedSchema, String), Arc<Validator>>;

/// One of the published schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PublishedSchema {
    /// Revision 2025-11-25.
    Legacy,
    /// Revision 2026-07-28.
    Modern,
    /// The extension for tasks of 2026-07-28.
    Tasks,
    /// What the draft of that extension has gained since.
    TasksDraft,
}

/// A message that does not match its schema.
#[derive(Clone, thiserror::Error)]
#[error("{claim}: {errors:#?}\n{message:#}")]
pub struct SchemaViolation {
    /// Which definition the message violates.
    claim: String,
    errors: Vec<String>,
    message: Value,
}

/// As [`Display`](fmt::Display), so that `unwrap` shows the message and its errors.
impl fmt::Debug for SchemaViolation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

impl SchemaViolation {
    pub(crate) fn new(claim: impl Into<String>, error: impl Into<String>, message: &Value) -> Self {
        Self {
            claim: claim.into(),
            errors: vec![error.into()],
            message: message.clone(),
        }
    }
}

impl fmt::Display for PublishedSchema {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
            Self::Tasks => "ext-tasks 2026-07-28",
            Self::TasksDraft => "the draft of ext-tasks",
        })
    }
}

impl PublishedSchema {
    fn text(self) -> &'static str {
        match self {
            Self::Legacy => include_str!("../schemas/mcp-2025-11-25.schema.json"),
            Self::Modern => include_str!("../schemas/mcp-2026-07-28.schema.json"),
            Self::Tasks => include_str!("../schemas/ext-tasks-2026-07-28.schema.json"),
            Self::TasksDraft => include_str!("../schemas/ext-tasks-draft.schema.json"),
        }
    }

    /// Validates a value against a definition.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    ///
    /// # Panics
    /// If the schema has no such definition.
    pub fn check(self, definition: &str, value: &Value) -> Result<(), SchemaViolation> {
        let errors: Vec<String> = self
            .validator(definition)
            .iter_errors(value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        if errors.is_empty() {
            return Ok(());
        }
        Err(SchemaViolation {
            claim: format!("not a {definition} of {self}"),
            errors,
            message: value.clone(),
        })
    }

    /// Compiles each definition once, because that takes longer than a check.
    fn validator(self, definition: &str) -> Arc<Validator> {
        static COMPILED: LazyLock<Mutex<ValidatorCache>> = LazyLock::new(Mutex::default);
        let mut compiled = COMPILED.lock();
        let compile = || Arc::new(self.compile(definition));
        Arc::clone(compiled.entry((self, definition.to_owned())).or_insert_with(compile))
    }

    fn compile(self, definition: &str) -> Validator {
        let schema: Value = serde_json::from_str(self.text()).expect("a published schema is JSON");
        let defs = &schema["$defs"];
        assert!(defs.get(definition).is_some(), "{self} defines no {definition}");
        let root = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$ref": format!("#/$defs/{definition}"),
            "$defs": defs,
        });
        jsonschema::draft202012::new(&root).expect("a published schema is a schema")
    }
}

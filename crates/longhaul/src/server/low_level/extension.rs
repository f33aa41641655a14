//! Extensions that the author's server declares.

use super::{definition_error, prefix_of};
use crate::DefinitionError;
use serde_json::Value;
use std::sync::Arc;

/// An extension with its settings, which are not checked yet.
pub(crate) struct Extension {
    pub(crate) name: Arc<str>,
    pub(crate) settings: Value,
}

impl Extension {
    pub(crate) fn check(&self) -> Result<(), DefinitionError> {
        let name = &*self.name;
        let mistake = |why: &str| Err(definition_error("extension", name, why));
        let Some(prefix) = prefix_of(name) else {
            return mistake("write a prefix that is yours, a slash and the rest, as in `com.example/reports`");
        };
        if prefix == "dev.longhaul" || prefix == "io.modelcontextprotocol" {
            return mistake("the server itself declares the extensions with this prefix: choose one of yours");
        }
        match self.settings {
            Value::Object(_) => Ok(()),
            _ => mistake("its settings must be an object, `{}` if there are none"),
        }
    }
}

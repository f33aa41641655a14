//! Secret arguments: what the schema says of them, and what a server needs for them.

use super::Tool;
use crate::DefinitionError;
use serde_json::Value;
use std::collections::BTreeSet;

impl Tool {
    /// Refuses a tool with secrets for a server that cannot encrypt them.
    pub(crate) fn check_cipher(&self, has_cipher: bool) -> Result<(), DefinitionError> {
        match has_cipher || self.settings.secrets.is_empty() {
            true => Ok(()),
            false => Err(DefinitionError {
                what: format!("tool `{}`", self.settings.name),
                why: "it has secret arguments, and the server has nothing to encrypt them with: see `Server::argument_cipher`"
                    .to_owned(),
            }),
        }
    }
}

/// Says in the schema which arguments are secret.
pub(super) fn mark(secrets: &BTreeSet<String>, schema: &mut Value) -> Result<(), String> {
    for name in secrets {
        let property = schema["properties"].get_mut(name).and_then(Value::as_object_mut);
        let property = property.ok_or_else(|| format!("`{name}` is to be secret, and is not one of the arguments"))?;
        property.insert("writeOnly".to_owned(), true.into());
        property.entry("format").or_insert_with(|| "password".into());
    }
    Ok(())
}

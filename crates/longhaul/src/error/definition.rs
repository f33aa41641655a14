//! Mistakes in what a server offers.

use longhaul_core::store::StoreError;
use std::fmt;

/// A mistake in the definition of a tool, a prompt, a resource or a method.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct DefinitionError {
    pub(crate) what: String,
    pub(crate) why: String,
}

/// All mistakes in what a server offers; displayed with one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionErrors(pub Vec<DefinitionError>);

impl fmt::Display for DefinitionErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server has invalid definitions")?;
        for error in &self.0 {
            write!(f, "\n- {error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for DefinitionErrors {}

/// A change of what a server offers has failed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The new definition is invalid.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// The server has stopped.
    #[error("the server has stopped")]
    Stopped,
    /// The definition could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

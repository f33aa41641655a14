//! JSON that is carried, not understood.

use serde_json::value::RawValue;
use std::{fmt, sync::Arc};

/// A JSON text known to be well-formed, shared without copying.
///
/// Longhaul passes arguments, results and input requests on byte for byte (invariant 8); this type says that a text was
/// checked once and need not be parsed again.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Arc<str>);

/// The text is not JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not JSON: {0}")]
pub struct InvalidJson(pub String);

impl Json {
    /// Checks `text` and takes it over.
    ///
    /// # Errors
    /// [`InvalidJson`] with the parser's words when the text is not one JSON value.
    pub fn parse(text: &str) -> Result<Self, InvalidJson> {
        serde_json::from_str::<&RawValue>(text)
            .map(Self::from)
            .map_err(|error| InvalidJson(error.to_string()))
    }

    /// Takes over a text that is JSON already, because Longhaul wrote it or checked it before it was stored.
    pub fn trusted(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&RawValue> for Json {
    fn from(raw: &RawValue) -> Self {
        Self(raw.get().into())
    }
}

impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Self {
        Self(value.to_string().into())
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self::from(&value)
    }
}

/// The content may be secret and long, so a debug print shows its size.
impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({} bytes)", self.0.len())
    }
}

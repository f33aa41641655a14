//! JSON that is carried, not understood.

pub(crate) mod canonical;
pub(crate) mod depth;

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::Error as _};
use serde_json::{Value, value::RawValue};
use std::{collections::BTreeMap, fmt, ops::Deref, sync::Arc};

/// Deeper than that nothing is read. `serde_json` reads no deeper either.
const DEEPEST: usize = 128;

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

/// As it is written, also in a stored form. Only for `serde_json`, and not within `flatten`.
impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self::from(&*raw))
    }
}

/// The members of an object by their names, each as it is written.
pub type JsonMembers = BTreeMap<String, Json>;

/// JSON of someone else and its value: the value is read, and the text is passed on. A [`Value`] rounds numbers that no Rust type holds, and cannot hold `1e400`.
///
/// ```
/// use longhaul_core::ParsedJson;
/// let parsed = ParsedJson::of(r#"{"action":"accept","n":[1e400,1.10]}"#);
/// assert_eq!(parsed["action"], "accept");
/// assert!(parsed["n"][0].is_null());
/// assert_eq!(parsed.as_json().as_str(), r#"{"action":"accept","n":[1e400,1.10]}"#);
/// ```
#[derive(Clone)]
pub struct ParsedJson {
    pub(crate) text: Json,
    pub(crate) value: Value,
}

impl ParsedJson {
    /// The value of a text that is JSON. A number that no Rust type holds reads as null.
    pub fn of(text: &str) -> Self {
        Self::from(Json::trusted(text))
    }

    /// The text.
    pub fn as_json(&self) -> &Json {
        &self.text
    }

    /// The value.
    pub fn as_value(&self) -> &Value {
        &self.value
    }

    /// A member as it is written. Of several with one name the last counts.
    pub fn member(&self, name: &str) -> Option<Json> {
        self.value.get(name)?;
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(self.text.as_str()).ok()?;
        members.get(name).map(|raw| Json::from(*raw))
    }
}

impl Default for ParsedJson {
    fn default() -> Self {
        Self::from(Value::Null)
    }
}

impl Deref for ParsedJson {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl From<Json> for ParsedJson {
    fn from(text: Json) -> Self {
        let value = readable(text.as_str());
        Self { text, value }
    }
}

impl From<&Json> for ParsedJson {
    fn from(text: &Json) -> Self {
        Self::from(text.clone())
    }
}

impl From<Value> for ParsedJson {
    fn from(value: Value) -> Self {
        let text = Json::from(&value);
        Self { text, value }
    }
}

/// As its value.
impl Serialize for ParsedJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl fmt::Debug for ParsedJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

fn readable(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| readable_parts(text, DEEPEST))
}

/// Only parsing a number can fail in a text that is JSON, so what is around it is read by itself.
fn readable_parts(text: &str, depth: usize) -> Value {
    let text = text.trim();
    match text.as_bytes().first() {
        Some(b'{') if depth > 0 => {
            let members = serde_json::from_str::<BTreeMap<String, &RawValue>>(text).unwrap_or_default();
            let members = members.into_iter();
            Value::Object(
                members
                    .map(|(name, raw)| (name, readable_parts(raw.get(), depth - 1)))
                    .collect(),
            )
        }
        Some(b'[') if depth > 0 => {
            let elements = serde_json::from_str::<Vec<&RawValue>>(text).unwrap_or_default();
            Value::Array(
                elements
                    .iter()
                    .map(|raw| readable_parts(raw.get(), depth - 1))
                    .collect(),
            )
        }
        _ => serde_json::from_str(text).unwrap_or_default(),
    }
}

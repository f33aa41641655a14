//! The id of a JSON-RPC request.

use crate::json;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A request's id: a string or an integer, kept as received so that it is echoed byte for byte.
#[derive(Debug, Clone, Copy)]
pub struct RequestId<'a>(&'a str);

impl<'a> RequestId<'a> {
    /// The id at `raw`; `None` unless it is a string or an integer.
    pub fn from_raw(raw: &'a RawValue) -> Option<Self> {
        let text = raw.get();
        let digits = text.strip_prefix('-').unwrap_or(text);
        let legal = text.starts_with('"') || digits.bytes().all(|byte| byte.is_ascii_digit());
        legal.then_some(Self(text))
    }

    /// The id as JSON text.
    pub fn as_json(self) -> &'a str {
        self.0
    }

    /// The id as a map key: equal for every spelling of the same id (`"a"` and `"\u0061"`).
    pub fn canonical(self) -> Cow<'a, str> {
        if !self.0.contains('\\') {
            return Cow::Borrowed(self.0);
        }
        let respelled = serde_json::from_str::<String>(self.0).map(|text| {
            let mut out = String::with_capacity(self.0.len());
            json::push_string(&mut out, &text);
            Cow::Owned(out)
        });
        respelled.unwrap_or(Cow::Borrowed(self.0))
    }
}

impl PartialEq for RequestId<'_> {
    /// Compares what the ids mean. `1` and `"1"` differ.
    fn eq(&self, other: &RequestId<'_>) -> bool {
        self.0 == other.0 || self.canonical() == other.canonical()
    }
}

impl Eq for RequestId<'_> {}

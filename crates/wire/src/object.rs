//! Reading some members of a JSON object in one pass, without building a tree of the rest.

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// Why an object could not be read.
#[derive(Debug)]
pub(crate) enum ObjectError {
    /// The text is not JSON.
    Syntax(serde_json::Error),
    /// The text is JSON, but not an object.
    NotAnObject,
    /// A known member occurs twice, so its value is ambiguous.
    Duplicate(&'static str),
}

/// Calls `take` with every member of the object `text`, in order, up to the first syntax error.
pub(crate) fn for_each_member<'a>(text: &'a str, take: impl FnMut(&str, &'a RawValue)) -> Result<(), ObjectError> {
    let mut source = serde_json::Deserializer::from_str(text);
    source
        .deserialize_map(Members(take))
        .and_then(|()| source.end())
        .map_err(|error| match error.classify() {
            serde_json::error::Category::Data => ObjectError::NotAnObject,
            _ => ObjectError::Syntax(error),
        })
}

struct Members<F>(F);

impl<'de, F: FnMut(&str, &'de RawValue)> Visitor<'de> for Members<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        while let Some(key) = members.next_key_seed(Key)? {
            // serde_json skips a raw value without recursion, so deep nesting uses no stack.
            (self.0)(&key, members.next_value()?);
        }
        Ok(())
    }
}

/// A member's name, borrowed unless it holds escapes.
struct Key;

impl<'de> de::DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Self::Value, D::Error> {
        source.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

/// Declares a struct of the members of an object that are read. Each is kept as raw text; all others are skipped.
macro_rules! object {
    ($(#[$doc:meta])* $vis:vis struct $name:ident { $($field:ident = $key:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default)]
        $vis struct $name<'a> {
            $($field: Option<&'a ::serde_json::value::RawValue>,)*
        }

        impl<'a> $name<'a> {
            /// Reads `text` into `self`. On an error the members before it are kept.
            #[allow(dead_code, reason = "some objects are read with fill_and only")]
            fn fill(&mut self, text: &'a str) -> Result<(), $crate::object::ObjectError> {
                self.fill_and(text, |_, _| ())
            }

            /// Does the same as `fill`, and calls `other` with the unknown members.
            fn fill_and(
                &mut self,
                text: &'a str,
                mut other: impl FnMut(&str, &'a ::serde_json::value::RawValue),
            ) -> Result<(), $crate::object::ObjectError> {
                let mut twice = None;
                $crate::object::for_each_member(text, |key, value| {
                    let (slot, key) = match key {
                        $($key => (&mut self.$field, $key),)*
                        key => return other(key, value),
                    };
                    if slot.replace(value).is_some() {
                        twice.get_or_insert(key);
                    }
                })?;
                twice.map_or(Ok(()), |key| Err($crate::object::ObjectError::Duplicate(key)))
            }
        }
    };
}
pub(crate) use object;

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
        .deserialize_map(ForEach(take))
        .and_then(|()| source.end())
        .map_err(|error| match error.classify() {
            serde_json::error::Category::Data => ObjectError::NotAnObject,
            _ => ObjectError::Syntax(error),
        })
}

struct ForEach<F>(F);

impl<'de, F: FnMut(&str, &'de RawValue)> Visitor<'de> for ForEach<F> {
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

/// The members of an object that are read.
pub(crate) trait Members<'a>: Default {
    /// Reads the value of the member `key` from `values`. Its name, if it has occurred before.
    fn read<M: MapAccess<'a>>(&mut self, key: &str, values: &mut M) -> Result<Option<&'static str>, M::Error>;
}

/// Reads the object `text` into `members`. On an error the members before it are kept.
pub(crate) fn fill<'a>(members: &mut impl Members<'a>, text: &'a str) -> Result<(), ObjectError> {
    let mut source = serde_json::Deserializer::from_str(text);
    let mut twice = None;
    let read = source.deserialize_map(Fill {
        members,
        twice: &mut twice,
    });
    read.and_then(|()| source.end())
        .map_err(|error| match error.classify() {
            serde_json::error::Category::Data => ObjectError::NotAnObject,
            _ => ObjectError::Syntax(error),
        })?;
    twice.map_or(Ok(()), |key| Err(ObjectError::Duplicate(key)))
}

/// The value below `path` in the object `text`.
pub(crate) fn find<'a>(text: &'a str, path: &[&str]) -> Option<&'a RawValue> {
    let (first, rest) = path.split_first()?;
    let mut found = None;
    for_each_member(text, |key, value| {
        if key == *first {
            found = Some(value);
        }
    })
    .ok()?;
    match rest {
        [] => found,
        rest => find(found?.get(), rest),
    }
}

struct Fill<'m, T> {
    members: &'m mut T,
    /// The first known member that occurs twice.
    twice: &'m mut Option<&'static str>,
}

impl<'de, T: Members<'de>> Visitor<'de> for Fill<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        while let Some(key) = values.next_key_seed(Key)? {
            if let Some(key) = self.members.read(&key, &mut values)? {
                self.twice.get_or_insert(key);
            }
        }
        Ok(())
    }
}

/// A member that should be an object, read in the pass over the object around it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NestedObject<T> {
    /// Empty unless the value is an object, each of whose known members occurs once.
    members: T,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Absent,
    Object,
    /// An object with this member twice.
    Ambiguous(&'static str),
    Other,
}

impl<T> NestedObject<T> {
    pub(crate) fn is_absent(&self) -> bool {
        self.kind == Kind::Absent
    }

    pub(crate) fn is_object(&self) -> bool {
        matches!(self.kind, Kind::Object | Kind::Ambiguous(_))
    }

    /// The members; empty if there are none that can be read.
    pub(crate) fn members(&self) -> &T {
        &self.members
    }

    pub(crate) fn members_mut(&mut self) -> &mut T {
        &mut self.members
    }

    /// The members; empty if the object is absent.
    pub(crate) fn checked(&self) -> Result<&T, ObjectError> {
        match self.kind {
            Kind::Absent | Kind::Object => Ok(&self.members),
            Kind::Ambiguous(key) => Err(ObjectError::Duplicate(key)),
            Kind::Other => Err(ObjectError::NotAnObject),
        }
    }
}

/// The value of a member of [`object!`].
pub(crate) trait Slot<'a> {
    /// Reads the value. Returns whether there was one before.
    fn read<M: MapAccess<'a>>(&mut self, values: &mut M) -> Result<bool, M::Error>;
}

impl<'a> Slot<'a> for Option<&'a RawValue> {
    fn read<M: MapAccess<'a>>(&mut self, values: &mut M) -> Result<bool, M::Error> {
        Ok(self.replace(values.next_value()?).is_some())
    }
}

impl<'a, T: Members<'a>> Slot<'a> for NestedObject<T> {
    fn read<M: MapAccess<'a>>(&mut self, values: &mut M) -> Result<bool, M::Error> {
        let before = !self.is_absent();
        if before {
            self.members = T::default();
        }
        self.kind = values.next_value_seed(NestedSeed(&mut self.members))?;
        if matches!(self.kind, Kind::Ambiguous(_)) {
            self.members = T::default();
        }
        Ok(before)
    }
}

struct NestedSeed<'m, T>(&'m mut T);

impl<'de, T: Members<'de>> de::DeserializeSeed<'de> for NestedSeed<'_, T> {
    type Value = Kind;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Kind, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de, T: Members<'de>> Visitor<'de> for NestedSeed<'_, T> {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, values: A) -> Result<Kind, A::Error> {
        let mut twice = None;
        let fill = Fill {
            members: self.0,
            twice: &mut twice,
        };
        fill.visit_map(values)?;
        Ok(twice.map_or(Kind::Object, Kind::Ambiguous))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Kind, A::Error> {
        while items.next_element::<de::IgnoredAny>()?.is_some() {}
        Ok(Kind::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Kind, E> {
        Ok(Kind::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Kind, E> {
        Ok(Kind::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Kind, E> {
        Ok(Kind::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Kind, E> {
        Ok(Kind::Other)
    }

    fn visit_str<E>(self, _: &str) -> Result<Kind, E> {
        Ok(Kind::Other)
    }

    fn visit_unit<E>(self) -> Result<Kind, E> {
        Ok(Kind::Other)
    }
}

/// Declares a struct of the members of an object that are read. Each is kept as raw text, or is a [`NestedObject`] of the type that its name is
/// followed by; all others are skipped.
macro_rules! object {
    ($(#[$doc:meta])* $vis:vis struct $name:ident { $($field:ident $(: $nested:ident)? = $key:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default)]
        $vis struct $name<'a> {
            $($field: $crate::json::object::slot!('a $($nested)?),)*
        }

        impl<'a> $name<'a> {
            /// The names of the members that are read.
            #[allow(dead_code, reason = "most objects ignore the others")]
            const NAMES: &'static [&'static str] = &[$($key),*];

            /// Reads `text` into `self`. On an error the members before it are kept.
            #[allow(dead_code, reason = "some objects are only read within another")]
            fn fill(&mut self, text: &'a str) -> Result<(), $crate::json::object::ObjectError> {
                $crate::json::object::fill(self, text)
            }

            /// As [`Members::read`](crate::json::object::Members::read); `None` for a member that is not read, whose value is left.
            fn read_known<M: ::serde::de::MapAccess<'a>>(
                &mut self,
                key: &str,
                values: &mut M,
            ) -> Result<Option<Option<&'static str>>, M::Error> {
                let (before, key) = match key {
                    $($key => ($crate::json::object::Slot::read(&mut self.$field, values)?, $key),)*
                    _ => return Ok(None),
                };
                Ok(Some(before.then_some(key)))
            }
        }

        impl<'a> $crate::json::object::Members<'a> for $name<'a> {
            fn read<M: ::serde::de::MapAccess<'a>>(
                &mut self,
                key: &str,
                values: &mut M,
            ) -> Result<Option<&'static str>, M::Error> {
                match self.read_known(key, values)? {
                    Some(twice) => Ok(twice),
                    None => values.next_value::<::serde::de::IgnoredAny>().map(|_| None),
                }
            }
        }
    };
}
pub(crate) use object;

/// The type of a member of [`object!`].
macro_rules! slot {
    ($a:lifetime) => { Option<&$a ::serde_json::value::RawValue> };
    ($a:lifetime $nested:ident) => { $crate::json::object::NestedObject<$nested<$a>> };
}
pub(crate) use slot;

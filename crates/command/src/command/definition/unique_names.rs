//! Whether each name of an object stands in it once. Of two, our schema sees the last one, and another reader may take the first.

use super::argument_error::CommandArgumentError;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::{collections::HashSet, fmt};

/// What the error of a name that stands twice begins with.
const TWICE: &str = "twice: ";

/// Refuses a name that stands twice in one object, however deep. Text that is no JSON is left to others.
pub(super) fn check(json: &str) -> Result<(), CommandArgumentError> {
    let Err(error) = serde_json::from_str::<UniqueNames>(json) else {
        return Ok(());
    };
    let said = error.to_string();
    let Some((_, name)) = said.split_once(TWICE).filter(|_| error.is_data()) else {
        return Ok(());
    };
    // Behind the name is the place, which means nothing to whoever sent an object.
    let name = name.rsplit_once(" at line ").map_or(name, |(name, _)| name);
    Err(CommandArgumentError::DuplicateName(name.to_owned()))
}

/// A value whose names were looked at.
struct UniqueNames;

impl<'de> Deserialize<'de> for UniqueNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NamesVisitor)
    }
}

struct NamesVisitor;

impl<'de> Visitor<'de> for NamesVisitor {
    type Value = UniqueNames;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<UniqueNames, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if names.contains(&name) {
                return Err(A::Error::custom(format!("{TWICE}{name}")));
            }
            names.insert(name);
            members.next_value::<UniqueNames>()?;
        }
        Ok(UniqueNames)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<UniqueNames, A::Error> {
        while elements.next_element::<UniqueNames>()?.is_some() {}
        Ok(UniqueNames)
    }

    fn visit_bool<E>(self, _: bool) -> Result<UniqueNames, E> {
        Ok(UniqueNames)
    }

    fn visit_i64<E>(self, _: i64) -> Result<UniqueNames, E> {
        Ok(UniqueNames)
    }

    fn visit_u64<E>(self, _: u64) -> Result<UniqueNames, E> {
        Ok(UniqueNames)
    }

    fn visit_f64<E>(self, _: f64) -> Result<UniqueNames, E> {
        Ok(UniqueNames)
    }

    fn visit_str<E>(self, _: &str) -> Result<UniqueNames, E> {
        Ok(UniqueNames)
    }

    fn visit_unit<E>(self) -> Result<UniqueNames, E> {
        Ok(UniqueNames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_once_in_each_object() {
        let twice = |name: &str| Err(CommandArgumentError::DuplicateName(name.to_owned()));
        for (json, expected) in [
            (r#"{"a":1,"b":{"a":[{"a":null},{"a":1e2}]}}"#, Ok(())),
            (r#"{"a":1,"a":2}"#, twice("a")),
            (r#"{"a":1,"\u0061":2}"#, twice("a")),
            (r#"{"x":[{"k y":"evil","k y":"a"}]}"#, twice("k y")),
            ("[", Ok(())),
        ] {
            assert_eq!(check(json), expected, "{json}");
        }
    }
}

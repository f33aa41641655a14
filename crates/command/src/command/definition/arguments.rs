//! A call's arguments, read just far enough to become words of a command line.

use super::{argument_error::CommandArgumentError, json_text, number, unique_names};
use serde_json::value::RawValue;
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

/// A call's arguments by property name. Numbers keep the text they came with.
pub struct Arguments<'a>(BTreeMap<Cow<'a, str>, &'a RawValue>);

/// What one property holds, as texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentTexts {
    /// Nothing, or null.
    Absent,
    /// One text.
    One(String),
    /// One text for each element of an array.
    Many(Vec<String>),
}

/// What one property holds.
pub(crate) enum ArgumentValue<'a> {
    /// Nothing, or null.
    Absent,
    /// One word.
    Word(Word<'a>),
    /// One word per element.
    Words(Vec<Word<'a>>),
}

/// A value as a word of a command line.
pub(crate) struct Word<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) is_number: bool,
}

impl<'a> Arguments<'a> {
    /// Reads a JSON object.
    ///
    /// # Errors
    /// [`CommandArgumentError::NotAnObject`] for any other text, [`CommandArgumentError::DuplicateName`].
    pub fn parse(json: &'a str) -> Result<Self, CommandArgumentError> {
        unique_names::check(json)?;
        serde_json::from_str(json)
            .map(Self)
            .map_err(|_| CommandArgumentError::NotAnObject)
    }

    /// These, and `defaults` for those that are left out. What is null stays so.
    pub(super) fn or_defaults<'b>(&self, defaults: &'b BTreeMap<String, Box<RawValue>>) -> Arguments<'b>
    where
        'a: 'b,
    {
        let mut all: BTreeMap<Cow<'b, str>, &'b RawValue> = self.0.clone();
        for (name, value) in defaults {
            all.entry(Cow::Borrowed(name)).or_insert(value);
        }
        Arguments(all)
    }

    /// All of them as one JSON document, and a line break.
    pub(super) fn to_json(&self) -> Result<String, CommandArgumentError> {
        let members = self.0.iter().map(|(name, value)| {
            let value = json_text::compact(name, value)?;
            Ok(format!("{}:{value}", serde_json::Value::from(&**name)))
        });
        Ok(format!("{{{}}}\n", members.collect::<Result<Vec<_>, _>>()?.join(",")))
    }

    /// The JSON of a property; `None` if it is absent or null.
    pub fn json(&self, name: &str) -> Option<&'a RawValue> {
        let raw = self.0.get(name).copied();
        raw.filter(|raw| !raw.get().starts_with('n'))
    }

    /// What a property holds, as texts. Those of `integers` have no point and no exponent.
    ///
    /// # Errors
    /// [`CommandArgumentError`]: it holds an object, or what cannot be a text.
    pub fn texts(&self, name: &str, integers: &BTreeSet<String>) -> Result<ArgumentTexts, CommandArgumentError> {
        let text = |word: Word<'_>| match number::as_integer(&word.text) {
            Some(integer) if word.is_number && integers.contains(name) => integer,
            _ => word.text.into_owned(),
        };
        Ok(match self.get(name)? {
            ArgumentValue::Absent => ArgumentTexts::Absent,
            ArgumentValue::Word(word) => ArgumentTexts::One(text(word)),
            ArgumentValue::Words(words) => ArgumentTexts::Many(words.into_iter().map(text).collect()),
        })
    }

    pub(super) fn get(&self, name: &str) -> Result<ArgumentValue<'a>, CommandArgumentError> {
        let Some(raw) = self.json(name) else {
            return Ok(ArgumentValue::Absent);
        };
        if !raw.get().starts_with('[') {
            return word(name, raw).map(ArgumentValue::Word);
        }
        let words = self.elements(name)?.into_iter().map(|element| word(name, element));
        words.collect::<Result<_, _>>().map(ArgumentValue::Words)
    }

    /// The elements of an array.
    pub(super) fn elements(&self, name: &str) -> Result<Vec<&'a RawValue>, CommandArgumentError> {
        let raw = self.json(name).map_or("[]", RawValue::get);
        serde_json::from_str(raw).map_err(|_| CommandArgumentError::NotAWord(name.to_owned()))
    }
}

/// A string as it is; anything else as JSON.
pub(super) fn file_contents(name: &str, raw: &RawValue) -> Result<String, CommandArgumentError> {
    if raw.get().starts_with('"') {
        return serde_json::from_str(raw.get()).map_err(|_| CommandArgumentError::NotText(name.to_owned()));
    }
    Ok(json_text::compact(name, raw)? + "\n")
}

/// An element of an array, or a value that is none.
pub(super) fn word<'a>(name: &str, raw: &'a RawValue) -> Result<Word<'a>, CommandArgumentError> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'"') => {
            let text: String =
                serde_json::from_str(text).map_err(|_| CommandArgumentError::NotText(name.to_owned()))?;
            if text.contains('\0') {
                return Err(CommandArgumentError::NotText(name.to_owned()));
            }
            Ok(Word {
                text: Cow::Owned(text),
                is_number: false,
            })
        }
        Some(b't' | b'f') => Ok(Word {
            text: Cow::Borrowed(text),
            is_number: false,
        }),
        Some(b'-' | b'0'..=b'9') if !number::is_exact(text) => Err(CommandArgumentError::Imprecise(name.to_owned())),
        Some(b'-' | b'0'..=b'9') => Ok(Word {
            text: Cow::Borrowed(text),
            is_number: true,
        }),
        _ => Err(CommandArgumentError::NotAWord(name.to_owned())),
    }
}

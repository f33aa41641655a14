//! A call's arguments, read just far enough to become words of a command line.

use super::number;
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap};

/// The arguments do not fit the command. The text is for the caller: it names the property and says what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandArgumentError {
    /// The arguments are not a JSON object.
    #[error("the arguments must be a JSON object")]
    NotAnObject,
    /// A property the command needs is absent or null.
    #[error("`{0}` is required")]
    Missing(String),
    /// An object, or something nested in an array.
    #[error("`{0}` must be a string, a number, a boolean or an array of these")]
    NotAWord(String),
    /// A string with a NUL, or with an escape that is no character.
    #[error("`{0}` must be text without NUL characters")]
    NotText(String),
    /// An array where only one word fits.
    #[error("`{0}` must be a single value here, not an array")]
    ArrayInside(String),
    /// The program would take the value for an option.
    #[error(
        "`{0}` may not begin with `-`: the program would take it for an option; write for example `./-name` for a path"
    )]
    LeadingDash(String),
    /// A number below 0 where an argument would begin with it.
    #[error("`{0}` may not be negative here: the program would take it for an option; give a number of 0 or more")]
    Negative(String),
    /// A number whose digits go beyond what a schema can judge.
    #[error(
        "`{0}` is a number with more digits, or a larger or smaller exponent, than can be checked; round it to 15 digits"
    )]
    Imprecise(String),
}

/// A call's arguments by property name. Numbers keep the text they came with.
pub struct Arguments<'a>(BTreeMap<Cow<'a, str>, &'a RawValue>);

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
    /// [`CommandArgumentError::NotAnObject`] for any other text.
    pub fn parse(json: &'a str) -> Result<Self, CommandArgumentError> {
        serde_json::from_str(json)
            .map(Self)
            .map_err(|_| CommandArgumentError::NotAnObject)
    }

    pub(crate) fn get(&self, name: &str) -> Result<ArgumentValue<'a>, CommandArgumentError> {
        let Some(raw) = self.0.get(name) else {
            return Ok(ArgumentValue::Absent);
        };
        match raw.get().as_bytes().first() {
            Some(b'n') => Ok(ArgumentValue::Absent),
            Some(b'[') => {
                let elements: Vec<&'a RawValue> =
                    serde_json::from_str(raw.get()).map_err(|_| CommandArgumentError::NotAWord(name.to_owned()))?;
                elements
                    .into_iter()
                    .map(|element| word(name, element))
                    .collect::<Result<_, _>>()
                    .map(ArgumentValue::Words)
            }
            _ => word(name, raw).map(ArgumentValue::Word),
        }
    }
}

fn word<'a>(name: &str, raw: &'a RawValue) -> Result<Word<'a>, CommandArgumentError> {
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

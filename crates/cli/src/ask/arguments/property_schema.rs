//! A value by the schema of its property.

use super::{ArgumentError, Word, not_json, parse_json};
use crate::{
    ask::fields,
    output::{
        json_text::{self, TextError},
        shell_word::shell_word,
    },
};
use serde_json::Value;
use std::collections::BTreeSet;

/// What a property's schema says about the type of its values.
pub(super) struct PropertySchema<'a> {
    /// The JSON Schema types that it allows; empty if the schema has no `type`.
    types: BTreeSet<&'a str>,
    /// The values of `enum` and `const`.
    choices: Vec<&'a Value>,
    /// Whether nothing but the choices is allowed.
    has_only_choices: bool,
    /// The schema of an array's elements.
    items: &'a Value,
    root: &'a Value,
}

/// The choices that an error lists.
const SHOWN_CHOICES: usize = 20;

/// References may lead in circles.
const MAX_REFERENCE_DEPTH: usize = 16;

impl<'a> PropertySchema<'a> {
    pub(super) fn of(schema: &'a Value, root: &'a Value) -> Self {
        let mut wanted = Self {
            types: BTreeSet::new(),
            choices: Vec::new(),
            has_only_choices: has_only_choices(schema),
            items: &Value::Null,
            root,
        };
        wanted.gather(schema, MAX_REFERENCE_DEPTH);
        wanted
    }

    /// Adds what `schema` says, through local references and alternatives.
    fn gather(&mut self, schema: &'a Value, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        match &schema["type"] {
            Value::String(name) => drop(self.types.insert(name)),
            Value::Array(names) => self.types.extend(names.iter().filter_map(Value::as_str)),
            _ => {}
        }
        self.choices.extend(
            schema["enum"]
                .as_array()
                .into_iter()
                .flatten()
                .chain(schema.get("const")),
        );
        if let Some(items) = schema.get("items") {
            self.items = items;
        }
        let referred = fields::referred(schema, self.root);
        let alternatives = ["anyOf", "oneOf", "allOf"]
            .into_iter()
            .filter_map(|key| schema[key].as_array())
            .flatten();
        for part in alternatives.chain(referred) {
            self.gather(part, depth);
        }
    }

    pub(super) fn read_all(&self, name: &str, mut words: Vec<Word>) -> Result<Value, ArgumentError> {
        // Where text is allowed, one text is a text, also if it could be the element of an array.
        let is_text = self.types.contains("string") && words.len() == 1;
        if self.types.contains("array") && !is_text {
            return self.read_array(name, words);
        }
        match (words.pop(), words.len()) {
            (Some(word), 0) => self.read(name, word),
            (_, others) => Err(ArgumentError::Repeated {
                name: name.to_owned(),
                count: others + 1,
            }),
        }
    }

    /// Several words are several elements; a single one may also be the whole array in JSON.
    fn read_array(&self, name: &str, words: Vec<Word>) -> Result<Value, ArgumentError> {
        match words.as_slice() {
            [Word::Json(whole)] => return Ok(whole.clone()),
            [Word::Text(text)] if text.starts_with('[') => return parse_json(name, text),
            _ => {}
        }
        let element = PropertySchema::of(self.items, self.root);
        if let Some(given) = words.iter().find_map(|word| element.no_choice(word)) {
            let choices: Vec<String> = (element.choices.iter().take(SHOWN_CHOICES))
                .map(|choice| spelled(choice))
                .collect();
            let example: Vec<String> = (choices.iter().take(2))
                .map(|choice| shell_word(&format!("{name}={choice}")))
                .collect();
            return Err(ArgumentError::NoChoice {
                name: name.to_owned(),
                choices: choices.join(", "),
                given: given.to_owned(),
                example: example.join(" "),
            });
        }
        words.into_iter().map(|word| element.read(name, word)).collect()
    }

    /// A text that is none of the choices, where only these are taken.
    fn no_choice<'w>(&self, word: &'w Word) -> Option<&'w str> {
        match word {
            Word::Text(text) if self.has_only_choices => {
                let is_choice = self.choices.iter().any(|choice| spelled(choice) == *text);
                (!is_choice).then_some(text)
            }
            _ => None,
        }
    }

    fn read(&self, name: &str, word: Word) -> Result<Value, ArgumentError> {
        let text = match word {
            Word::Json(value) => return Ok(value),
            Word::Text(text) => text,
        };
        if let Some(choice) = self.choices.iter().find(|choice| spelled(choice) == text) {
            return Ok((*choice).clone());
        }
        // What may be text is text; `:=` gives another type.
        if self.types.is_empty() || self.types.contains("string") {
            return Ok(Value::String(text));
        }
        let wrong_type = |given: String| ArgumentError::WrongType {
            name: name.to_owned(),
            expected: self.expected(&given),
            given,
        };
        match json_text::read::<Value>(text.trim()) {
            Ok(value) if self.takes(&value) => Ok(value),
            Err(error @ TextError::TooLarge(_)) if self.types.contains("number") => Err(not_json(name, error)),
            _ => Err(wrong_type(text)),
        }
    }

    fn takes(&self, value: &Value) -> bool {
        let is = |name: &str| self.types.contains(name);
        match value {
            Value::Null => is("null"),
            Value::Bool(_) => is("boolean"),
            Value::Number(number) => is("number") || (is("integer") && !number.is_f64()),
            Value::String(_) => is("string"),
            Value::Array(_) => is("array"),
            Value::Object(_) => is("object"),
        }
    }

    fn expected(&self, given: &str) -> String {
        let is_whole = given.trim().parse::<f64>().is_ok_and(|number| number.fract() == 0.0);
        let words = self.types.iter().map(|name| match *name {
            "integer" if is_whole => "a whole number of at most 64 bits, in digits alone",
            "integer" => "a whole number",
            "number" => "a number",
            "boolean" => "true or false",
            "null" => "null",
            "object" => "a JSON object",
            other => other,
        });
        words.collect::<Vec<_>>().join(" or ")
    }
}

/// Whether the schema is a list of values, as MCP writes choices with and without titles.
fn has_only_choices(schema: &Value) -> bool {
    let listed = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array());
    let has_titles = listed.is_some_and(|listed| listed.iter().all(|choice| choice.get("const").is_some()));
    schema["enum"].is_array() || has_titles
}

/// How a choice is written on the command line.
fn spelled(choice: &Value) -> String {
    match choice {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

//! A configuration file, JSON with comments or TOML, with where its values are in the text.

use crate::mcp_servers::jsonc;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// In which a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Json,
    Toml,
}

/// A value, and its bytes in the text.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) range: Range<usize>,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
    Text(String),
    Other,
}

impl Node {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str, language: Language) -> Result<Self, String> {
        match language {
            Language::Json => {
                let parsed = jsonc_parser::parse_to_ast(text, &Default::default(), &jsonc::options());
                let parsed = parsed.map_err(|error| error.to_string())?;
                parsed.value.map(Self::of_json).ok_or_else(|| "it is empty".to_owned())
            }
            Language::Toml => {
                let parsed = DeTable::parse(text).map_err(|error| error.to_string())?;
                let range = parsed.span();
                Ok(Self {
                    range,
                    value: Value::of_table(parsed.get_ref()),
                })
            }
        }
    }

    fn of_json(json: jsonc_parser::ast::Value<'_>) -> Self {
        use jsonc_parser::{ast, common::Ranged as _};
        let range = json.start()..json.end();
        let value = match json {
            ast::Value::Object(object) => {
                let properties = object.properties.into_iter();
                Value::Object(
                    properties
                        .map(|property| (property.name.as_str().to_owned(), Self::of_json(property.value)))
                        .collect(),
                )
            }
            ast::Value::Array(array) => Value::Array(array.elements.into_iter().map(Self::of_json).collect()),
            ast::Value::StringLit(text) => Value::Text(text.value.into_owned()),
            _ => Value::Other,
        };
        Self { range, value }
    }

    pub(super) fn members(&self) -> &[(String, Self)] {
        match &self.value {
            Value::Object(members) => members,
            _ => &[],
        }
    }

    pub(super) fn elements(&self) -> &[Self] {
        match &self.value {
            Value::Array(elements) => elements,
            _ => &[],
        }
    }

    /// The member that a reader sees: of several with one name it is the last.
    pub(super) fn member(&self, name: &str) -> Option<&Self> {
        let mut members = self.members().iter().rev();
        members.find(|(known, _)| known == name).map(|(_, node)| node)
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Value {
    fn of_table(table: &DeTable<'_>) -> Self {
        let members = table.iter().map(|(name, value)| {
            let node = Node {
                range: value.span(),
                value: Self::of_toml(value.get_ref()),
            };
            (name.get_ref().to_string(), node)
        });
        Self::Object(members.collect())
    }

    fn of_toml(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::Table(table) => Self::of_table(table),
            DeValue::Array(elements) => Self::Array(
                elements
                    .iter()
                    .map(|element| Node {
                        range: element.span(),
                        value: Self::of_toml(element.get_ref()),
                    })
                    .collect(),
            ),
            DeValue::String(text) => Self::Text(text.to_string()),
            _ => Self::Other,
        }
    }
}

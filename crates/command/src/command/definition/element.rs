//! The elements of a command: texts, lists that stand or fall with their values, and switches.

use super::{
    argument_error::CommandArgumentError,
    arguments::{ArgumentValue, Arguments},
    template::{Rules, Template, TemplateError, ValueForm},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// An element of `command`, as the configuration says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CommandElement {
    /// The template of an argument.
    Text(String),
    /// Templates that appear only if all their placeholders have a value, and once for each element of an array.
    Group(Vec<String>),
    /// Templates that a boolean chooses.
    Switch(CommandSwitch),
}

/// Templates that appear if a boolean property is true, and others that appear if it is false. Without a value neither appear.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandSwitch {
    /// The property.
    #[serde(rename = "if")]
    pub property: String,
    /// What true stands for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<String>,
    /// What false stands for.
    #[serde(default, rename = "else", skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<String>,
}

/// An element that can hardly be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElementProblem {
    /// A list without elements.
    #[error("an empty list gives no argument: leave it out")]
    EmptyGroup,
    /// A list in which nothing can be absent.
    #[error(
        "a list appears only if its placeholders have a value, and this one has no placeholder: write {0} without the brackets"
    )]
    NoPlaceholder(String),
    /// A switch that chooses nothing.
    #[error("a switch needs arguments, for example {{ if = \"{0}\", then = [\"--{0}\"] }}")]
    EmptySwitch(String),
}

/// A text of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandWord<'a> {
    /// The element it is in, from 0.
    pub element: usize,
    /// Where it stands in the element.
    pub part: ElementPart,
    /// The template.
    pub text: &'a str,
}

/// Where a text stands in its element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementPart {
    /// It is the element.
    Whole,
    /// In a list.
    Group,
    /// In the part of a switch for true.
    Then,
    /// In the part of a switch for false.
    Else,
}

impl From<&str> for CommandElement {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for CommandElement {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl CommandElement {
    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Its texts in order, with where they stand.
    pub fn parts(&self) -> Vec<(ElementPart, &str)> {
        let of = |part: ElementPart, texts| {
            let texts: &[String] = texts;
            texts.iter().map(move |text| (part, text.as_str()))
        };
        match self {
            Self::Text(text) => vec![(ElementPart::Whole, text)],
            Self::Group(texts) => of(ElementPart::Group, texts).collect(),
            Self::Switch(switch) => of(ElementPart::Then, &switch.then)
                .chain(of(ElementPart::Else, &switch.otherwise))
                .collect(),
        }
    }

    /// What is wrong with the element as a whole, if its texts are templates.
    pub fn problem(&self) -> Option<ElementProblem> {
        match self {
            Self::Group(texts) if texts.is_empty() => Some(ElementProblem::EmptyGroup),
            Self::Group(texts) => {
                let is_fixed = |text: &String| Template::parse(text).is_ok_and(|text| text.properties().count() == 0);
                let quoted = || texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>();
                texts
                    .iter()
                    .all(is_fixed)
                    .then(|| ElementProblem::NoPlaceholder(quoted().join(", ")))
            }
            Self::Switch(switch) if switch.then.is_empty() && switch.otherwise.is_empty() => {
                Some(ElementProblem::EmptySwitch(switch.property.clone()))
            }
            Self::Text(_) | Self::Switch(_) => None,
        }
    }
}

/// The texts of a command in order.
pub fn command_words(command: &[CommandElement]) -> Vec<CommandWord<'_>> {
    let mut words = Vec::new();
    for (element, parts) in command.iter().enumerate() {
        let parts = parts.parts().into_iter();
        words.extend(parts.map(|(part, text)| CommandWord { element, part, text }));
    }
    words
}

/// An element, its templates parsed.
pub(super) enum Element {
    Text(Template),
    Group(Vec<Template>),
    Switch {
        property: String,
        then: Vec<Template>,
        otherwise: Vec<Template>,
    },
}

impl Element {
    /// With `names`, placeholders must be among them.
    pub(super) fn parse(element: &CommandElement, names: Option<&BTreeSet<String>>) -> Result<Self, TemplateError> {
        let template = |text: &String| Template::parse_with(text, names);
        let templates = |texts: &[String]| texts.iter().map(template).collect::<Result<Vec<_>, _>>();
        Ok(match element {
            CommandElement::Text(text) => Self::Text(template(text)?),
            CommandElement::Group(texts) => Self::Group(templates(texts)?),
            CommandElement::Switch(switch) => Self::Switch {
                property: switch.property.clone(),
                then: templates(&switch.then)?,
                otherwise: templates(&switch.otherwise)?,
            },
        })
    }

    /// Appends the arguments it becomes.
    pub(super) fn expand(
        &self,
        arguments: &Arguments<'_>,
        rules: &Rules<'_>,
        argv: &mut Vec<String>,
    ) -> Result<(), CommandArgumentError> {
        match self {
            Self::Text(template) => template.expand_argument(arguments, rules, argv),
            Self::Group(templates) => expand_group(templates, arguments, rules, argv),
            Self::Switch {
                property,
                then,
                otherwise,
            } => {
                let chosen = match rules.flag(property, arguments)? {
                    Some(true) => then,
                    Some(false) => otherwise,
                    None => return Ok(()),
                };
                expand_each(chosen, arguments, rules, argv)
            }
        }
    }
}

fn expand_each(
    templates: &[Template],
    arguments: &Arguments<'_>,
    rules: &Rules<'_>,
    argv: &mut Vec<String>,
) -> Result<(), CommandArgumentError> {
    templates
        .iter()
        .try_for_each(|template| template.expand_argument(arguments, rules, argv))
}

fn expand_group(
    templates: &[Template],
    arguments: &Arguments<'_>,
    rules: &Rules<'_>,
    argv: &mut Vec<String>,
) -> Result<(), CommandArgumentError> {
    let mut array = None;
    for placeholder in templates.iter().flat_map(Template::placeholders) {
        let name = placeholder.name;
        if arguments.json(name).is_none() {
            return rules.absent(name);
        }
        if placeholder.form == ValueForm::Word
            && let ArgumentValue::Words(words) = arguments.get(name)?
        {
            if words.is_empty() {
                return Ok(());
            }
            if array.replace(name).is_some_and(|other| other != name) {
                return Err(CommandArgumentError::ArrayInside(name.to_owned()));
            }
        }
    }
    let Some(name) = array else {
        return expand_each(templates, arguments, rules, argv);
    };
    for element in arguments.elements(name)? {
        let rules = Rules {
            element: Some((name, element)),
            ..*rules
        };
        expand_each(templates, arguments, &rules, argv)?;
    }
    Ok(())
}

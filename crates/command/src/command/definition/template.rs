//! Texts with placeholders: `{name}` is replaced, `{{` and `}}` are literal braces.

use super::{
    arguments::{ArgumentValue, Arguments, CommandArgumentError, Word},
    number,
};
use std::collections::BTreeSet;

/// A text is not a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {problem}")]
pub struct TemplateError {
    /// Where, in characters from 1.
    pub column: usize,
    /// What is wrong there, and what would be right.
    pub problem: TemplateProblem,
}

/// What can be wrong with a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateProblem {
    /// `{` without its `}`.
    #[error("`{{` is never closed; write `{{name}}` for a property, `{{{{` for a literal brace")]
    Unclosed,
    /// `}` without its `{`.
    #[error("`}}` closes nothing; write `}}}}` for a literal brace")]
    Unopened,
    /// `{}`.
    #[error("`{{}}` names no property; write `{{name}}` for a property, `{{{{}}}}` for literal braces")]
    Empty,
    /// A NUL, which no argument can hold.
    #[error("NUL cannot stand in an argument")]
    Nul,
    /// A name that is no property of the tool's input.
    #[error("`{{{name}}}` names no property of the input; {}", unknown_hint(.name, .known))]
    UnknownProperty {
        /// The name.
        name: String,
        /// The properties there are, for people.
        known: String,
    },
}

fn unknown_hint(name: &str, known: &str) -> String {
    literal_braces(name).unwrap_or_else(|| format!("there is {known}"))
}

/// What to say of braces around what can hardly be meant for a name, such as JSON.
pub fn literal_braces(name: &str) -> Option<String> {
    let is_no_name = |char: char| char.is_whitespace() || "\"':,;$()".contains(char);
    name.contains(is_no_name)
        .then(|| format!("for braces as they stand write `{{{{{name}}}}}`"))
}

/// Where a placeholder stands in its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placeholder<'a> {
    /// The property.
    pub name: &'a str,
    /// It is the whole text.
    pub is_whole: bool,
    /// The text can begin with its value.
    pub is_first: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Property { name: String, column: usize },
}

/// A text with placeholders, parsed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template {
    parts: Vec<Part>,
}

/// What may be left out, and what may begin with `-`.
pub(crate) struct Rules<'a> {
    pub(crate) optional: &'a BTreeSet<String>,
    pub(crate) allow_leading_dash: &'a BTreeSet<String>,
    pub(crate) integers: &'a BTreeSet<String>,
}

impl Template {
    /// Parses a text.
    ///
    /// ```
    /// use longhaul_command::Template;
    /// assert_eq!(Template::parse("--name={name}").unwrap().properties().collect::<Vec<_>>(), ["name"]);
    /// assert_eq!(Template::parse("{{}}").unwrap().properties().count(), 0);
    /// assert_eq!(Template::parse("a {b").unwrap_err().column, 3);
    /// ```
    ///
    /// # Errors
    /// [`TemplateError`] with the column of a brace that does not pair up, or of a NUL.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut chars = text.chars().enumerate().peekable();
        while let Some((index, char)) = chars.next() {
            let column = index + 1;
            let error = |problem| TemplateError { column, problem };
            match char {
                '{' | '}' if chars.next_if(|(_, next)| *next == char).is_some() => literal.push(char),
                '{' => {
                    if !literal.is_empty() {
                        parts.push(Part::Literal(std::mem::take(&mut literal)));
                    }
                    let mut name = String::new();
                    loop {
                        match chars.next() {
                            Some((_, '}')) => break,
                            None | Some((_, '{')) => return Err(error(TemplateProblem::Unclosed)),
                            Some((_, char)) => name.push(char),
                        }
                    }
                    if name.is_empty() {
                        return Err(error(TemplateProblem::Empty));
                    }
                    parts.push(Part::Property { name, column });
                }
                '}' => return Err(error(TemplateProblem::Unopened)),
                '\0' => return Err(error(TemplateProblem::Nul)),
                char => literal.push(char),
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Self { parts })
    }

    /// The names in it, in order, repeated as they repeat.
    pub fn properties(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Property { name, .. } => Some(name.as_str()),
            Part::Literal(_) => None,
        })
    }

    /// The placeholders in it, in order, repeated as they repeat.
    pub fn placeholders(&self) -> impl Iterator<Item = Placeholder<'_>> {
        let literal = |part: &Part| matches!(part, Part::Literal(_));
        let first_literal = self.parts.iter().position(literal).unwrap_or(self.parts.len());
        self.parts
            .iter()
            .enumerate()
            .filter_map(move |(index, part)| match part {
                Part::Property { name, .. } => Some(Placeholder {
                    name,
                    is_whole: self.parts.len() == 1,
                    is_first: index < first_literal,
                }),
                Part::Literal(_) => None,
            })
    }

    /// What stands before the first placeholder.
    pub(crate) fn literal_prefix(&self) -> &str {
        match self.parts.first() {
            Some(Part::Literal(text)) => text,
            _ => "",
        }
    }

    /// Refuses a placeholder that is not among `names`.
    pub(crate) fn check_names(&self, names: &BTreeSet<String>) -> Result<(), TemplateError> {
        for part in &self.parts {
            if let Part::Property { name, column } = part
                && !names.contains(name)
            {
                let known = list_of(names);
                let problem = TemplateProblem::UnknownProperty {
                    name: name.clone(),
                    known,
                };
                return Err(TemplateError {
                    column: *column,
                    problem,
                });
            }
        }
        Ok(())
    }

    /// Appends the arguments this element of a command line becomes: none, one, or one per element of an array.
    pub(crate) fn expand_argument(
        &self,
        arguments: &Arguments<'_>,
        rules: &Rules<'_>,
        argv: &mut Vec<String>,
    ) -> Result<(), CommandArgumentError> {
        if let [Part::Property { name, .. }] = self.parts.as_slice()
            && let ArgumentValue::Words(words) = arguments.get(name)?
        {
            for word in words {
                let word = rules.as_integer(name, word);
                rules.check_dash(name, &word)?;
                argv.push(word.text.into_owned());
            }
            return Ok(());
        }
        let mut argument = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(text) => argument.push_str(text),
                Part::Property { name, .. } => {
                    let Some(word) = rules.single(name, arguments)? else {
                        return Ok(());
                    };
                    // Stricter than "is a whole argument": a value at the front of one makes an option just as well.
                    if argument.is_empty() {
                        rules.check_dash(name, &word)?;
                    }
                    argument.push_str(&word.text);
                }
            }
        }
        argv.push(argument);
        Ok(())
    }

    /// The text with every placeholder replaced; what is absent leaves nothing behind.
    pub(crate) fn expand_text(
        &self,
        arguments: &Arguments<'_>,
        rules: &Rules<'_>,
    ) -> Result<String, CommandArgumentError> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Property { name, .. } => {
                    if let Some(word) = rules.single(name, arguments)? {
                        text.push_str(&word.text);
                    }
                }
            }
        }
        Ok(text)
    }
}

impl Rules<'_> {
    fn single<'a>(&self, name: &str, arguments: &Arguments<'a>) -> Result<Option<Word<'a>>, CommandArgumentError> {
        match arguments.get(name)? {
            ArgumentValue::Word(word) => Ok(Some(self.as_integer(name, word))),
            ArgumentValue::Words(_) => Err(CommandArgumentError::ArrayInside(name.to_owned())),
            ArgumentValue::Absent if self.optional.contains(name) => Ok(None),
            ArgumentValue::Absent => Err(CommandArgumentError::Missing(name.to_owned())),
        }
    }

    /// JSON has one kind of numbers, so 5.0 and 5e0 are integers; programs want 5.
    fn as_integer<'a>(&self, name: &str, word: Word<'a>) -> Word<'a> {
        match number::as_integer(&word.text) {
            Some(text) if word.is_number && self.integers.contains(name) => Word {
                text: text.into(),
                ..word
            },
            _ => word,
        }
    }

    fn check_dash(&self, name: &str, word: &Word<'_>) -> Result<(), CommandArgumentError> {
        if !word.text.starts_with('-') || self.allow_leading_dash.contains(name) {
            return Ok(());
        }
        // An argument without a type in the schema may come as the text of a number.
        let digits = word.text.trim_start_matches('-').trim_start_matches('.');
        let is_number =
            word.is_number || (word.text.parse::<f64>().is_ok() && digits.starts_with(|c: char| c.is_ascii_digit()));
        Err(if is_number {
            CommandArgumentError::Negative(name.to_owned())
        } else {
            CommandArgumentError::LeadingDash(name.to_owned())
        })
    }
}

/// Names as people list them.
pub(crate) fn list_of(names: &BTreeSet<String>) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

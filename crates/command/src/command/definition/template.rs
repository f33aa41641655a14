//! Texts with placeholders: `{name}` is replaced, `{{` and `}}` are literal braces.

use super::{
    argument_error::CommandArgumentError,
    arguments::{self, ArgumentValue, Arguments, Word},
    files::ArgumentFiles,
    json_text, number,
};
use serde_json::Value;
use serde_json::value::RawValue;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

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

/// How a placeholder writes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ValueForm {
    /// `{name}`: as a word.
    #[default]
    Word,
    /// `{name:json}`: as JSON.
    Json,
    /// `{name:file}`: as the path of a file that holds it.
    File,
}

impl ValueForm {
    const SUFFIXES: [(&str, Self); 2] = [(":json", Self::Json), (":file", Self::File)];

    /// The property and the form that the text between two braces names.
    fn split(inner: &str) -> (&str, Self) {
        let with_suffix = |(suffix, form)| Some((inner.strip_suffix(suffix)?, form));
        let found = Self::SUFFIXES.into_iter().find_map(with_suffix);
        found
            .filter(|(name, _)| !name.is_empty())
            .unwrap_or((inner, Self::Word))
    }

    fn suffix(self) -> &'static str {
        let of_form = Self::SUFFIXES.iter().find(|(_, form)| *form == self);
        of_form.map_or("", |(suffix, _)| suffix)
    }
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
    /// How it writes the value.
    pub form: ValueForm,
    /// It is the whole text.
    pub is_whole: bool,
    /// The text can begin with its value.
    pub is_first: bool,
}

/// As it is written: `{name:json}`.
impl fmt::Display for Placeholder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}{}}}", self.name, self.form.suffix())
    }
}

/// A part of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplatePart<'a> {
    /// Text that stays.
    Literal(&'a str),
    /// A placeholder, by the name of its property.
    Placeholder(&'a str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Property {
        name: String,
        form: ValueForm,
        column: usize,
    },
}

/// A text with placeholders, parsed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template {
    parts: Vec<Part>,
}

/// What may be left out, what may begin with `-`, and where files are.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) optional: &'a BTreeSet<String>,
    pub(crate) allow_leading_dash: &'a BTreeSet<String>,
    pub(crate) integers: &'a BTreeSet<String>,
    pub(crate) files: &'a ArgumentFiles<'a>,
    /// The element of an array that stands for its property.
    pub(crate) element: Option<(&'a str, &'a RawValue)>,
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
                    let (name, form) = ValueForm::split(&name);
                    let name = name.to_owned();
                    parts.push(Part::Property { name, form, column });
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

    /// The same; with `names`, placeholders must be among them.
    pub(crate) fn parse_with(text: &str, names: Option<&BTreeSet<String>>) -> Result<Self, TemplateError> {
        let template = Self::parse(text)?;
        if let Some(names) = names {
            template.check_names(names)?;
        }
        Ok(template)
    }

    /// The names in it, in order, repeated as they repeat.
    pub fn properties(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Property { name, .. } => Some(name.as_str()),
            Part::Literal(_) => None,
        })
    }

    /// Its parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = TemplatePart<'_>> {
        self.parts.iter().map(|part| match part {
            Part::Literal(text) => TemplatePart::Literal(text),
            Part::Property { name, .. } => TemplatePart::Placeholder(name),
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
                Part::Property { name, form, .. } => Some(Placeholder {
                    name,
                    form: *form,
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
    fn check_names(&self, names: &BTreeSet<String>) -> Result<(), TemplateError> {
        for part in &self.parts {
            if let Part::Property { name, column, .. } = part
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
        if let [Part::Property { name, form, .. }] = self.parts.as_slice()
            && *form == ValueForm::Word
            && let ArgumentValue::Words(words) = rules.value(name, arguments)?
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
                Part::Property { name, form, .. } => {
                    let Some(word) = rules.written(name, *form, arguments)? else {
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

    /// The text with each placeholder replaced by the value of its name; nothing takes the place of one without a value.
    ///
    /// ```
    /// use longhaul_command::Template;
    /// let greeting = Template::parse("Hello {name}{rest}").unwrap();
    /// assert_eq!(greeting.fill(|name| (name == "name").then_some("world")), "Hello world");
    /// ```
    pub fn fill<'v>(&self, value: impl Fn(&str) -> Option<&'v str>) -> String {
        let mut filled = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(text) => filled.push_str(text),
                Part::Property { name, .. } => filled.push_str(value(name).unwrap_or_default()),
            }
        }
        filled
    }

    /// The text of a call with these arguments, and with `defaults` for those that are left out: numbers as they are written shortest, nothing in the place
    /// of what is absent or null. The arguments were checked before; an array or object is its JSON.
    ///
    /// ```
    /// let template = longhaul_command::Template::parse("{env}/{n}{missing}").unwrap();
    /// let defaults = [("env".to_owned(), "prod".into())].into();
    /// assert_eq!(template.text_of(r#"{"n":5.0}"#, &defaults), "prod/5");
    /// ```
    pub fn text_of(&self, arguments: &str, defaults: &BTreeMap<String, Value>) -> String {
        let arguments: serde_json::Map<String, Value> = serde_json::from_str(arguments).unwrap_or_default();
        let value = |name: &String| arguments.get(name).or_else(|| defaults.get(name));
        let part = |part: &Part| match part {
            Part::Literal(literal) => literal.clone(),
            Part::Property { name, .. } => value(name).map(text_of_value).unwrap_or_default(),
        };
        self.parts.iter().map(part).collect()
    }

    /// The text of a call with these arguments as [`text_of`](Self::text_of) has it; `None` if one that it names is absent or null.
    ///
    /// ```
    /// let template = longhaul_command::Template::parse("{env}/{n}").unwrap();
    /// let defaults = [("env".to_owned(), "prod".into())].into();
    /// let arguments = |text| serde_json::from_str(text).unwrap();
    /// assert_eq!(template.whole_text_of(&arguments(r#"{"n":5.0}"#), &defaults).as_deref(), Some("prod/5"));
    /// assert_eq!(template.whole_text_of(&arguments(r#"{"n":null}"#), &defaults), None);
    /// ```
    pub fn whole_text_of(
        &self,
        arguments: &serde_json::Map<String, Value>,
        defaults: &BTreeMap<String, Value>,
    ) -> Option<String> {
        let value = |name: &String| arguments.get(name).or_else(|| defaults.get(name));
        let part = |part: &Part| match part {
            Part::Literal(literal) => Some(literal.clone()),
            Part::Property { name, .. } => value(name).filter(|value| !value.is_null()).map(text_of_value),
        };
        self.parts.iter().map(part).collect()
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
                Part::Property { name, form, .. } => {
                    if let Some(word) = rules.written(name, *form, arguments)? {
                        text.push_str(&word.text);
                    }
                }
            }
        }
        Ok(text)
    }
}

impl<'a> Rules<'a> {
    /// What a placeholder becomes; `None` if its property is optional and without a value.
    fn written(
        &self,
        name: &str,
        form: ValueForm,
        arguments: &Arguments<'a>,
    ) -> Result<Option<Word<'a>>, CommandArgumentError> {
        let Some(raw) = arguments.json(name) else {
            return self.absent(name).map(|()| None);
        };
        let text = match form {
            ValueForm::Word => match self.value(name, arguments)? {
                ArgumentValue::Word(word) => return Ok(Some(self.as_integer(name, word))),
                ArgumentValue::Words(_) => return Err(CommandArgumentError::ArrayInside(name.to_owned())),
                ArgumentValue::Absent => return self.absent(name).map(|()| None),
            },
            ValueForm::Json => json_text::compact(name, raw)?,
            ValueForm::File => self.files.path(name, arguments::file_contents(name, raw)?)?,
        };
        let is_number = text.starts_with(|char: char| char == '-' || char.is_ascii_digit());
        let text = text.into();
        Ok(Some(Word { text, is_number }))
    }

    /// Refuses that a property without a value is left out, unless it may be.
    pub(crate) fn absent(&self, name: &str) -> Result<(), CommandArgumentError> {
        if self.optional.contains(name) {
            return Ok(());
        }
        Err(CommandArgumentError::Missing(name.to_owned()))
    }

    /// Whether a switch is on; `None` without a value.
    pub(crate) fn flag(&self, name: &str, arguments: &Arguments<'_>) -> Result<Option<bool>, CommandArgumentError> {
        match arguments.json(name).map(RawValue::get) {
            None => self.absent(name).map(|()| None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(CommandArgumentError::NotABoolean(name.to_owned())),
        }
    }

    fn value(&self, name: &str, arguments: &Arguments<'a>) -> Result<ArgumentValue<'a>, CommandArgumentError> {
        match self.element {
            Some((property, element)) if property == name => arguments::word(name, element).map(ArgumentValue::Word),
            _ => arguments.get(name),
        }
    }

    /// JSON has one kind of numbers, so 5.0 and 5e0 are integers; programs want 5.
    fn as_integer<'w>(&self, name: &str, word: Word<'w>) -> Word<'w> {
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

fn text_of_value(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        // JSON has one kind of numbers.
        Value::Number(number) => number::as_integer(&number.to_string()).unwrap_or_else(|| number.to_string()),
        other => other.to_string(),
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

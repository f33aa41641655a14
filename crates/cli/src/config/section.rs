//! Reading TOML tables. A key that no getter has asked for is reported as unknown.

use super::{file::File, size};
use crate::output::nearest;
use longhaul_core::{Millis, format_duration, parse_duration};
use longhaul_runtime::ToolSettings;
use serde_json::Value;
use std::{
    cell::RefCell,
    fmt,
    ops::{Range, RangeInclusive},
    str::FromStr,
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// A table of the file. The getters of its entries report problems and then return `None`.
pub(crate) struct Section<'a> {
    file: &'a File,
    /// Its name in messages, for example ``[[tool]] `hash_tree` ``. The document itself has none.
    label: Option<String>,
    span: Option<Range<usize>>,
    entries: &'a DeTable<'a>,
    asked: RefCell<Vec<&'static str>>,
}

/// A key with its value.
#[derive(Clone)]
pub(crate) struct Entry<'a> {
    file: &'a File,
    key: String,
    span: Range<usize>,
    value: &'a DeValue<'a>,
}

/// Names that other programs use for a key, and the key.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("timeout", "deadline"),
    ("time_limit", "deadline"),
    ("max_duration", "deadline"),
    ("args", "command"),
    ("argv", "command"),
    ("cmd", "command"),
    ("exec", "command"),
    ("environment", "env"),
    ("envFile", "env_file"),
    ("environment_file", "env_file"),
    ("pass_env", "env_from"),
    ("dir", "cwd"),
    ("workdir", "cwd"),
    ("working_dir", "cwd"),
    ("working_directory", "cwd"),
    ("arguments", "input"),
    ("parameters", "input"),
    ("params", "input"),
    ("inputSchema", "input_schema"),
    ("outputSchema", "output_schema"),
    ("ttl", "retention"),
    ("max_ttl", "max_retention"),
    ("exit_codes", "success"),
    ("success_codes", "success"),
    ("stop_signal", "stop"),
    ("kill_signal", "stop"),
    ("stop_timeout", "stop"),
    ("kill_after", "stop"),
    ("retries", "retry"),
    ("max_retries", "retry"),
    ("parallel", "concurrency"),
    ("max_concurrency", "concurrency"),
    ("confirmation", "confirm"),
    ("approve", "confirm"),
    ("approval", "confirm"),
    ("address", "listen"),
    ("bind", "listen"),
    ("host", "listen"),
    ("port", "listen"),
    ("max_attempts", "attempts"),
    ("delay", "backoff"),
];

/// What people look for that a key cannot give, and what to do instead.
const IDEAS: &[(&[&str], &str)] = &[
    (
        &["schedule", "cron", "every", "at"],
        "a tool runs when it is called: have cron or a systemd timer start `longhaul call`",
    ),
    (
        &["depends", "depends_on", "needs", "requires", "after", "before"],
        "calls do not wait for each other: run the steps in one script, or write a durable tool (docs/durable-tools.md)",
    ),
    (
        &["secret", "secrets", "password", "token"],
        "name a variable of the server in `env_from`, or a file in `env_file`; their values are never shown",
    ),
    (
        &["shell", "script"],
        "no shell reads the command: write command = [\"sh\", \"-c\", \"…\"]",
    ),
];

/// What to do instead of the key `given`.
fn idea(given: &str) -> Option<String> {
    let (_, instead) = IDEAS.iter().find(|(names, _)| names.contains(&given))?;
    Some((*instead).to_owned())
}

/// Suggests the key that `given` is another name of.
fn meant(given: &str, known: &[&str]) -> Option<String> {
    let (_, key) = OTHER_NAMES.iter().find(|(other, _)| *other == given)?;
    known.contains(key).then(|| format!("did you mean `{key}`?"))
}

impl<'a> Section<'a> {
    /// The root table of the document.
    pub(super) fn root(file: &'a File, entries: &'a DeTable<'a>) -> Self {
        Self {
            file,
            label: None,
            span: None,
            entries,
            asked: RefCell::default(),
        }
    }

    /// The file this is part of.
    pub(super) fn file(&self) -> &'a File {
        self.file
    }

    /// Sets the section's name in messages.
    pub(super) fn name_as(&mut self, label: String) {
        self.label = Some(label);
    }

    /// Whether `key` is absent, and there is one that looks like a mistyped `key`.
    pub(super) fn has_mistyped(&self, key: &str) -> bool {
        let names = || self.entries.iter().map(|(name, _)| name.get_ref());
        names().all(|name| name != key) && names().any(|name| nearest::is_near(name, key))
    }

    /// Whether there is a value for `key`.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(name, _)| name.get_ref() == key)
    }

    /// The entry of `key`. Marks the key as known.
    pub(super) fn get(&self, key: &'static str) -> Option<Entry<'a>> {
        self.asked.borrow_mut().push(key);
        self.entries
            .iter()
            .find(|(name, _)| name.get_ref() == key)
            .map(|(_, value)| Entry {
                file: self.file,
                key: key.to_owned(),
                span: value.span(),
                value: value.get_ref(),
            })
    }

    /// The entry of `key`. Reports a problem if it is missing.
    pub(super) fn require(&self, key: &'static str) -> Option<Entry<'a>> {
        let entry = self.get(key);
        if entry.is_none() {
            self.report(format!(
                "{} needs the key `{key}`",
                self.label.as_deref().unwrap_or("the file")
            ));
        }
        entry
    }

    /// The value that `take` reads from the entry; `default` if there is no entry; `None` after a problem.
    pub(super) fn get_or<T>(
        &self,
        key: &'static str,
        default: T,
        take: impl FnOnce(&Entry<'a>) -> Option<T>,
    ) -> Option<T> {
        match self.get(key) {
            Some(entry) => take(&entry),
            None => Some(default),
        }
    }

    /// The same as [`get_or`](Self::get_or) for an optional value: `Some(None)` if there is no entry.
    pub(super) fn optional<T>(
        &self,
        key: &'static str,
        take: impl FnOnce(&Entry<'a>) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.get(key) {
            Some(entry) => take(&entry).map(Some),
            None => Some(None),
        }
    }

    /// A text that is not blank, if the key is there.
    pub(super) fn optional_text(&self, key: &'static str) -> Option<Option<String>> {
        self.optional(key, |entry| entry.filled_text().map(str::to_owned))
    }

    /// An array of strings, each of which is parsed as a `T`. Without the key there are none.
    pub(super) fn parsed_list<T: FromStr<Err: fmt::Display>>(&self, key: &'static str) -> Option<Vec<T>> {
        self.get_or(key, Vec::new(), |entry| {
            let parse = |(entry, text): (Entry<'_>, &str)| {
                let parsed = text
                    .parse()
                    .map_err(|error| entry.report(format!("`{key}`: {text:?}: {error}")));
                parsed.ok()
            };
            // Parses all of them first, so that every invalid element is reported.
            let parsed: Vec<_> = entry.texts()?.into_iter().map(parse).collect();
            parsed.into_iter().collect()
        })
    }

    /// Reports a mistake in the section as a whole.
    pub(super) fn report(&self, message: String) {
        self.file.report(self.span.clone(), message);
    }

    /// Reports a warning about the section as a whole.
    pub(super) fn warn(&self, message: String) {
        if let Some(span) = self.span.clone() {
            self.file.warn(span, message);
        }
    }

    /// Reports every unknown key. Call it after all known keys have been read. Returns whether there was none.
    pub(super) fn finish(&self) -> bool {
        let known = self.asked.borrow();
        let place = self
            .label
            .as_ref()
            .map(|label| format!(" in {label}"))
            .unwrap_or_default();
        let is_tool = known.contains(&"command");
        let unknown = || {
            let names = self.entries.iter().map(|(name, _)| name);
            names.filter(|name| !known.contains(&name.get_ref().as_ref()))
        };
        for name in unknown() {
            let hint = meant(name.get_ref(), &known)
                .or_else(|| idea(name.get_ref()).filter(|_| is_tool))
                .or_else(|| nearest::suggestion(name.get_ref(), known.iter().copied()))
                .unwrap_or_default();
            self.file.report(
                Some(name.span()),
                format!("unknown key `{}`{place}; {hint}", name.get_ref()),
            );
        }
        unknown().next().is_none()
    }
}

impl<'a> Entry<'a> {
    /// Reports a mistake in this entry's value.
    pub(super) fn report(&self, message: String) {
        self.file.report(Some(self.span.clone()), message);
    }

    /// Reports a warning about this entry's value.
    pub(super) fn warn(&self, message: String) {
        self.file.warn(self.span.clone(), message);
    }

    /// The file this is part of.
    pub(super) fn file(&self) -> &'a File {
        self.file
    }

    /// The entry's name in messages.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// A string, or `None` without a report. Use it for secret values, which messages must not show.
    pub(super) fn text_if_any(&self) -> Option<&'a str> {
        match self.value {
            DeValue::String(text) => Some(text.as_ref()),
            _ => None,
        }
    }

    /// Line of the value, counted from 1.
    pub(super) fn line(&self) -> usize {
        self.file.line(self.span.start)
    }

    fn wrong<T>(&self, expected: &str) -> Option<T> {
        self.report(format!(
            "`{}` must be {expected}, not {}",
            self.key,
            describe(self.value)
        ));
        None
    }

    /// A string.
    pub(super) fn text(&self) -> Option<&'a str> {
        self.text_like("a string")
    }

    /// A string. `expected` describes it in messages.
    pub(super) fn text_like(&self, expected: &str) -> Option<&'a str> {
        match self.value {
            DeValue::String(text) => Some(text.as_ref()),
            _ => self.wrong(expected),
        }
    }

    /// A string that is an element of an array.
    pub(super) fn text_in_array(&self) -> Option<&'a str> {
        let DeValue::String(text) = self.value else {
            self.report(format!(
                "`{}` must be an array of strings; an element is {}",
                self.key,
                describe(self.value)
            ));
            return None;
        };
        Some(text)
    }

    /// A string that is not blank.
    pub(super) fn filled_text(&self) -> Option<&'a str> {
        let text = self.text()?;
        if text.trim().is_empty() {
            self.report(format!("`{}` must not be empty", self.key));
            return None;
        }
        Some(text)
    }

    /// Whether it is an array; anything else is no problem yet.
    pub(super) fn is_array(&self) -> bool {
        matches!(self.value, DeValue::Array(_))
    }

    /// Whether it is a table; anything else is no problem yet.
    pub(super) fn is_table(&self) -> bool {
        matches!(self.value, DeValue::Table(_))
    }

    /// Whether it is `false`; anything else is no problem yet.
    pub(super) fn is_false(&self) -> bool {
        matches!(self.value, DeValue::Boolean(false))
    }

    /// `true` or `false`.
    pub(super) fn flag(&self) -> Option<bool> {
        self.flag_or("true or false")
    }

    /// The same of an entry that may be something else. `expected` names all it may be.
    pub(super) fn flag_or(&self, expected: &str) -> Option<bool> {
        match self.value {
            DeValue::Boolean(flag) => Some(*flag),
            _ => self.wrong(expected),
        }
    }

    /// Exactly these words, which are written out because of what they mean.
    pub(super) fn words(&self, words: &str) -> Option<bool> {
        match self.value {
            DeValue::String(text) if text == words => Some(true),
            DeValue::Boolean(false) => Some(false),
            _ => self.wrong(&format!("the words {words:?}, or false")),
        }
    }

    /// A whole number from 1 up to `most`.
    pub(super) fn count(&self, most: u32) -> Option<u32> {
        self.number_in(1..=most)
    }

    /// A whole number in a range.
    pub(super) fn number_in(&self, range: RangeInclusive<u32>) -> Option<u32> {
        let number = match self.value {
            DeValue::Integer(number) => u32::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        match number.filter(|number| range.contains(number)) {
            Some(number) => Some(number),
            None => self.wrong(&format!("a whole number from {} to {}", range.start(), range.end())),
        }
    }

    /// Who may do what with a file, in octal digits.
    pub(super) fn file_mode(&self) -> Option<u32> {
        let mode = match self.value {
            DeValue::String(text) => u32::from_str_radix(text, 8).ok(),
            // A decimal number is hardly meant.
            DeValue::Integer(number) if number.radix() == 8 => u32::from_str_radix(number.as_str(), 8).ok(),
            _ => None,
        };
        match mode.filter(|mode| *mode <= 0o777) {
            Some(mode) => Some(mode),
            None => self.wrong("the mode of a file in octal digits, such as \"0660\""),
        }
    }

    /// A duration, 0 included.
    pub(super) fn duration(&self) -> Option<Millis> {
        let text = self.text_like("a duration such as \"500ms\", \"5s\", \"1h\" or \"7d\"")?;
        parse_duration(text)
            .map_err(|error| self.report(format!("`{}`: {error}", self.key)))
            .ok()
    }

    /// A duration longer than 0.
    pub(super) fn positive_duration(&self) -> Option<Millis> {
        let millis = self.duration()?;
        if millis == 0 {
            self.report(format!("`{}` must be longer than 0", self.key));
            return None;
        }
        Some(millis)
    }

    /// A duration in a range.
    pub(super) fn duration_in(&self, range: RangeInclusive<Millis>) -> Option<Millis> {
        let millis = self.duration()?;
        if !range.contains(&millis) {
            self.report(format!(
                "`{}` must be {} to {}",
                self.key,
                format_duration(*range.start()),
                format_duration(*range.end())
            ));
            return None;
        }
        Some(millis)
    }

    /// A retention: a duration longer than 0, or unlimited.
    pub(super) fn retention(&self) -> Option<Millis> {
        match self.value {
            DeValue::String(text) if text == "forever" => Some(ToolSettings::FOREVER),
            _ => self.positive_duration(),
        }
    }

    /// A size of at least one byte.
    pub(super) fn size(&self) -> Option<u64> {
        let text = self.text_like("a size such as \"64KiB\" or \"4MiB\"")?;
        size::parse(text)
            .map_err(|error| self.report(format!("`{}`: {error}", self.key)))
            .ok()
    }

    /// One of the words in `choices`.
    pub(super) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let words = choices
            .iter()
            .map(|(word, _)| format!("\"{word}\""))
            .collect::<Vec<_>>()
            .join(", ");
        let text = self.text_like(&format!("one of {words}"))?;
        match choices.iter().find(|(word, _)| *word == text) {
            Some((_, chosen)) => Some(*chosen),
            None => self.wrong(&format!("one of {words}")),
        }
    }

    /// The entries of an array, each named like the array.
    pub(super) fn elements(&self, expected: &str) -> Option<Vec<Entry<'a>>> {
        match self.value {
            DeValue::Array(elements) => Some(elements.iter().map(|element| self.element(element)).collect()),
            _ => self.wrong(expected),
        }
    }

    fn element(&self, element: &'a Spanned<DeValue<'a>>) -> Entry<'a> {
        Entry {
            file: self.file,
            key: self.key.clone(),
            span: element.span(),
            value: element.get_ref(),
        }
    }

    /// An array of strings; `None` if one of them is something else.
    pub(super) fn texts(&self) -> Option<Vec<(Entry<'a>, &'a str)>> {
        let texts = self.elements("an array of strings")?;
        // Collected first, so that every wrong element is reported.
        let texts: Vec<_> = texts
            .into_iter()
            .map(|element| Some((element.text_in_array()?, element)))
            .collect();
        texts
            .into_iter()
            .map(|text| text.map(|(text, element)| (element, text)))
            .collect()
    }

    /// A table with known keys. `form` describes it in messages.
    pub(super) fn section(&self, label: &str, form: &str) -> Option<Section<'a>> {
        Some(Section {
            file: self.file,
            label: Some(label.to_owned()),
            span: Some(self.span.clone()),
            entries: self.table(&format!("a table {form}"))?,
            asked: RefCell::default(),
        })
    }

    /// A table whose keys the user chooses.
    pub(super) fn pairs(&self, expected: &str) -> Option<Vec<(&'a str, Entry<'a>)>> {
        let pairs = self.table(expected)?.iter().map(|(name, value)| {
            let name: &'a str = name.get_ref().as_ref();
            let key = format!("{}.{name}", self.key);
            (
                name,
                Entry {
                    file: self.file,
                    key,
                    span: value.span(),
                    value: value.get_ref(),
                },
            )
        });
        Some(pairs.collect())
    }

    fn table(&self, expected: &str) -> Option<&'a DeTable<'a>> {
        match self.value {
            DeValue::Table(table) => Some(table),
            _ => self.wrong(expected),
        }
    }

    /// The value as JSON.
    pub(super) fn json(&self) -> Option<Value> {
        to_json(self.value)
            .map_err(|what| self.report(format!("`{}` holds {what}, which JSON does not know", self.key)))
            .ok()
    }
}

/// Describes a value briefly for a message.
fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) if text.chars().count() <= 40 => format!("{text:?}"),
        DeValue::String(_) => "a long string".to_owned(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// Converts a TOML value to JSON. The error names what JSON does not have.
fn to_json(value: &DeValue<'_>) -> Result<Value, &'static str> {
    Ok(match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Boolean(flag) => Value::from(*flag),
        DeValue::Integer(number) => {
            let number = i64::from_str_radix(number.as_str(), number.radix());
            Value::from(number.map_err(|_| "a number beyond 64 bits")?)
        }
        DeValue::Float(number) => {
            let number = number.as_str().parse().ok().and_then(serde_json::Number::from_f64);
            Value::Number(number.ok_or("a number that is not finite")?)
        }
        DeValue::Datetime(_) => return Err("a date (put it in quotes)"),
        DeValue::Array(elements) => elements
            .iter()
            .map(|element| to_json(element.get_ref()))
            .collect::<Result<Vec<_>, _>>()?
            .into(),
        DeValue::Table(table) => {
            let pairs = table
                .iter()
                .map(|(name, value)| Ok((name.get_ref().to_string(), to_json(value.get_ref())?)));
            Value::Object(pairs.collect::<Result<_, &'static str>>()?)
        }
    })
}

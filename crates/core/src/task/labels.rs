//! Labels: names and values by which operators find and count tasks.

use crate::{Json, plain_line, truncate};
use serde_json::{Map, Value};
use std::{fmt, str::FromStr, sync::Arc};

/// A name and a value of a task, such as `team=infra`.
///
/// ```
/// let label: longhaul_core::Label = "team=infra".parse().unwrap();
/// assert_eq!((label.name(), label.value(), label.to_string().as_str()), ("team", "infra", "team=infra"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    name: Arc<str>,
    value: Arc<str>,
}

/// The text is no label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a label is a name and a value, such as team=infra; a name has 1 to {longest} of the characters A-Z a-z 0-9 _ - .", longest = Label::LONGEST_NAME)]
pub struct InvalidLabel;

impl Label {
    /// The longest name, in bytes.
    pub const LONGEST_NAME: usize = 32;
    /// The longest value, in bytes. A longer one is cut.
    pub const LONGEST_VALUE: usize = 128;

    /// A label. Control characters of the value are spaces, and what is too long is cut. `None` without a value, and if the name is none.
    ///
    /// ```
    /// use longhaul_core::Label;
    /// assert_eq!(Label::new("branch", " a\nb ").unwrap().value(), "a b");
    /// assert_eq!(Label::new("branch", " "), None);
    /// assert_eq!(Label::new("my branch", "a"), None);
    /// ```
    pub fn new(name: &str, value: &str) -> Option<Self> {
        let value = plain_line(value);
        let value = truncate(value.trim(), Self::LONGEST_VALUE).trim_end();
        (Self::is_name(name) && !value.is_empty()).then(|| Self {
            name: name.into(),
            value: value.into(),
        })
    }

    /// Whether a label can have this name.
    pub fn is_name(text: &str) -> bool {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        (1..=Self::LONGEST_NAME).contains(&text.len()) && text.bytes().all(is_allowed)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its value, which is not empty.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

impl FromStr for Label {
    type Err = InvalidLabel;

    fn from_str(text: &str) -> Result<Self, InvalidLabel> {
        let (name, value) = text.split_once('=').ok_or(InvalidLabel)?;
        Self::new(name.trim(), value).ok_or(InvalidLabel)
    }
}

/// The labels of a task. Most tasks have none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Labels(Option<Arc<[Label]>>);

impl Labels {
    /// The most that a task has.
    pub const MOST: usize = 8;

    /// In the order of their names. Of those with the same name the first is kept, and what is above [`MOST`](Self::MOST) is not.
    pub fn new(labels: impl IntoIterator<Item = Label>) -> Self {
        let mut labels: Vec<Label> = labels.into_iter().collect();
        labels.sort_by(|one, other| one.name.cmp(&other.name));
        labels.dedup_by(|later, earlier| later.name == earlier.name);
        labels.truncate(Self::MOST);
        Self((!labels.is_empty()).then(|| labels.into()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// In the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.0.iter().flat_map(|labels| labels.iter())
    }

    /// Whether `label` is one of them.
    pub fn has(&self, label: &Label) -> bool {
        self.iter().any(|own| own == label)
    }

    /// As a store keeps them and clients see them: `{"team":"infra"}`.
    ///
    /// ```
    /// use longhaul_core::{Label, Labels};
    /// let labels = Labels::new([Label::new("team", "infra").unwrap(), Label::new("env", "prod").unwrap()]);
    /// assert_eq!(labels.to_json().as_str(), r#"{"env":"prod","team":"infra"}"#);
    /// assert_eq!(Labels::from_json(labels.to_json().as_str()), Some(labels));
    /// ```
    pub fn to_json(&self) -> Json {
        let members = self
            .iter()
            .map(|label| (label.name().to_owned(), Value::from(label.value())));
        Json::from(Value::Object(members.collect()))
    }

    /// Those that [`to_json`](Self::to_json) has written; `None` of another text.
    pub fn from_json(text: &str) -> Option<Self> {
        let members: Map<String, Value> = serde_json::from_str(text).ok()?;
        let label = |(name, value): (&String, &Value)| Label::new(name, value.as_str()?);
        Some(Self::new(members.iter().map(label).collect::<Option<Vec<_>>>()?))
    }
}

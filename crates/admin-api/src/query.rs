//! The parameters of requests, as they are written in a URL. Each is text, and an empty one says nothing.

use longhaul_core::{InvalidLabel, Label};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

/// As the query of a URL, without what is empty.
pub fn to_url(query: &impl Serialize) -> String {
    let members = serde_json::to_value(query).unwrap_or_default();
    let members = members.as_object().into_iter().flatten();
    let given = members.filter_map(|(name, value)| Some((name, value.as_str().filter(|text| !text.is_empty())?)));
    let pairs = given.map(|(name, text)| format!("{name}={}", utf8_percent_encode(text, NON_ALPHANUMERIC)));
    pairs.collect::<Vec<_>>().join("&")
}

/// The labels of a [`TaskQuery`]. A comma of a value is written `\\,`, and a backslash `\\\\`.
///
/// ```
/// use longhaul_admin_api::{labels, labels_text};
/// let found = labels(r"team=infra, note=a\,b").unwrap();
/// assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ["team=infra", "note=a,b"]);
/// assert_eq!(labels_text(&found), r"team=infra,note=a\,b");
/// assert!(labels("infra").is_err());
/// ```
///
/// # Errors
/// [`InvalidLabel`] for the first part that is none.
pub fn labels(text: &str) -> Result<Vec<Label>, InvalidLabel> {
    let mut parts = vec![String::new()];
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, parts.last_mut()) {
            (',', _) => parts.push(String::new()),
            ('\\', Some(part)) => part.extend(letters.next()),
            (letter, Some(part)) => part.push(letter),
            (_, None) => {}
        }
    }
    let given = parts.iter().filter(|part| !part.trim().is_empty());
    given.map(|part| part.parse()).collect()
}

/// What [`labels`] reads as these labels.
pub fn labels_text<'a>(labels: impl IntoIterator<Item = &'a Label>) -> String {
    let escaped = |label: &Label| label.to_string().replace('\\', "\\\\").replace(',', "\\,");
    labels.into_iter().map(escaped).collect::<Vec<_>>().join(",")
}

/// Which tasks are asked for: the same parameters in the API, on the page and in the command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TaskQuery {
    /// States, separated by commas: `queued`, `running`, `suspended`, `blocked`, `succeeded`, `failed`, `cancelled`; `live` is the first four, `ended` the others.
    pub state: String,
    /// A tool.
    pub tool: String,
    /// An upstream: all tools that it has, or had since the start. Of a tool that was not offered since then, this is known while it has live tasks.
    pub upstream: String,
    /// A principal.
    pub principal: String,
    /// `legacy` or `modern`.
    pub origin: String,
    /// The id of the task that has started them.
    pub parent: String,
    /// Labels that they all have, separated by commas: `team=infra,env=prod`. [`labels`] reads it.
    pub label: String,
    /// `yes` for those with an open question.
    pub asks: String,
    /// A part of the status message. The last line of a log is not searched.
    pub text: String,
    /// Those that ended as long ago as this or longer, such as `1h`, and live ones as old as this or older.
    pub older: String,
    /// Those that ended within this time, and live ones younger than this.
    pub younger: String,
    /// `newest` first, which is the default, or `oldest`.
    pub order: String,
    /// Where the page before ended.
    pub after: String,
    /// How many tasks at most, up to 500; 50 by default.
    pub limit: String,
}

/// Which lines of the audit log are asked for: those that have all of these.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuditQuery {
    /// The id of a task.
    pub task: String,
    /// Whose requests.
    pub principal: String,
    /// What was done, such as `cancel`.
    pub action: String,
    /// How it went, such as `denied`.
    pub outcome: String,
    /// How many: 1 to 1000, and 100 by default.
    pub limit: String,
}

impl AuditQuery {
    /// Whether not all lines are asked for.
    pub fn is_filtered(&self) -> bool {
        [&self.task, &self.principal, &self.action, &self.outcome]
            .into_iter()
            .any(|text| !text.is_empty())
    }
}

/// How a server is drained.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DrainQuery {
    /// How long what runs may take to end; empty for the server's own setting.
    pub timeout: String,
}

/// Where a part of a journal begins.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JournalQuery {
    /// Behind this position.
    pub after: String,
}

/// Which part of a log is asked for; its end if nothing is said.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogQuery {
    /// Of which attempt; the latest if nothing is said.
    pub attempt: String,
    /// Where it begins, in bytes.
    pub offset: String,
    /// How many bytes at most.
    pub limit: String,
}

/// Whose files are asked for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ArtifactQuery {
    /// Of which attempt; the latest if nothing is said.
    pub attempt: String,
}

/// Which schedules are asked for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScheduleQuery {
    /// Behind this name.
    pub after: String,
    /// How many at most, up to 500; 100 by default.
    pub limit: String,
}

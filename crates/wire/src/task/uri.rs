//! The URIs of a task's log, output, history and artifacts, such as `longhaul://task/{id}/log{?attempt,offset,limit}`.

use longhaul_core::{TaskId, uri_path};
use percent_encoding::percent_decode_str;
use std::{fmt, str::FromStr};

/// A part of a task that can be read as a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskPart {
    /// What its command wrote, addressed in bytes.
    Log,
    /// The content blocks its code has emitted, addressed by index in its journal.
    Output,
    /// The entries of its journal, addressed by index.
    History,
    /// The files that an attempt has left: their list, or one of them, addressed in bytes.
    Artifacts,
}

/// The URI of a part of a task, or of a range of it.
///
/// ```
/// use longhaul_wire::{TaskPart, TaskUri};
/// let uri: TaskUri = "longhaul://task/abc/log?limit=100&offset=5".parse().unwrap();
/// assert_eq!((uri.part, uri.from, uri.limit), (TaskPart::Log, Some(5), Some(100)));
/// assert_eq!(uri.to_string(), "longhaul://task/abc/log?offset=5&limit=100");
/// let uri: TaskUri = "longhaul://task/abc/output?after=7".parse().unwrap();
/// assert_eq!((uri.part, uri.from), (TaskPart::Output, Some(7)));
/// let uri: TaskUri = "longhaul://task/abc/artifacts/out/a%20b.pdf?offset=5".parse().unwrap();
/// assert_eq!((uri.part, uri.artifact.as_deref()), (TaskPart::Artifacts, Some("out/a b.pdf")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskUri {
    /// The task.
    pub task: TaskId,
    /// The part of it.
    pub part: TaskPart,
    /// The artifact, by its name; without one it is the list of them.
    pub artifact: Option<String>,
    /// Of a log and of artifacts: the number of the attempt whose they are, if that is not the latest one.
    pub attempt: Option<u32>,
    /// Where to begin. Of a log: `offset`, the first byte; without it and without a limit, the end of the log is read. Of an artifact the same; without it the beginning is read. Of an output or
    /// a history: `after`, the index before the first one wanted.
    pub from: Option<u64>,
    /// How much to read at most: bytes of a log or an artifact, else blocks or entries.
    pub limit: Option<u64>,
}

/// The text is not the URI of a part of a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTaskUri {
    /// It is another URI, or not a URI.
    #[error("not the URI of a task's log, output, history or artifacts")]
    NotATaskUri,
    /// The query of the URI is invalid.
    #[error("{pair}: the URI of a task's {part} takes {takes}")]
    BadRange {
        /// The invalid query parameter.
        pair: String,
        /// `log`
        part: &'static str,
        /// What is valid.
        takes: &'static str,
    },
}

impl TaskPart {
    const ALL: [Self; 4] = [Self::Log, Self::Output, Self::History, Self::Artifacts];

    /// Its name in a URI.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Output => "output",
            Self::History => "history",
            Self::Artifacts => "artifacts",
        }
    }

    /// The query parameter that says where to begin.
    const fn start_parameter(self) -> &'static str {
        match self {
            Self::Log | Self::Artifacts => "offset",
            Self::Output | Self::History => "after",
        }
    }
}

impl TaskUri {
    /// The URI of a part of `task`, without a range.
    pub fn of(task: TaskId, part: TaskPart) -> Self {
        Self {
            task,
            part,
            artifact: None,
            attempt: None,
            from: None,
            limit: None,
        }
    }

    fn take(&mut self, pair: &str) -> Option<()> {
        let (name, value) = pair.split_once('=')?;
        if name == "attempt" && matches!(self.part, TaskPart::Log | TaskPart::Artifacts) {
            let number = number(value).and_then(|number| u32::try_from(number).ok())?;
            return (number > 0 && self.attempt.replace(number).is_none()).then_some(());
        }
        let slot = match name {
            // Of the list there is no part.
            _ if self.part == TaskPart::Artifacts && self.artifact.is_none() => return None,
            "limit" => &mut self.limit,
            from if from == self.part.start_parameter() => &mut self.from,
            _ => return None,
        };
        slot.replace(number(value)?).is_none().then_some(())
    }

    /// What its query may have.
    const fn takes(&self) -> &'static str {
        match (self.part, &self.artifact) {
            (TaskPart::Artifacts, None) => "attempt once, a whole number above 0",
            (TaskPart::Log | TaskPart::Artifacts, _) => {
                "offset and limit, each once, whole numbers; and attempt, above 0"
            }
            (TaskPart::Output | TaskPart::History, _) => "after and limit, each once, whole numbers",
        }
    }
}

fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

impl FromStr for TaskUri {
    type Err = InvalidTaskUri;

    fn from_str(text: &str) -> Result<Self, InvalidTaskUri> {
        let (path, query) = text
            .split_once('?')
            .map_or((text, None), |(path, query)| (path, Some(query)));
        let (id, rest) = path
            .strip_prefix("longhaul://task/")
            .and_then(|rest| rest.split_once('/'))
            .ok_or(InvalidTaskUri::NotATaskUri)?;
        let (part, artifact) = match rest.split_once('/') {
            Some((part, name)) if part == TaskPart::Artifacts.name() => (part, Some(name)),
            _ => (rest, None),
        };
        let part = TaskPart::ALL.into_iter().find(|known| known.name() == part);
        let (Ok(task), Some(part)) = (id.parse(), part) else {
            return Err(InvalidTaskUri::NotATaskUri);
        };
        let mut uri = Self::of(task, part);
        if let Some(name) = artifact {
            let name = percent_decode_str(name).decode_utf8().ok();
            let name = name
                .filter(|name| !name.is_empty())
                .ok_or(InvalidTaskUri::NotATaskUri)?;
            uri.artifact = Some(name.into_owned());
        }
        for pair in query
            .into_iter()
            .flat_map(|query| query.split('&'))
            .filter(|pair| !pair.is_empty())
        {
            let taken = uri.take(pair);
            taken.ok_or_else(|| InvalidTaskUri::BadRange {
                pair: pair.to_owned(),
                part: part.name(),
                takes: uri.takes(),
            })?;
        }
        Ok(uri)
    }
}

impl fmt::Display for TaskUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "longhaul://task/{}/{}", self.task, self.part.name())?;
        if let Some(name) = &self.artifact {
            write!(f, "/{}", uri_path(name))?;
        }
        let mut mark = '?';
        for (name, value) in [
            ("attempt", self.attempt.map(u64::from)),
            (self.part.start_parameter(), self.from),
            ("limit", self.limit),
        ] {
            if let Some(value) = value {
                write!(f, "{mark}{name}={value}")?;
                mark = '&';
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{prelude::*, sample::select};

    proptest! {
        #[test]
        fn uris_round_trip(
            id in "[A-Za-z0-9_-]{1,64}",
            part in select(&TaskPart::ALL[..]),
            attempt in proptest::option::of(1_u32..),
            from in any::<Option<u64>>(),
            limit in any::<Option<u64>>(),
            artifact in proptest::option::of(".{1,20}"),
        ) {
            let artifact = artifact.filter(|_| part == TaskPart::Artifacts);
            let attempt = attempt.filter(|_| matches!(part, TaskPart::Log | TaskPart::Artifacts));
            let has_range = part != TaskPart::Artifacts || artifact.is_some();
            let [from, limit] = [from, limit].map(|number| number.filter(|_| has_range));
            let uri = TaskUri { task: id.parse().unwrap(), part, artifact, attempt, from, limit };
            prop_assert_eq!(uri.to_string().parse::<TaskUri>().unwrap(), uri);
        }

        #[test]
        fn no_text_panics(text in "(longhaul://task/(a/artifacts/)?)?[a-z/?&=%0-9.-]{0,30}") {
            let _ = text.parse::<TaskUri>();
        }
    }

    #[test]
    fn other_uris_and_bad_ranges_are_different_errors() {
        for text in [
            "",
            "longhaul://task//log",
            "longhaul://task/a",
            "longhaul://task/a/b/log",
            "longhaul://task/a/journal",
            "longhaul://task/../log",
            "file:///task/a/log",
            "longhaul://task/a/log/",
            "longhaul://task/a/log/x",
            "longhaul://task/a/artifacts/",
            "longhaul://task/a/artifacts/%ff",
        ] {
            assert_eq!(text.parse::<TaskUri>(), Err(InvalidTaskUri::NotATaskUri), "{text}");
        }
        for rest in [
            "log?offset",
            "log?offset=",
            "log?offset=-1",
            "log?offset=+1",
            "log?limit=1&limit=2",
            "log?after=1",
            "log?attempt=0",
            "log?attempt=1&attempt=1",
            "log?attempt=4294967296",
            "history?attempt=1",
            "output?offset=1",
            "history?from=1",
            "artifacts?offset=1",
            "artifacts?attempt=0",
            "artifacts/a.pdf?after=1",
            "artifacts/a.pdf?offset=x",
            "output?limit=99999999999999999999",
        ] {
            let text = format!("longhaul://task/a/{rest}");
            let read = text.parse::<TaskUri>();
            assert!(matches!(read, Err(InvalidTaskUri::BadRange { .. })), "{text}");
        }
    }
}

//! The URIs of a task's log, output and history, such as `longhaul://task/{id}/log{?attempt,offset,limit}`.

use longhaul_core::TaskId;
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
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskUri {
    /// The task.
    pub task: TaskId,
    /// The part of it.
    pub part: TaskPart,
    /// Of a log: the number of the attempt whose log it is, if that is not the latest one.
    pub attempt: Option<u32>,
    /// Where to begin. Of a log: `offset`, the first byte; without it and without a limit, the end of the log is read. Of an output or
    /// a history: `after`, the index before the first one wanted.
    pub from: Option<u64>,
    /// How much to read at most: bytes of a log, else blocks or entries.
    pub limit: Option<u64>,
}

/// The text is not the URI of a part of a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTaskUri {
    /// It is another URI, or not a URI.
    #[error("not the URI of a task's log, output or history")]
    NotATaskUri,
    /// The query of the URI is invalid.
    #[error("{pair}: the URI of a task's {part} takes {from} and limit, each once, whole numbers{}", if *.part == "log" { "; and attempt, above 0" } else { "" })]
    BadRange {
        /// The invalid query parameter.
        pair: String,
        /// `log`
        part: &'static str,
        /// `offset`
        from: &'static str,
    },
}

impl TaskPart {
    const ALL: [Self; 3] = [Self::Log, Self::Output, Self::History];

    /// Its name in a URI.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Output => "output",
            Self::History => "history",
        }
    }

    /// The query parameter that says where to begin.
    const fn start_parameter(self) -> &'static str {
        match self {
            Self::Log => "offset",
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
            attempt: None,
            from: None,
            limit: None,
        }
    }

    fn take(&mut self, pair: &str) -> Option<()> {
        let (name, value) = pair.split_once('=')?;
        if name == "attempt" && self.part == TaskPart::Log {
            let number = number(value).and_then(|number| u32::try_from(number).ok())?;
            return (number > 0 && self.attempt.replace(number).is_none()).then_some(());
        }
        let slot = match name {
            "limit" => &mut self.limit,
            from if from == self.part.start_parameter() => &mut self.from,
            _ => return None,
        };
        slot.replace(number(value)?).is_none().then_some(())
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
        let (id, part) = path
            .strip_prefix("longhaul://task/")
            .and_then(|rest| rest.rsplit_once('/'))
            .ok_or(InvalidTaskUri::NotATaskUri)?;
        let part = TaskPart::ALL.into_iter().find(|known| known.name() == part);
        let (Ok(task), Some(part)) = (id.parse(), part) else {
            return Err(InvalidTaskUri::NotATaskUri);
        };
        let mut uri = Self::of(task, part);
        for pair in query
            .into_iter()
            .flat_map(|query| query.split('&'))
            .filter(|pair| !pair.is_empty())
        {
            uri.take(pair).ok_or_else(|| InvalidTaskUri::BadRange {
                pair: pair.to_owned(),
                part: part.name(),
                from: part.start_parameter(),
            })?;
        }
        Ok(uri)
    }
}

impl fmt::Display for TaskUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "longhaul://task/{}/{}", self.task, self.part.name())?;
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
        ) {
            let attempt = attempt.filter(|_| part == TaskPart::Log);
            let uri = TaskUri { task: id.parse().unwrap(), part, attempt, from, limit };
            prop_assert_eq!(uri.to_string().parse::<TaskUri>().unwrap(), uri);
        }

        #[test]
        fn no_text_panics(text in "(longhaul://task/)?[a-z/?&=%0-9.-]{0,30}") {
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
            "output?limit=99999999999999999999",
        ] {
            let text = format!("longhaul://task/a/{rest}");
            let read = text.parse::<TaskUri>();
            assert!(matches!(read, Err(InvalidTaskUri::BadRange { .. })), "{text}");
        }
    }
}

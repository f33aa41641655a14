//! The addresses of what is kept of a task: `longhaul://task/{id}/log{?offset,limit}` and its neighbours.

use longhaul_core::TaskId;
use std::{fmt, str::FromStr};

/// What can be read of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskPart {
    /// What its command wrote: a text, in bytes.
    Log,
    /// What its code has given out before its end: blocks of content, in places of its journal.
    Output,
    /// What its code has come to: entries, in places of its journal.
    History,
}

/// The address, or a stretch, of a part of a task.
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
    /// Whose.
    pub task: TaskId,
    /// What of it.
    pub part: TaskPart,
    /// Where to begin: a log's `offset`, the first byte wanted (with neither this nor a limit its end is meant); or else `after`, the
    /// last place that is known already.
    pub from: Option<u64>,
    /// At most so much: bytes of a log, else blocks or entries.
    pub limit: Option<u64>,
}

/// Why a text is not the address of a part of a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTaskUri {
    /// It addresses something else, or nothing.
    #[error("not the address of a part of a task")]
    NotOne,
    /// It addresses a part of a task, and what follows the `?` cannot be understood.
    #[error("{pair}: the address of a task's {part} takes {from} and limit, each once, whole numbers")]
    BadRange {
        /// What is not understood.
        pair: String,
        /// `log`
        part: &'static str,
        /// `offset`
        from: &'static str,
    },
}

impl TaskPart {
    const ALL: [Self; 3] = [Self::Log, Self::Output, Self::History];

    /// The word for it in an address.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Output => "output",
            Self::History => "history",
        }
    }

    /// What says where to begin.
    const fn begins_with(self) -> &'static str {
        match self {
            Self::Log => "offset",
            Self::Output | Self::History => "after",
        }
    }
}

impl TaskUri {
    /// The whole part of `task`; of a log that reads as its end.
    pub fn of(task: TaskId, part: TaskPart) -> Self {
        Self {
            task,
            part,
            from: None,
            limit: None,
        }
    }

    fn take(&mut self, pair: &str) -> Option<()> {
        let (name, value) = pair.split_once('=')?;
        let slot = match name {
            "limit" => &mut self.limit,
            from if from == self.part.begins_with() => &mut self.from,
            _ => return None,
        };
        let digits = value.bytes().all(|byte| byte.is_ascii_digit());
        let number = value.parse().ok().filter(|_| digits)?;
        slot.replace(number).is_none().then_some(())
    }
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
            .ok_or(InvalidTaskUri::NotOne)?;
        let part = TaskPart::ALL.into_iter().find(|known| known.name() == part);
        let (Ok(task), Some(part)) = (id.parse(), part) else {
            return Err(InvalidTaskUri::NotOne);
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
                from: part.begins_with(),
            })?;
        }
        Ok(uri)
    }
}

impl fmt::Display for TaskUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "longhaul://task/{}/{}", self.task, self.part.name())?;
        let mut mark = '?';
        for (name, value) in [(self.part.begins_with(), self.from), ("limit", self.limit)] {
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
        fn addresses_survive_the_round_trip(
            id in "[A-Za-z0-9_-]{1,64}",
            part in select(&TaskPart::ALL[..]),
            from in any::<Option<u64>>(),
            limit in any::<Option<u64>>(),
        ) {
            let uri = TaskUri { task: id.parse().unwrap(), part, from, limit };
            prop_assert_eq!(uri.to_string().parse::<TaskUri>().unwrap(), uri);
        }

        #[test]
        fn no_text_panics(text in "(longhaul://task/)?[a-z/?&=%0-9.-]{0,30}") {
            let _ = text.parse::<TaskUri>();
        }
    }

    #[test]
    fn other_addresses_and_bad_ranges_are_told_apart() {
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
            assert_eq!(text.parse::<TaskUri>(), Err(InvalidTaskUri::NotOne), "{text}");
        }
        for rest in [
            "log?offset",
            "log?offset=",
            "log?offset=-1",
            "log?offset=+1",
            "log?limit=1&limit=2",
            "log?after=1",
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

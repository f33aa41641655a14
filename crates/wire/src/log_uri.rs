//! The address of a task's log: `longhaul://task/{id}/log{?offset,limit}`.

use longhaul_core::TaskId;
use std::{fmt, str::FromStr};

/// The address, or a stretch, of a task's log.
///
/// ```
/// use longhaul_wire::LogUri;
/// let uri: LogUri = "longhaul://task/abc/log?limit=100&offset=5".parse().unwrap();
/// assert_eq!((uri.offset, uri.limit), (Some(5), Some(100)));
/// assert_eq!(uri.to_string(), "longhaul://task/abc/log?offset=5&limit=100");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogUri {
    /// Whose log.
    pub task: TaskId,
    /// First byte wanted, counted from the log's beginning. With neither this nor a limit the log's end is meant.
    pub offset: Option<u64>,
    /// At most so many bytes.
    pub limit: Option<u64>,
}

/// Why a text is not the address of a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLogUri {
    /// It addresses something else, or nothing.
    #[error("not the address of a task's log")]
    NotALog,
    /// It addresses a log, and what follows the `?` cannot be understood.
    #[error("{0}: a log's address takes offset and limit, each once, whole numbers of bytes")]
    BadRange(String),
}

impl LogUri {
    /// The template under which logs are listed (RFC 6570).
    pub const TEMPLATE: &'static str = "longhaul://task/{id}/log{?offset,limit}";

    /// The whole log of `task`, which reads as its end.
    pub fn of(task: TaskId) -> Self {
        Self {
            task,
            offset: None,
            limit: None,
        }
    }

    fn take(&mut self, pair: &str) -> Option<()> {
        let (name, value) = pair.split_once('=')?;
        let slot = match name {
            "offset" => &mut self.offset,
            "limit" => &mut self.limit,
            _ => return None,
        };
        let digits = value.bytes().all(|byte| byte.is_ascii_digit());
        let number = value.parse().ok().filter(|_| digits)?;
        slot.replace(number).is_none().then_some(())
    }
}

impl FromStr for LogUri {
    type Err = InvalidLogUri;

    fn from_str(text: &str) -> Result<Self, InvalidLogUri> {
        let (path, query) = text
            .split_once('?')
            .map_or((text, None), |(path, query)| (path, Some(query)));
        let id = path
            .strip_prefix("longhaul://task/")
            .and_then(|rest| rest.strip_suffix("/log"));
        let task = id.and_then(|id| id.parse().ok()).ok_or(InvalidLogUri::NotALog)?;
        let mut uri = Self::of(task);
        for pair in query
            .into_iter()
            .flat_map(|query| query.split('&'))
            .filter(|pair| !pair.is_empty())
        {
            uri.take(pair).ok_or_else(|| InvalidLogUri::BadRange(pair.to_owned()))?;
        }
        Ok(uri)
    }
}

impl fmt::Display for LogUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "longhaul://task/{}/log", self.task)?;
        let mut mark = '?';
        for (name, value) in [("offset", self.offset), ("limit", self.limit)] {
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
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn addresses_survive_the_round_trip(id in "[A-Za-z0-9_-]{1,64}", offset in any::<Option<u64>>(), limit in any::<Option<u64>>()) {
            let uri = LogUri { task: id.parse().unwrap(), offset, limit };
            prop_assert_eq!(uri.to_string().parse::<LogUri>().unwrap(), uri);
        }

        #[test]
        fn no_text_panics(text in "(longhaul://task/)?[a-z/?&=%0-9.-]{0,30}") {
            let _ = text.parse::<LogUri>();
        }
    }

    #[test]
    fn other_addresses_and_bad_ranges_are_told_apart() {
        for text in [
            "",
            "longhaul://task//log",
            "longhaul://task/a/b/log",
            "longhaul://task/../log",
            "file:///task/a/log",
            "longhaul://task/a/log/",
        ] {
            assert_eq!(text.parse::<LogUri>(), Err(InvalidLogUri::NotALog), "{text}");
        }
        for query in [
            "offset",
            "offset=",
            "offset=-1",
            "offset=+1",
            "limit=1&limit=2",
            "from=1",
            "limit=99999999999999999999",
        ] {
            let text = format!("longhaul://task/a/log?{query}");
            assert!(
                matches!(text.parse::<LogUri>(), Err(InvalidLogUri::BadRange(_))),
                "{text}"
            );
        }
    }
}

//! What a process does for a client that resumes a stream which it does not have: one of an earlier process, or one that it keeps no longer.

use longhaul_core::TaskId;
use longhaul_wire::RequestId;

/// A longer description is not put into event ids, which come with every event.
const LONGEST: usize = 512;

/// How the requests of a stream are answered once the stream is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resumption {
    /// By this request, which leads to the same answer at any time.
    Repeat(String),
    /// By waiting again for this call, with its `tools/call` without the arguments.
    Rejoin { call: TaskId, request: String },
    /// With an error for each of these ids, which are JSON with a comma between.
    Fail(String),
}

impl Resumption {
    /// That of a stream which answers `ids`, and of which nothing can be found again.
    pub(crate) fn fail<'a>(ids: impl IntoIterator<Item = RequestId<'a>>) -> Self {
        let ids: Vec<&str> = ids.into_iter().map(|id| id.as_json()).collect();
        Self::Fail(ids.join(","))
    }

    /// As text for an event id; `None` if it is too long for one.
    pub(crate) fn encode(&self) -> Option<String> {
        let text = match self {
            Self::Repeat(request) => request.clone(),
            Self::Rejoin { call, request } => format!("{call}{request}"),
            Self::Fail(ids) => format!("[{ids}]"),
        };
        (text.len() <= LONGEST).then_some(text)
    }

    pub(crate) fn decode(text: &str) -> Option<Self> {
        if let Some(ids) = text.strip_prefix('[').and_then(|ids| ids.strip_suffix(']')) {
            return Some(Self::Fail(ids.to_owned()));
        }
        let (call, request) = text.split_at(text.find('{')?);
        Some(match call {
            "" => Self::Repeat(request.to_owned()),
            call => Self::Rejoin {
                call: call.parse().ok()?,
                request: request.to_owned(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_event_id_carries_is_read_again() {
        let call: TaskId = "0199d3c1-5f5e-7000-8000-000000000001".parse().unwrap();
        for resumption in [
            Resumption::Repeat(r#"{"id":1}"#.to_owned()),
            Resumption::Rejoin {
                call,
                request: r#"{"id":"{"}"#.to_owned(),
            },
            Resumption::Fail(r#""]",2"#.to_owned()),
        ] {
            assert_eq!(Resumption::decode(&resumption.encode().unwrap()), Some(resumption));
        }
        assert_eq!(Resumption::Repeat("x".repeat(LONGEST + 1)).encode(), None);
        for wrong in ["", "1", "\n{}"] {
            assert_eq!(Resumption::decode(wrong), None, "{wrong}");
        }
    }
}

//! Confirmations: what somebody has to confirm before it runs for the first time.

use crate::{AnsweredBy, Failure, Json, UnixMillis, plain_line, shorten};
use serde::Deserialize;
use std::borrow::Cow;

/// How much is quoted of the error with which a client refuses to ask, in bytes.
const QUOTED: usize = 300;

/// Who may confirm a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ConfirmBy {
    /// A client of the task's principal, or an operator.
    #[default]
    Client,
    /// Only an operator. Clients are not asked.
    Operator,
}

impl ConfirmBy {
    /// The word of configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Operator => "operator",
        }
    }

    /// Whether an answer counts that this one has given.
    pub fn takes(self, by: AnsweredBy) -> bool {
        self == Self::Client || by != AnsweredBy::Client
    }

    /// The status message of a task that waits for it.
    pub(crate) fn waits(self) -> &'static str {
        match self {
            Self::Client => "waits for its confirmation",
            Self::Operator => "waits for an operator to confirm it",
        }
    }
}

/// What a new task asks before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmation {
    /// Who may answer.
    pub by: ConfirmBy,
    /// The elicitation: `{"method": …, "params": …}`.
    pub request: Json,
    /// When it ends the task that nobody has answered.
    pub until: UnixMillis,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow, default)]
    action: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "dev.longhaul/refused")]
    refused: Option<Refusal<'a>>,
}

#[derive(Deserialize)]
struct Refusal<'a> {
    #[serde(borrow)]
    message: Cow<'a, str>,
}

/// Why a call with this answer is not run; `None` if it was confirmed. Only an answer that says so confirms.
pub(super) fn refusal(answer: &Json, by: AnsweredBy) -> Option<Failure> {
    let answer: Result<Answer<'_>, _> = serde_json::from_str(answer.as_str());
    Some(match answer {
        Ok(Answer {
            action: Some(action),
            refused: None,
        }) if action == "accept" => return None,
        Ok(Answer {
            action: Some(action),
            refused: None,
        }) if action == "decline" => Failure::Declined { by: decider(by) },
        Ok(Answer {
            refused: Some(Refusal { message }),
            ..
        }) => Failure::Unconfirmed {
            why: shorten(&plain_line(&message), QUOTED).into_owned(),
        },
        _ => Failure::Unconfirmed {
            why: "the question was dismissed".to_owned(),
        },
    })
}

fn decider(by: AnsweredBy) -> &'static str {
    match by {
        AnsweredBy::Client => "the client's user",
        AnsweredBy::Operator => "an operator",
        AnsweredBy::Server => "the server",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_says_so_confirms() {
        let read = |answer: &str| refusal(&Json::parse(answer).unwrap(), AnsweredBy::Client);
        for accepted in [
            r#"{"action":"accept"}"#,
            r#"{"content":{"a":1},"action":"\u0061ccept","_meta":{}}"#,
        ] {
            assert_eq!(read(accepted), None, "{accepted}");
        }
        let declined = Failure::Declined {
            by: "the client's user",
        };
        assert_eq!(read(r#"{"action":"decline"}"#), Some(declined));
        for dismissed in [
            r#"{"action":"cancel"}"#,
            r#"{"action":"accept","action":"decline"}"#,
            r#"{"action":"accept","action":"accept"}"#,
            r#"{"action":["accept"]}"#,
            r#"{"action":"Accept"}"#,
            r#"{"content":{"action":"accept"}}"#,
            r#""accept""#,
            "{}",
            "null",
        ] {
            assert!(
                matches!(read(dismissed), Some(Failure::Unconfirmed { .. })),
                "{dismissed}"
            );
        }
        let refused = read(r#"{"action":"accept","dev.longhaul/refused":{"code":-1,"message":"no\nwindow"}}"#);
        let why = "no window".to_owned();
        assert_eq!(refused, Some(Failure::Unconfirmed { why }));
    }
}

//! How a task ends. Outcomes are stored, statuses are derived: each protocol generation reads its own from the same record.

pub(crate) mod failed_attempt;

pub use failed_attempt::EndedBy;

use crate::{
    FailedAttempt, Json, JsonMembers, MAX_ENTRY_BYTES, MAX_RESULT_DEPTH, MAX_STATUS_BYTES, Masking, Millis, UnixMillis,
    format_duration, nests_deeper, push_timestamp, shorten, truncate,
};
use serde_json::{json, value::RawValue};
use std::{borrow::Cow, fmt, sync::Arc};

/// How much of a result a debug print shows, in bytes.
const MAX_DEBUG_BYTES: usize = 2_000;

/// The end of a task. Written once, never changed (invariant 2).
///
/// A debug print shows the beginning of the result, without the secrets that can be known as such:
///
/// ```
/// use longhaul_core::{Json, Outcome};
/// let outcome = Outcome::result(Json::from(serde_json::json!({"content": [], "token": "t-1"})));
/// assert_eq!(format!("{outcome:?}"), r#"Result { json: {"content":[],"token":"***"}, is_error: false }"#);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The tool returned a result, which may be an error of the tool (`isError`); or its deadline passed.
    Result {
        /// The `CallToolResult`, as the tool gave it.
        json: Json,
        /// Its `isError` member: decides the legacy status without reading the result again.
        is_error: bool,
    },
    /// Longhaul could not carry the call through, or the tool itself answered with a JSON-RPC error.
    RpcError(RpcFailure),
    /// Cancelled before it had an outcome.
    Cancelled,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Result { json, is_error } => f
                .debug_struct("Result")
                .field("json", &JsonPreview(json))
                .field("is_error", is_error)
                .finish(),
            Self::RpcError(failure) => f.debug_tuple("RpcError").field(failure).finish(),
            Self::Cancelled => f.write_str("Cancelled"),
        }
    }
}

/// The beginning of a JSON text, without the secrets that can be known as such.
struct JsonPreview<'a>(&'a Json);

impl fmt::Debug for JsonPreview<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Masking::default().message(self.0.as_str()).into_owned();
        f.write_str(&shorten(&text, MAX_DEBUG_BYTES))?;
        match text.len() > MAX_DEBUG_BYTES {
            true => write!(f, " ({} bytes)", self.0.as_str().len()),
            false => Ok(()),
        }
    }
}

/// A JSON-RPC error object.
///
/// ```
/// use longhaul_core::RpcFailure;
/// let failure = RpcFailure::new(-32603, "the model cannot be reached");
/// assert_eq!((failure.code, &*failure.message, failure.data), (-32603, "the model cannot be reached", None));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct RpcFailure {
    /// The code.
    pub code: i32,
    /// One sentence for people.
    pub message: Arc<str>,
    /// More for programs.
    pub data: Option<Json>,
}

impl RpcFailure {
    /// An error without data.
    pub fn new(code: i32, message: impl Into<Arc<str>>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }
}

impl fmt::Debug for RpcFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RpcFailure")
            .field("code", &self.code)
            .field("message", &Masking::default().text(&self.message))
            .field("data", &self.data.as_ref().map(JsonPreview))
            .finish()
    }
}

/// The kind of an outcome, small enough to be part of every record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// A result without `isError`.
    Succeeded,
    /// A result with `isError`: legacy `failed`, modern `completed`.
    ToolError,
    /// A JSON-RPC error: `failed` in both generations.
    RpcError,
    /// `cancelled` in both generations.
    Cancelled,
}

impl Outcome {
    /// A tool's answer, its `isError` member read from the JSON.
    ///
    /// ```
    /// use longhaul_core::{Json, Outcome, Verdict};
    /// let refused = Outcome::result(Json::parse(r#"{"content":[],"isError":true}"#).unwrap());
    /// assert_eq!(refused.verdict(), Verdict::ToolError);
    /// ```
    pub fn result(json: Json) -> Self {
        let is_error = says_is_error(json.as_str());
        Self::Result { json, is_error }
    }

    /// The text for a person: that of the text blocks of a result, one below the other, also if the tool reports an error; the message of a JSON-RPC error;
    /// `cancelled`. Empty if a result has no text.
    ///
    /// ```
    /// use longhaul_core::{Json, Outcome};
    /// let content = r#"{"content":[{"type":"text","text":"built"},{"type":"image"},{"type":"text","text":"in 3 s"}]}"#;
    /// let outcome = Outcome::result(Json::parse(content).unwrap());
    /// assert_eq!(outcome.text(), "built\nin 3 s");
    /// assert_eq!(Outcome::tool_error("no such file").text(), "no such file");
    /// ```
    pub fn text(&self) -> String {
        match self {
            Self::Result { json, .. } => texts(json.as_str()).join("\n"),
            Self::RpcError(failure) => failure.message.to_string(),
            Self::Cancelled => "cancelled".to_owned(),
        }
    }

    /// The `structuredContent` of a result, if it has one: what fits the output schema of its tool.
    ///
    /// ```
    /// use longhaul_core::{Json, Outcome};
    /// let outcome = Outcome::result(Json::parse(r#"{"content":[],"structuredContent":{"size":3}}"#).unwrap());
    /// assert_eq!(outcome.structured_content().unwrap().as_str(), r#"{"size":3}"#);
    /// ```
    pub fn structured_content(&self) -> Option<Json> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct StructuredResult<'a> {
            #[serde(borrow)]
            structured_content: Option<&'a RawValue>,
        }
        let Self::Result { json, .. } = self else { return None };
        let structured: StructuredResult<'_> = serde_json::from_str(json.as_str()).ok()?;
        structured.structured_content.map(Json::from)
    }

    /// A result with `isError` and a text.
    pub fn tool_error(text: &str) -> Self {
        Self::Result {
            json: text_result(text, true),
            is_error: true,
        }
    }

    /// The outcome, or a tool error in place of a result that nests deeper than [`MAX_RESULT_DEPTH`], because no client could read it.
    #[must_use]
    pub fn within_max_depth(self) -> Self {
        match self {
            Self::Result { json, .. } if nests_deeper(json.as_str().as_bytes(), MAX_RESULT_DEPTH) => {
                Self::tool_error(&format!(
                    "the tool's result is nested deeper than {MAX_RESULT_DEPTH} levels, the most that clients are sent"
                ))
            }
            outcome => outcome,
        }
    }

    /// The outcome with one more thing to say: in a text of its own behind those of a result, or behind the message of an error. A cancellation says nothing.
    ///
    /// ```
    /// use longhaul_core::Outcome;
    /// let failed = Outcome::tool_error("sh exited with code 1").with_note("That was the last attempt.");
    /// assert_eq!(failed.text(), "sh exited with code 1\nThat was the last attempt.");
    /// ```
    #[must_use]
    pub fn with_note(self, note: &str) -> Self {
        match self {
            Self::Result { json, is_error } => Self::Result {
                json: with_text(json.as_str(), note).unwrap_or(json),
                is_error,
            },
            Self::RpcError(failure) => Self::RpcError(RpcFailure {
                message: format!("{}. {note}", failure.message.trim_end_matches('.')).into(),
                ..failure
            }),
            Self::Cancelled => Self::Cancelled,
        }
    }

    /// The end of work whose deadline, `deadline` after creation, has passed.
    pub fn deadline_passed(deadline: Millis) -> Self {
        Self::tool_error(&format!("deadline of {} passed", format_duration(deadline)))
    }

    /// Why it is no success, for people: the first line of its text that is not blank, with the next one if it ends with a colon; at most
    /// [`MAX_STATUS_BYTES`] of it. `None` for a success and a cancellation.
    ///
    /// ```
    /// use longhaul_core::Outcome;
    /// let refused = Outcome::tool_error("no such file\nused `in.txt`");
    /// assert_eq!(refused.failure_line().as_deref(), Some("no such file"));
    /// let refused = Outcome::tool_error("2 files are missing:\n- in.txt\n- out.txt");
    /// assert_eq!(refused.failure_line().as_deref(), Some("2 files are missing: in.txt"));
    /// ```
    pub fn failure_line(&self) -> Option<Arc<str>> {
        match self {
            Self::RpcError(failure) => Some(first_line(&failure.message, "it failed")),
            Self::Result { json, is_error: true } => {
                let texts = texts(json.as_str());
                let text = texts.first().map(|text| &**text).unwrap_or_default();
                Some(first_line(text, "the tool reported an error"))
            }
            Self::Result { is_error: false, .. } | Self::Cancelled => None,
        }
    }

    /// What is said of a failure in one line where it is not the end: its first line, and the last one of a longer text.
    ///
    /// ```
    /// use longhaul_core::Outcome;
    /// let failed = Outcome::tool_error("sh exited with code 3\n\nwarning: x\nno such host\n");
    /// assert_eq!(failed.failure_summary().as_deref(), Some("sh exited with code 3: no such host"));
    /// assert_eq!(Outcome::tool_error("no such file").failure_summary().as_deref(), Some("no such file"));
    /// ```
    pub fn failure_summary(&self) -> Option<Arc<str>> {
        let first = self.failure_line()?;
        let Self::Result { json, .. } = self else {
            return Some(first);
        };
        let texts = texts(json.as_str());
        let mut lines = texts.first()?.lines().map(str::trim).filter(|line| !line.is_empty());
        match (lines.next(), lines.next_back()) {
            (Some(headline), Some(last)) if *headline == *first => {
                Some(truncate(&format!("{first}: {last}"), MAX_STATUS_BYTES).into())
            }
            _ => Some(first),
        }
    }

    /// Its kind.
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::Result { is_error: false, .. } => Verdict::Succeeded,
            Self::Result { is_error: true, .. } => Verdict::ToolError,
            Self::RpcError(_) => Verdict::RpcError,
            Self::Cancelled => Verdict::Cancelled,
        }
    }
}

/// A `CallToolResult` with one text block.
pub fn text_result(text: &str, is_error: bool) -> Json {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "camelCase")]
    struct TextResult<'a> {
        content: [Block<'a>; 1],
        is_error: bool,
    }
    #[derive(serde::Serialize)]
    struct Block<'a> {
        r#type: &'static str,
        text: &'a str,
    }
    let content = [Block { r#type: "text", text }];
    // Strings and a flag can always be written.
    let text = serde_json::to_string(&TextResult { content, is_error }).unwrap_or_default();
    Json::trusted(text)
}

/// The first line with anything in it, as far as a status goes; `blank` if there is none. One that ends with a colon says too little without
/// the first item of its list.
fn first_line(text: &str, blank: &'static str) -> Arc<str> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.next().unwrap_or(blank);
    match lines.next().filter(|_| line.ends_with(':')) {
        Some(item) => {
            let whole = format!("{line} {}", item.strip_prefix("- ").unwrap_or(item));
            truncate(&whole, MAX_STATUS_BYTES).into()
        }
        None => truncate(line, MAX_STATUS_BYTES).into(),
    }
}

/// The texts among the content blocks of a `CallToolResult`.
fn texts(result: &str) -> Vec<Cow<'_, str>> {
    #[derive(serde::Deserialize)]
    struct Content<'a> {
        #[serde(borrow)]
        content: Vec<Block<'a>>,
    }
    #[derive(serde::Deserialize)]
    struct Block<'a> {
        #[serde(borrow, default)]
        text: Option<Cow<'a, str>>,
    }
    let read = serde_json::from_str::<Content>(result);
    let blocks = read.map(|read| read.content).unwrap_or_default();
    blocks.into_iter().filter_map(|block| block.text).collect()
}

/// A `CallToolResult` with one more text block; nothing if it has no content to which it can be added.
fn with_text(result: &str, text: &str) -> Option<Json> {
    let mut members: JsonMembers = serde_json::from_str(result).ok()?;
    let mut content: Vec<Json> = serde_json::from_str(members.get("content")?.as_str()).ok()?;
    content.push(Json::from(json!({"type": "text", "text": text})));
    let content = serde_json::to_string(&content).ok()?;
    members.insert("content".to_owned(), Json::trusted(content));
    Some(Json::trusted(serde_json::to_string(&members).ok()?))
}

fn says_is_error(result: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Flag<'a> {
        #[serde(borrow, rename = "isError", default)]
        is_error: Option<&'a RawValue>,
    }
    // Some servers write it as a text. Whoever took that for `false` would go on as if the tool had done its work.
    let says = |raw: &RawValue| raw.get().trim_matches('"').eq_ignore_ascii_case("true");
    serde_json::from_str::<Flag>(result).is_ok_and(|flag| flag.is_error.is_some_and(says))
}

/// Why Longhaul could not carry a call through. Becomes a JSON-RPC error −32603 with `data.reason`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The server died while the tool ran, and its policy does not allow a second run.
    #[error("interrupted: the server stopped while this ran")]
    Interrupted,
    /// The supervisor of a command died, whether or not a server was there, and the policy does not allow a second run.
    #[error(
        "interrupted: the supervisor of its command was killed, as by hand, by a lack of memory or with its machine, so how the command ended \
         is not known"
    )]
    SupervisorKilled,
    /// A command ended, the record of how is damaged, and the policy does not allow a second run.
    #[error(
        "interrupted: its command ended, but the record of how (the file `exit` of the attempt) is damaged, so its result is not known"
    )]
    RecordDamaged,
    /// An attempt ran when the backup was taken that the server was restored from.
    #[error(
        "interrupted: this ran when the backup was taken that the server was restored from, on {}. How it ended is not known, and it was not run \
         again",
        time(*.taken)
    )]
    RestoredWhileRunning {
        /// When the backup was taken.
        taken: UnixMillis,
    },
    /// The task had no attempt when the backup was taken that the server was restored from, and whoever restored it wanted none of these to run.
    #[error(
        "interrupted: this waited when the backup was taken that the server was restored from, on {}. Whether it has run since is not known, and it \
         was not run here",
        time(*.taken)
    )]
    RestoredWhileWaiting {
        /// When the backup was taken.
        taken: UnixMillis,
    },
    /// Every attempt the policy allows ended in a crash.
    #[error("interrupted: {attempts} attempts ended without a result")]
    AttemptsUsedUp {
        /// How many there were.
        attempts: u32,
    },
    /// No slot became free in time.
    #[error("no slot became free within the queue timeout")]
    QueueTimeout,
    /// It had to be confirmed before it ran, and was declined.
    #[error("declined by {by}: this call had to be confirmed, and was not run")]
    Declined {
        /// Who declined it, in words.
        by: &'static str,
    },
    /// It had to be confirmed before it ran, and nobody has decided.
    #[error("not confirmed: {why}, so this call was not run")]
    Unconfirmed {
        /// Why not.
        why: String,
    },
    /// Its attempts failed again and again at the same point.
    #[error("{attempts} attempts failed without forward progress; the last: {}", .history.last().map_or_else(|| "unknown".to_owned(), FailedAttempt::to_string))]
    Poisoned {
        /// How many there were.
        attempts: u32,
        /// What is known of each of them, oldest first.
        history: Vec<FailedAttempt>,
    },
    /// The tool's replayed code diverged from its journal.
    #[error("the tool's code does not follow its journal: {0}")]
    Diverged(String),
    /// A child's outcome is too long for its parent's journal; the parent gets this instead.
    #[error(
        "the result is {bytes} bytes long, and the journal of the task that called it accepts {MAX_ENTRY_BYTES}. The result is kept with the child's own task. \
         Pass large data in a file, a resource or emitted output, and return where it is"
    )]
    TooLongForParent {
        /// How long it is.
        bytes: usize,
    },
    /// Nothing in this server can run the tool any more.
    #[error("this server can no longer run the tool: {0}")]
    Unavailable(String),
}

fn time(at: UnixMillis) -> String {
    let mut text = String::new();
    push_timestamp(&mut text, at);
    text
}

impl Failure {
    /// The word in `data.reason`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Interrupted
            | Self::SupervisorKilled
            | Self::RecordDamaged
            | Self::RestoredWhileRunning { .. }
            | Self::RestoredWhileWaiting { .. } => "interrupted",
            Self::AttemptsUsedUp { .. } => "attempts_used_up",
            Self::QueueTimeout => "queue_timeout",
            Self::Declined { .. } => "declined",
            Self::Unconfirmed { .. } => "not_confirmed",
            Self::Poisoned { .. } => "poisoned",
            Self::Diverged(_) => "diverged",
            Self::TooLongForParent { .. } => "too_long_for_parent",
            Self::Unavailable(_) => "unavailable",
        }
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self::RpcError(failure.into())
    }
}

impl From<Failure> for RpcFailure {
    fn from(failure: Failure) -> Self {
        Self {
            code: -32603,
            message: failure.to_string().into(),
            data: Some(Json::from(match &failure {
                Failure::Poisoned { history, .. } => {
                    let history: Vec<_> = history.iter().map(FailedAttempt::to_json).collect();
                    json!({"reason": failure.reason(), "history": history})
                }
                _ => json!({"reason": failure.reason()}),
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debug_print_shows_the_beginning_of_a_long_result() {
        let text = "ü".repeat(MAX_DEBUG_BYTES);
        let shown = format!("{:?}", Outcome::tool_error(&text));
        assert!(
            shown.starts_with(r#"Result { json: {"content":[{"type":"text","text":"üüü"#),
            "{shown}"
        );
        assert!(shown.ends_with("ü… (4054 bytes), is_error: true }"), "{shown}");
        assert!(shown.len() < MAX_DEBUG_BYTES + 100, "{}", shown.len());
    }

    #[test]
    fn a_debug_print_of_an_error_shows_its_data() {
        let failure = RpcFailure {
            code: -32603,
            message: "failed with token=t-1".into(),
            data: Some(Json::from(json!({"reason": "timeout", "password": "p-1"}))),
        };
        let shown = format!("{:?}", Outcome::RpcError(failure));
        assert!(shown.contains("timeout") && shown.contains("token=***"), "{shown}");
        assert!(!shown.contains("t-1") && !shown.contains("p-1"), "{shown}");
    }
}

//! The questions of legacy tasks, which come as requests of the server. Nothing in them says whether a question is a new one or the same again, but for their ids
//! and their texts.
//!
//! | a request | is |
//! | --- | --- |
//! | with the id and the text of one of its session that the user is being asked | the same message again: it is ignored |
//! | with the id and the text of one whose response the server has not taken | the same message again: it gets the same response |
//! | with the id of an earlier one of its session, and another text | a new question. The server has the response to the earlier one, or wants none |
//! | with an id of Longhaul's (`<task>.<key>.<n>`) and a key that is known | the same question: its answer is the answer, for as long as the task lives; without a journal, of the latest ones |
//! | with the text of a question of its task that the user is being asked | the same question: both get the answer |
//! | with the text of a question of its task whose recorded answer the server has not taken yet | the same question: the recorded answer is sent |
//! | with the text of a question of its task whose answer was sent, by this process, after the request came | the same question: it gets the same answer |
//! | with the text of a question of its task whose answer the server has taken, when the task does not ask any more | the same question, which came late: it is ignored |
//! | any other | a new question |
//!
//! A server has taken an answer when it has accepted the message with it (HTTP 2xx), or when the task is seen in another status than `input_required`. From
//! then on a question with the same text is another one, also under the same id: a tool may well ask "Next file?" twice, and the Python SDK 1.30 uses ids again.
//!
//! An answer that was recorded, but that no process is sending, is sent by the next one, unless the task asks and has changed since: it has gone on then.
//!
//! Some servers send a question once, so it is recorded with its id and session before the user is asked (`ledger/src/server_requests.rs`). Whoever waits for the
//! task next serves it again (`question/serving`), as if it had come just then.

use crate::{
    TaskStatus,
    connect::response::ServerRequest,
    journal::questions::{LEGACY_QUESTION, QUESTION_BY_TEXT},
    options::params_text::{members_of, object_of},
};
use longhaul_core::{Json, RpcFailure, canonical_digest};
use serde_json::Value;
use std::collections::VecDeque;

/// A place in the order in which requests of the server come and answers are sent.
pub(crate) type Moment = u64;

/// How many responses are kept, in case their requests come again.
const KEPT_RESPONSES: usize = 32;
/// Larger responses are not kept.
const MAX_KEPT_RESPONSE: usize = 16 * 1024;
/// The length of Longhaul's task ids.
const TASK_ID_LENGTH: usize = 36;

/// What the text of a request is.
pub(crate) type RequestDigest = [u8; 32];

/// The answer to a request of the server.
pub(crate) type ServedAnswer = Result<Json, RpcFailure>;

/// The name of a question in the journal.
pub(crate) struct QuestionName {
    pub(crate) name: String,
    /// Whether no other question of the task ever has this name.
    pub(crate) is_unique: bool,
}

impl QuestionName {
    /// Whether no other question of a task ever has this name.
    pub(crate) fn is_unique(name: &str) -> bool {
        !name.starts_with(QUESTION_BY_TEXT)
    }

    pub(crate) fn of(request: &ServerRequest, task: &str) -> Self {
        match key_of(&request.id, task) {
            Some(key) => Self {
                name: format!("{LEGACY_QUESTION}key {key}"),
                is_unique: true,
            },
            None => Self {
                name: format!("{QUESTION_BY_TEXT}{}", digest_text(request)),
                is_unique: false,
            },
        }
    }
}

/// The name in the journal of what a plain call asks, and its key for people: `nth` is its number since the call was sent. If the call is made again under its
/// idempotency key, a Longhaul server asks what is open under the same key, and others may ask the same in the same order.
pub(crate) fn of_plain_call(request: &ServerRequest, nth: u32) -> (String, String) {
    let id: Option<String> = serde_json::from_str(&request.id).ok();
    let key = id
        .as_deref()
        .and_then(|id| key_of(&request.id, id.get(..TASK_ID_LENGTH)?));
    match key {
        Some(key) => (format!("plain key {key}"), key),
        None => (format!("plain {nth} {}", digest_text(request)), format!("q{nth}")),
    }
}

/// The key in the id of a request of a Longhaul server.
fn key_of(id: &str, task: &str) -> Option<String> {
    // Ids of this form, and not UUIDs.
    if task.len() != TASK_ID_LENGTH || !task.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let id: String = serde_json::from_str(id).ok()?;
    let (key, nth) = id.strip_prefix(task)?.strip_prefix('.')?.rsplit_once('.')?;
    let is_numbered = !nth.is_empty() && nth.bytes().all(|byte| byte.is_ascii_digit());
    (is_numbered && !key.is_empty()).then(|| key.to_owned())
}

/// Whether a task with this status may still ask what it has asked. `was_seen`: an earlier status has said that it asks, which some servers never say.
pub(crate) fn still_asks_in(status: TaskStatus, was_seen: bool) -> bool {
    status == TaskStatus::InputRequired || !(was_seen || status.is_final())
}

/// What a request asks, without what belongs to the one message.
pub(crate) fn digest(request: &ServerRequest) -> RequestDigest {
    let mut params = request.params.as_json().clone();
    if request.params.get("_meta").is_some() {
        let mut members = members_of(&params);
        members.remove("_meta");
        params = object_of(&members);
    }
    let method = Value::from(request.method.as_str());
    canonical_digest(&Json::trusted(format!("[{method},{}]", params.as_str())))
}

fn digest_text(request: &ServerRequest) -> String {
    digest(request).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The latest responses that the server has not taken.
#[derive(Default)]
pub(crate) struct SentResponses(VecDeque<(String, RequestDigest, String)>);

impl SentResponses {
    /// The response to the same message.
    pub(crate) fn find(&self, id: &str, digest: &RequestDigest) -> Option<String> {
        let found = self.0.iter().find(|(known, asked, _)| known == id && asked == digest);
        found.map(|(_, _, response)| response.clone())
    }

    pub(crate) fn keep(&mut self, id: &str, digest: RequestDigest, response: &str) {
        self.forget(id);
        if id.len() + response.len() > MAX_KEPT_RESPONSE {
            return;
        }
        if self.0.len() == KEPT_RESPONSES {
            self.0.pop_front();
        }
        self.0.push_back((id.to_owned(), digest, response.to_owned()));
    }

    /// The server has taken the response to the request with this id.
    pub(crate) fn forget(&mut self, id: &str) {
        self.0.retain(|(known, _, _)| known != id);
    }

    /// Another session has other ids.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The latest answers that the server has taken. Such a question can still come again, under another id: the server has sent it on another stream before it took
/// the answer.
#[derive(Default)]
pub(crate) struct TakenAnswers(VecDeque<TakenAnswer>);

/// An answer that the server has taken.
pub(crate) struct TakenAnswer {
    pub(crate) task: String,
    /// That of the question.
    pub(crate) name: String,
    /// When it was first sent.
    pub(crate) sent_at: Moment,
    /// A poll had shown that the task asks.
    pub(crate) was_seen: bool,
    pub(crate) answer: ServedAnswer,
}

impl TakenAnswers {
    /// The answer to a question that came at this moment. One without a name of its own is another question if it came after the answer was sent.
    pub(crate) fn find(&self, task: &str, name: &str, came_at: Moment) -> Option<ServedAnswer> {
        let is_unique = QuestionName::is_unique(name);
        let found = self.0.iter().find(|taken| {
            let is_same = taken.task == task && taken.name == name;
            is_same && (is_unique || taken.sent_at > came_at)
        });
        found.map(|taken| taken.answer.clone())
    }

    /// Whether a poll had shown that the task asks, if there is an answer to a question with this name.
    pub(crate) fn was_seen(&self, task: &str, name: &str) -> Option<bool> {
        let mut all = self.0.iter();
        let found = all.find(|taken| taken.task == task && taken.name == name);
        found.map(|taken| taken.was_seen)
    }

    pub(crate) fn keep(&mut self, answer: TakenAnswer) {
        self.0
            .retain(|known| known.task != answer.task || known.name != answer.name);
        if self.0.len() == KEPT_RESPONSES {
            self.0.pop_front();
        }
        self.0.push_back(answer);
    }

    /// The task has ended.
    pub(crate) fn forget(&mut self, task: &str) {
        self.0.retain(|taken| taken.task != task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TASK: &str = "01jd8z0000abcdefghjkmnpqrstvwxyz0123";

    fn request(id: &str, message: &str) -> ServerRequest {
        ServerRequest {
            id: id.to_owned(),
            method: "elicitation/create".to_owned(),
            params: json!({"message": message, "_meta": {"n": id}}).into(),
            malformed: None,
        }
    }

    #[test]
    fn only_ids_of_longhaul_name_a_question_for_good() {
        let name = |id: Value, task: &str| QuestionName::of(&request(&id.to_string(), "?"), task);
        let named = name(json!(format!("{TASK}.in-1.7")), TASK);
        assert!(named.is_unique && named.name == "legacy key in-1");
        for (id, task) in [
            (json!(7), TASK),
            (json!("7"), TASK),
            (json!(format!("{TASK}.in-1")), TASK),
            (json!(format!("{TASK}..7")), TASK),
            (json!(format!("{TASK}.in-1.x")), TASK),
            (json!("t-1.in-1.7"), "t-1"),
            (
                json!("a0000000-0000-0000-0000-000000000000.in-1.7"),
                "a0000000-0000-0000-0000-000000000000",
            ),
        ] {
            let named = name(id, task);
            assert!(
                !named.is_unique && named.name.starts_with(QUESTION_BY_TEXT),
                "{}",
                named.name
            );
        }
    }

    #[test]
    fn a_question_of_a_plain_call_has_a_key() {
        let named = |id: Value| of_plain_call(&request(&id.to_string(), "?"), 3);
        let (name, key) = named(json!(format!("{TASK}.in-1.7")));
        assert_eq!((name.as_str(), key.as_str()), ("plain key in-1", "in-1"));
        for id in [json!(7), json!("7"), json!("ü".repeat(40)), json!(TASK)] {
            let (name, key) = named(id);
            assert!(name.starts_with("plain 3 ") && key == "q3", "{name} {key}");
        }
    }

    #[test]
    fn a_question_is_known_by_its_text() {
        assert_eq!(digest(&request("1", "?")), digest(&request("2", "?")));
        assert_ne!(digest(&request("1", "?")), digest(&request("1", "!")));
    }

    #[test]
    fn the_responses_that_are_kept_are_bounded() {
        let mut sent = SentResponses::default();
        let asked = digest(&request("1", "?"));
        for nth in 0..1_000 {
            sent.keep(&nth.to_string(), asked, "response");
        }
        sent.keep("large", asked, &"x".repeat(MAX_KEPT_RESPONSE));
        assert_eq!(sent.0.len(), KEPT_RESPONSES);
        assert_eq!(sent.find("999", &asked).as_deref(), Some("response"));
        assert_eq!(sent.find("0", &asked), None);
        assert_eq!(sent.find("999", &digest(&request("1", "!"))), None);
    }
}

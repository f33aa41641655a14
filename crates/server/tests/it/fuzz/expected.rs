//! What must hold for every exchange, whatever was sent.

use super::{tools::PLANNED, world::Reply};
use crate::client::tells_of_a_request;
use longhaul_schemas::MessageChecker;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::collections::HashMap;

/// A request as a reader sees it that knows nothing of ours. `None` in all places if a member is there twice.
#[derive(Debug, Default, Deserialize)]
#[serde(bound = "'de: 'a", default)]
pub(super) struct Seen<'a> {
    pub(super) id: Option<&'a RawValue>,
    pub(super) method: Option<String>,
    params: Option<Params<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(bound = "'de: 'a", rename_all = "camelCase", default)]
struct Params<'a> {
    task_id: Option<&'a RawValue>,
    arguments: Option<&'a RawValue>,
    input_responses: Option<&'a RawValue>,
    request_state: Option<&'a RawValue>,
    #[serde(rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(bound = "'de: 'a", default)]
struct Meta<'a> {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<&'a RawValue>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    declared: Option<&'a RawValue>,
}

impl<'a> Seen<'a> {
    pub(super) fn of(body: &'a [u8]) -> Self {
        // Without the filter, a list would do for an object.
        let text = std::str::from_utf8(body)
            .ok()
            .filter(|text| text.trim_start().starts_with('{'));
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// The id, if it is one that must come back.
    pub(super) fn sound_id(&self) -> Option<&'a str> {
        let text = self.id?.get();
        let number = text.strip_prefix('-').unwrap_or(text);
        (text.starts_with('"') || number.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
    }

    pub(super) fn method(&self) -> &str {
        self.method.as_deref().unwrap_or_default()
    }

    pub(super) fn is_modern(&self) -> bool {
        let meta = self.params.as_ref().and_then(|params| params.meta.as_ref());
        meta.is_some_and(|meta| meta.version.is_some())
    }

    pub(super) fn arguments(&self) -> Option<&'a str> {
        self.params.as_ref()?.arguments.map(RawValue::get)
    }

    /// The answers to questions, each as it was written.
    pub(super) fn answers(&self) -> Vec<String> {
        let given = self.params.as_ref().and_then(|params| params.input_responses);
        let answers: HashMap<String, Box<RawValue>> = given
            .and_then(|given| serde_json::from_str(given.get()).ok())
            .unwrap_or_default();
        answers.into_values().map(|answer| answer.get().to_owned()).collect()
    }

    pub(super) fn task(&self) -> Option<String> {
        serde_json::from_str(self.params.as_ref()?.task_id?.get()).ok()
    }

    /// The parts that a message checker needs.
    pub(super) fn outline(&self) -> Value {
        let mut meta = json!({});
        if self.is_modern() {
            let declared = self.params.as_ref().and_then(|params| params.meta.as_ref()?.declared);
            let declared: Option<Value> = declared.and_then(|declared| serde_json::from_str(declared.get()).ok());
            meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            meta["io.modelcontextprotocol/clientCapabilities"] = declared.unwrap_or_default();
        }
        let id = self.sound_id().and_then(|id| longhaul_schemas::read(id).ok());
        json!({"id": id, "method": self.method(), "params": {"_meta": meta}})
    }

    /// Whether the call continues although its stream has ended: a legacy client resumes it.
    fn may_be_resumed(&self, reply: &Reply) -> bool {
        reply.is_stream && !self.is_modern() && self.may_take_forever()
    }

    /// Whether it is a retry with answers.
    pub(super) fn is_another_round(&self) -> bool {
        let params = self.params.as_ref();
        params.is_some_and(|params| params.input_responses.is_some() || params.request_state.is_some())
    }

    /// Whether only time or another request ends it.
    pub(super) fn may_take_forever(&self) -> bool {
        ["tools/call", "tasks/result", "subscriptions/listen"].contains(&self.method())
    }
}

/// The messages of a reply, each as text and as a tree, and each as the schemas have it.
pub(super) fn hear(body: &[u8], reply: &Reply) -> Vec<(String, Value)> {
    let mut checker = MessageChecker::default();
    checker.sent(&Seen::of(body).outline());
    let hear = |text: String| {
        let message = tree(&text);
        checker.received(&message).unwrap();
        (text, message)
    };
    texts(reply).into_iter().map(hear).collect()
}

/// The messages of a reply, each as it was written.
fn texts(reply: &Reply) -> Vec<String> {
    let body = std::str::from_utf8(&reply.body).unwrap();
    if !reply.is_stream {
        return if body.is_empty() {
            Vec::new()
        } else {
            vec![body.to_owned()]
        };
    }
    let data = |event: &str| -> String {
        let lines: Vec<&str> = event.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        lines.join("\n")
    };
    let events = body.split("\n\n").map(data);
    events.filter(|data| !data.is_empty()).collect()
}

/// What was received.
#[derive(Default)]
pub(super) struct Received {
    /// The response, as text and as a tree.
    pub(super) response: Option<(String, Value)>,
    /// Questions to a legacy client: the id of each, a string, and its text.
    pub(super) questions: Vec<(String, String)>,
}

/// Checks one exchange.
pub(super) fn check(seen: &Seen<'_>, reply: &Reply) -> Received {
    assert!(reply.status < 500, "{reply:?}");
    if reply.is_cut {
        assert!(seen.may_take_forever(), "no end: {seen:?} {reply:?}");
    }
    let mut received = Received::default();
    for (text, message) in reply.messages.clone() {
        match (message.get("method"), message["id"].as_str()) {
            (Some(_), Some(id)) => {
                assert!(!seen.is_modern(), "a modern client is asked by an answer: {text}");
                received.questions.push((id.to_owned(), text));
            }
            (Some(_), None) => assert!(
                tells_of_a_request(&message) || seen.method() == "subscriptions/listen",
                "nothing else is sent on a stream: {text}"
            ),
            (None, _) => {
                assert!(received.response.is_none(), "two responses: {reply:?}");
                check_id(seen, &text);
                received.response = Some((text, message));
            }
        }
    }
    if received.response.is_none() {
        let is_request = seen.sound_id().is_some() && seen.method.is_some();
        assert!(
            !is_request || reply.is_cut || seen.may_be_resumed(reply),
            "no response: {seen:?} {reply:?}"
        );
        if !is_request {
            assert!([202, 204].contains(&reply.status), "{reply:?}");
        }
    }
    received
}

/// A message as a tree.
pub(super) fn tree(text: &str) -> Value {
    longhaul_schemas::read(text).unwrap_or_else(|flaw| panic!("{flaw}: {text}"))
}

/// A request's id comes back byte for byte.
fn check_id(seen: &Seen<'_>, text: &str) {
    let answered = Seen::of(text.as_bytes());
    if let Some(id) = seen.sound_id() {
        assert!(
            answered.sound_id() == Some(id) || (seen.method.is_none() && answered.id.is_none()),
            "{id} is answered as {text}"
        );
    }
}

/// Whether a response means that the call was not accepted. A tool's own error does not.
pub(super) fn is_refusal(response: &Value) -> bool {
    match response.get("error") {
        Some(error) => error["message"] != PLANNED,
        None => response["result"]["isError"] == true,
    }
}

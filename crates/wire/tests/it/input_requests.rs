//! Questions to a client: deliveries to a legacy one, tasks it hosts, and the answers that fit.

use crate::{fixture::written, schema};
use longhaul_core::{Capability, ClientCapabilities, RpcFailure, TaskId};
use longhaul_wire::{
    InputRequest, InvalidResponse, Message, RemoteError, RpcError, TaskStatus, legacy,
    legacy::{
        client_task::{self, ClientTask},
        input_request::{LegacyInputRequest, strip_related_task, write_elicitation_complete},
    },
    params::TaskMetadata,
    read_client_capabilities,
};
use serde_json::{Value, json, value::RawValue};

const FORM: &str = r#"{"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}}"#;
const STRICT_FORM: &str = r#"{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}}}"#;
/// Stored by an earlier release.
const NO_FORM: &str = r##"{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"$ref":"#"}}}"##;
const PLAIN_FORM: &str =
    r#"{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}"#;
const URL: &str =
    r#"{"method":"elicitation/create","params":{"mode":"url","message":"Pay","url":"https://acme.example/pay"}}"#;
const SAMPLE: &str = r#"{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}],"maxTokens":9}}"#;
const SAMPLE_WITH_TOOLS: &str = r#"{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":9,"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}"#;
const ROOTS: &str = r#"{"method":"roots/list"}"#;

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

/// With and without a task, offered as a task or not, each is the request its schema describes.
#[test]
fn every_delivery_matches_the_schema() {
    let task: TaskId = "tsk_1".parse().unwrap();
    for (question, definition) in [
        (FORM, "ElicitRequest"),
        (PLAIN_FORM, "ElicitRequest"),
        (URL, "ElicitRequest"),
        (SAMPLE, "CreateMessageRequest"),
        (SAMPLE_WITH_TOOLS, "CreateMessageRequest"),
        (ROOTS, "ListRootsRequest"),
    ] {
        let asked: Value = serde_json::from_str(question).unwrap();
        for (hosted, shown) in [
            (None, None),
            (Some(TaskMetadata { ttl: None }), Some(json!({}))),
            (Some(TaskMetadata { ttl: Some(900_000) }), Some(json!({"ttl": 900_000}))),
        ] {
            for task in [None, Some(&task)] {
                let delivery = LegacyInputRequest {
                    id: "srv-\"1\"",
                    request: question,
                    task,
                    client_task: hosted,
                };
                let got = written(|out| delivery.write(out).unwrap());
                schema::check(&format!("25:msg:{definition}"), &got);
                let mut expected = asked.get("params").cloned().unwrap_or(json!({}));
                if task.is_some() {
                    expected["_meta"] = json!({"io.modelcontextprotocol/related-task": {"taskId": "tsk_1"}});
                }
                if let Some(shown) = &shown {
                    expected["task"] = shown.clone();
                }
                if question == URL {
                    expected["elicitationId"] = json!("srv-\"1\"");
                }
                assert_eq!(got["params"], expected);
                assert_eq!((&got["method"], &got["id"]), (&asked["method"], &json!("srv-\"1\"")));
            }
        }
    }
}

#[test]
fn a_url_elicitation_keeps_its_id() {
    let question = r#"{"method":"elicitation/create","params":{"mode":"url","message":"Pay","url":"https://acme.example","elicitationId":"el-1"}}"#;
    let delivery = LegacyInputRequest {
        id: "srv-2",
        request: question,
        task: None,
        client_task: None,
    };
    let got = written(|out| delivery.write(out).unwrap());
    assert_eq!(got["params"]["elicitationId"], "el-1");
    let over = written(|out| write_elicitation_complete(out, "el-1"));
    schema::check("25:msg:ElicitationCompleteNotification", &over);
    assert_eq!(over["params"], json!({"elicitationId": "el-1"}));
}

/// What a question carries besides goes along; what would speak for another delivery does not.
#[test]
fn a_delivery_replaces_related_task_of_an_earlier_one() {
    let question = r#"{"method":"elicitation/create","params":{"mode":"url","message":"Pay","url":"https://acme.example","task":{"ttl":5},
        "elicitationId":"own","_meta":{"k":1.0,"io.modelcontextprotocol/related-task":{"taskId":"another"}},"x":[1E2]}}"#;
    let task: TaskId = "tsk_1".parse().unwrap();
    let delivery = LegacyInputRequest {
        id: "srv-3",
        request: question,
        task: Some(&task),
        client_task: None,
    };
    let mut out = String::new();
    delivery.write(&mut out).unwrap();
    let params = r#""elicitationId":"own","_meta":{"k":1.0,"io.modelcontextprotocol/related-task":{"taskId":"tsk_1"}},"x":[1E2]}}"#;
    assert!(out.ends_with(params) && !out.contains("ttl"), "{out}");
}

/// Nothing but the three questions goes out, and a refusal leaves no half of a message behind.
#[test]
fn an_invalid_input_request_is_refused() {
    for question in [
        "",
        "[]",
        "{}",
        r#"{"method":5}"#,
        r#"{"method":"tools/call","params":{}}"#,
        r#"{"method":"elicitation/create"}"#,
        r#"{"method":"elicitation/create","params":[]}"#,
        r#"{"method":"elicitation/create","params":{"mode":"telepathy"}}"#,
        r#"{"method":"elicitation/create","params":{"mode":7}}"#,
        r#"{"method":"sampling/createMessage"}"#,
        r#"{"method":"roots/list","method":"roots/list"}"#,
    ] {
        assert!(InputRequest::read(question).is_err(), "{question}");
        let delivery = LegacyInputRequest {
            id: "a",
            request: question,
            task: None,
            client_task: None,
        };
        let mut out = String::from("kept");
        assert_eq!(delivery.write(&mut out).unwrap_err().code(), -32603);
        assert_eq!(out, "kept");
    }
}

/// Each question names the capability it needs, as −32021 shows it.
#[test]
fn an_input_request_needs_a_declared_capability() {
    for (question, needs) in [
        (FORM, json!({"elicitation": {"form": {}}})),
        (PLAIN_FORM, json!({"elicitation": {"form": {}}})),
        (URL, json!({"elicitation": {"url": {}}})),
        (SAMPLE, json!({"sampling": {}})),
        (SAMPLE_WITH_TOOLS, json!({"sampling": {"tools": {}}})),
        (ROOTS, json!({"roots": {}})),
    ] {
        let capability = InputRequest::read(question).unwrap().capability();
        let refused = RpcError::missing_capability(capability);
        let data: Value = serde_json::from_str(refused.data().unwrap()).unwrap();
        assert_eq!(data, json!({"requiredCapabilities": needs}));
        let declared = |capabilities: &Value| read_client_capabilities(&raw(capabilities)).unwrap();
        assert!(declared(&needs).has(capability), "{needs}");
        assert!(!declared(&json!({})).has(capability), "{needs}");
    }
    let nulls = [
        (
            r#"{"method":"elicitation/create","params":{"mode":null}}"#,
            Capability::ElicitationForm,
        ),
        (
            r#"{"method":"sampling/createMessage","params":{"tools":null}}"#,
            Capability::Sampling,
        ),
    ];
    for (question, capability) in nulls {
        assert_eq!(InputRequest::read(question).unwrap().capability(), capability);
    }
    // A part is not the whole.
    let sampling = read_client_capabilities(&raw(&json!({"sampling": {}}))).unwrap();
    assert!(!sampling.has(Capability::SamplingTools));
    let url = read_client_capabilities(&raw(&json!({"elicitation": {"url": {}}}))).unwrap();
    assert!(!url.has(Capability::ElicitationForm));
    assert!(!ClientCapabilities::default().has(Capability::Tasks));
}

/// A wrong shape is told apart, in words, from an answer nobody likes.
#[test]
fn answers_are_checked_against_their_input_request() {
    let fits = |question: &str, answer: Value| {
        let question = InputRequest::read(question).unwrap();
        question.check(&raw(&answer)).map_err(|error| {
            assert!(InvalidResponse::is_failure(&error.clone().into_failure()));
            let error = RpcError::from(error);
            assert_eq!(error.code(), -32602);
            error.message().to_owned()
        })
    };
    let sampled = json!({"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"});
    let rooted = json!({"roots": [{"uri": "file:///a"}, {"uri": "file:///b", "name": "b"}]});
    for (question, answer) in [
        (FORM, json!({"action": "accept", "content": {"a": [1, {}]}})),
        (FORM, json!({"action": "decline"})),
        (FORM, json!({"action": "accept"})),
        (STRICT_FORM, json!({"action": "cancel"})),
        (NO_FORM, json!({"action": "decline"})),
        (STRICT_FORM, json!({"action": "accept", "content": {"a": "x"}})),
        (PLAIN_FORM, json!({"action": "cancel", "content": null})),
        (URL, json!({"action": "accept"})),
        (URL, json!({"action": "accept", "content": {}})),
        (SAMPLE, sampled.clone()),
        (
            SAMPLE_WITH_TOOLS,
            json!({"role": "user", "content": [], "model": "", "stopReason": "endTurn"}),
        ),
        (ROOTS, rooted),
        (ROOTS, json!({"roots": []})),
    ] {
        assert_eq!(fits(question, answer.clone()), Ok(()), "{answer}");
    }
    let mut no_role = sampled.clone();
    no_role["role"] = json!("system");
    let mut no_content = sampled.clone();
    no_content["content"] = json!("x");
    let mut no_model = sampled;
    no_model.as_object_mut().unwrap().remove("model");
    for (question, answer, says) in [
        (FORM, json!([]), "it must be an object"),
        (FORM, json!({}), "action must be accept, decline or cancel"),
        (FORM, json!({"action": "Accept"}), "action must be"),
        (
            STRICT_FORM,
            json!({"action": "accept"}),
            "`a` is missing; it must be a text",
        ),
        (
            STRICT_FORM,
            json!({"action": "accept", "content": {"a": 1}}),
            "`a` does not fit; it must be a text",
        ),
        (
            NO_FORM,
            json!({"action": "accept", "content": {}}),
            "it can only be declined",
        ),
        (
            FORM,
            json!({"action": "accept", "content": "yes"}),
            "content must be an object",
        ),
        (
            URL,
            json!({"action": "decline", "content": []}),
            "content must be an object",
        ),
        (SAMPLE, no_role, "role must be assistant or user"),
        (SAMPLE, no_content, "content must be an object or an array"),
        (SAMPLE, no_model, "model must be a string"),
        (ROOTS, json!({}), "roots must be an array of objects with a uri"),
        (ROOTS, json!({"roots": [{"uri": 5}]}), "roots must be"),
        (ROOTS, json!({"roots": ["file:///a"]}), "roots must be"),
        (ROOTS, json!({"roots": {"uri": "file:///a"}}), "roots must be"),
    ] {
        let said = fits(question, answer.clone()).unwrap_err();
        assert!(said.contains(says), "{answer}: {said}");
    }
    let twice = r#"{"action":"accept","action":"decline"}"#;
    let judged = InputRequest::read(FORM)
        .unwrap()
        .check(serde_json::from_str(twice).unwrap());
    assert_eq!(
        judged,
        Err(InvalidResponse::Structure("it must be an object with each member once"))
    );
    assert!(!InvalidResponse::is_failure(&RpcFailure::new(-32602, "no window")));
}

#[test]
fn an_answer_is_stored_without_its_related_task() {
    let tied = r#"{"action":"accept", "_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"},"k":1}}"#;
    assert_eq!(
        strip_related_task(tied).unwrap().as_str(),
        r#"{"action":"accept", "_meta":{"k":1}}"#
    );
    assert_eq!(strip_related_task("[]").unwrap_err().code(), -32602);
}

/// We are the one who polls.
#[test]
fn requests_about_a_clients_tasks_match_the_schema() {
    type Writer = fn(&mut String, &str, &str);
    let writers: [(Writer, &str); 3] = [
        (client_task::write_get, "GetTaskRequest"),
        (client_task::write_result, "GetTaskPayloadRequest"),
        (client_task::write_cancel, "CancelTaskRequest"),
    ];
    for (write, definition) in writers {
        let got = written(|out| write(out, "srv-1", "cli\"1"));
        schema::check(&format!("25:msg:{definition}"), &got);
        assert_eq!(
            (&got["id"], &got["params"]),
            (&json!("srv-1"), &json!({"taskId": "cli\"1"}))
        );
    }
    let got = written(|out| legacy::write_ping(out, "srv-2"));
    schema::check("25:msg:PingRequest", &got);
}

#[test]
fn a_client_answers_with_a_task_or_at_once() {
    let task = |status: &str| {
        json!({"taskId": "cli-1", "status": status, "statusMessage": "m", "createdAt": "2026-11-20T09:30:00Z",
            "lastUpdatedAt": "2026-11-20T09:30:00Z", "ttl": null, "pollInterval": 1000})
    };
    for status in ["working", "input_required", "completed", "failed", "cancelled"] {
        let text = raw(&task(status));
        schema::check("25:msg:Task", &task(status));
        let read = ClientTask::read(&text).unwrap();
        assert_eq!((&*read.id, read.status.as_str()), ("cli-1", status));
        assert_eq!(
            (read.poll_interval, read.status_message.as_deref()),
            (Some(1000), Some("m"))
        );
        let created = raw(&json!({"task": task(status), "_meta": {}}));
        assert_eq!(ClientTask::created(&created).unwrap(), Some(read));
    }
    assert_eq!(TaskStatus::parse("submitted"), None, "a draft's status");
    let at_once = raw(&json!({"action": "decline"}));
    assert_eq!(ClientTask::created(&at_once).unwrap(), None);
    for broken in [
        json!({"task": null}),
        json!({"task": {"status": "working"}}),
        json!({"task": {"taskId": 1, "status": "working"}}),
        json!({"task": {"taskId": "t", "status": "unknown"}}),
        json!([]),
    ] {
        assert!(ClientTask::created(&raw(&broken)).is_err(), "{broken}");
    }
}

#[test]
fn a_clients_error_is_read_even_if_it_is_malformed() {
    let read = |text: &'static str| {
        let Ok(Message::Response(response)) = Message::parse(text.as_bytes()) else {
            panic!("{text}")
        };
        let error = RemoteError::read(response.outcome.unwrap_err());
        (error.code, error.message.into_owned(), error.data.map(RawValue::get))
    };
    assert_eq!(
        read(r#"{"jsonrpc":"2.0","id":"s","error":{"code":-1,"message":"User \u0072ejected","data":{"k":1}}}"#),
        (-1, "User rejected".into(), Some(r#"{"k":1}"#))
    );
    let (code, words, data) = read(r#"{"jsonrpc":"2.0","id":"s","error":{"code":"x"}}"#);
    assert_eq!((code, data), (-32603, None));
    assert!(!words.is_empty());
    assert_eq!(read(r#"{"jsonrpc":"2.0","id":"s","error":"no"}"#).0, -32603);
}

//! What our writers say in the situations of the protocol's examples is what the examples say.
//!
//! Compared as values, after three known differences are taken out: moments carry milliseconds here, every modern result names
//! the server, and a server lists its own versions and features.

use crate::{
    examples::{LEGACY, MODERN, lines},
    fixture::*,
};
use longhaul_core::{Capability, Progress, TaskPolicy};
use longhaul_wire::{
    AdmissionRules, CacheHints, CacheScope, Generation, Headers, InputRequest, ListCapability, Message,
    MessageTransport, OutputSchema, RpcError, ServerCapabilities, ServerInfo, SessionState, TaskStatus, ToolEntry,
    Version, admit,
    jsonrpc::write_result,
    legacy::{
        self,
        client_task::{self, ClientTask},
        input_request::LegacyInputRequest,
    },
    modern,
    notification::{write_cancelled, write_progress},
    params::TaskMetadata,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// The `nth` example (from 0) that contains `needle`.
fn example(text: &'static str, needle: &str, nth: usize) -> &'static str {
    lines(text)
        .filter(|(_, line)| line.contains(needle))
        .nth(nth)
        .unwrap()
        .1
}

fn response_to(text: &'static str, id: &str) -> Value {
    let answers = [format!(r#""id":{id},"result""#), format!(r#""id":{id},"error""#)];
    let found = lines(text).find(|(_, line)| answers.iter().any(|answer| line.contains(answer.as_str())));
    serde_json::from_str(found.unwrap().1).unwrap()
}

/// Takes the known differences out of both sides.
fn plain(mut value: Value) -> Value {
    fn walk(value: &mut Value) {
        match value {
            Value::Object(members) => {
                if let Some(Value::Object(meta)) = members.get_mut("_meta") {
                    meta.remove("io.modelcontextprotocol/serverInfo");
                    if meta.is_empty() {
                        members.remove("_meta");
                    }
                }
                for (key, member) in members {
                    match (key.as_str(), &mut *member) {
                        ("createdAt" | "lastUpdatedAt", Value::String(text)) => *text = text.replace(".000Z", "Z"),
                        _ => walk(member),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(walk),
            _ => {}
        }
    }
    walk(&mut value);
    value
}

fn answers(text: &'static str, id: &str, write: impl FnOnce(&mut String, longhaul_wire::RequestId<'_>)) {
    let asking = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
    let got = written(|out| write(out, request(&asking).id));
    assert_eq!(plain(got), plain(response_to(text, id)));
}

#[test]
fn legacy_answers() {
    let now = NINE.plus(30_000); // a tenth of 30 s: the examples' 3 s
    let id = "tsk_9Zr4vQ2mXk7Lw0aB";
    let task = || task(id, 7_200_000);
    let hint = "Rendering has started; I will report when it is done.";
    answers(LEGACY, "3", |out, id| {
        write_result(out, id, |out| {
            legacy::tasks::write_created(out, &with_status(task(), "Queued."), Some(hint), now)
        });
    });
    answers(LEGACY, "4", |out, id| {
        RpcError::must_be_task("train_model").write_response(out, Some(id))
    });
    answers(LEGACY, "5", |out, id| {
        RpcError::cannot_be_task("add").write_response(out, Some(id))
    });
    let waiting = updated(with_status(task(), "Waiting for a licence choice."), "09:03:11");
    let waiting = asking(waiting, &[("in-1", json!({}))]);
    answers(LEGACY, "6", |out, id| {
        write_result(out, id, |out| legacy::tasks::write_get(out, &waiting, None, now))
    });

    let of = |id: &str| id.parse().unwrap();
    let rendered = result(&json!({"content": [{"type":"text","text":"Rendered p-17."},
        {"type":"resource_link","uri":"file:///out/p-17.mp4","name":"p-17.mp4","mimeType":"video/mp4"}], "isError": false}));
    answers(LEGACY, "7", |out, rid| {
        legacy::tasks::write_payload(out, rid, &of(id), None, &rendered)
    });
    let died = rpc_error(-32603, "Encoder process died", Some(json!({"exit":137})));
    answers(LEGACY, "8", |out, rid| {
        legacy::tasks::write_payload(out, rid, &of(id), None, &died)
    });
    let refused = result(&json!({"content":[{"type":"text","text":"Project p-99 has no tracks."}],"isError":true}));
    answers(LEGACY, "9", |out, rid| {
        legacy::tasks::write_payload(out, rid, &of("tsk_Yb3"), None, &refused)
    });

    let finished = done(updated(task(), "09:21:40"), rendered);
    answers(LEGACY, "10", |out, rid| {
        let tasks = [finished.task.clone()];
        write_result(out, rid, |out| {
            legacy::tasks::write_list(out, &tasks, Some("b2Zmc2V0OjUx"), now)
        });
    });
    let mut stopped = crate::fixture::task("tsk_Qq8", 600_000);
    Arc::make_mut(&mut stopped.header).created_at = at("09:10:00");
    stopped.announced_until = at("09:20:00");
    let stopped = cancelled(updated(with_status(stopped, "Cancelled by the client."), "09:12:00"));
    answers(LEGACY, "11", |out, rid| {
        write_result(out, rid, |out| legacy::tasks::write_get(out, &stopped, None, now))
    });
    answers(LEGACY, "12", |out, rid| {
        RpcError::cannot_cancel("completed").write_response(out, Some(rid))
    });
    answers(LEGACY, "13", |out, rid| {
        RpcError::task_not_found().write_response(out, Some(rid))
    });

    let pushed = written(|out| legacy::tasks::write_status_notification(out, &finished.task, None, now));
    let expected = serde_json::from_str(example(LEGACY, "tasks/status", 0)).unwrap();
    assert_eq!(plain(pushed), plain(expected));
}

/// Without the capabilities that only Longhaul has.
fn without_own(mut result: Value) -> Value {
    let capabilities = &mut result["capabilities"];
    if let Some(experimental) = capabilities.as_object_mut().unwrap().remove("experimental") {
        assert_eq!(
            experimental,
            json!({"dev.longhaul/idempotency": {"cancel": true}, "dev.longhaul/deletion": {}})
        );
    } else {
        let extensions = capabilities["extensions"].as_object_mut().unwrap();
        for (own, declared) in [
            ("dev.longhaul/idempotency", json!({"cancel": true})),
            ("dev.longhaul/deletion", json!({})),
        ] {
            assert_eq!(extensions.remove(own), Some(declared));
        }
    }
    result
}

#[test]
fn legacy_handshake_tools_questions_and_progress() {
    let features = ServerCapabilities {
        tools: Some(ListCapability { list_changed: true }),
        tasks: true,
        idempotency: true,
        task_list: true,
        ..ServerCapabilities::default()
    };
    let got = written(|out| legacy::handshake::write_initialize(out, Version::V2025_11_25, &features, &server_info()));
    let expected = response_to(LEGACY, "1")["result"].take();
    assert_eq!(without_own(got), expected);

    let entry = ToolEntry {
        name: "render_video",
        title: Some("Render video"),
        description: Some("Renders a project; minutes to hours."),
        input_schema: r#"{"type":"object","properties":{"project":{"type":"string"}},"required":["project"]}"#,
        output_schema: OutputSchema::None,
        annotations: None,
        icons: None,
        meta: None,
        listed: None,
        policy: TaskPolicy::Optional,
    };
    answers(LEGACY, "2", |out, id| {
        write_result(out, id, |out| {
            legacy::tools::write_list(out, &[entry], None, Version::V2025_11_25)
        });
    });

    let elicit: Value = serde_json::from_str(example(LEGACY, "elicitation/create\",\"params", 0)).unwrap();
    let mut question = json!({"method": elicit["method"], "params": elicit["params"]});
    question["params"].as_object_mut().unwrap().remove("_meta");
    let question = question.to_string();
    let task = "tsk_9Zr4vQ2mXk7Lw0aB".parse().unwrap();
    let delivery = LegacyInputRequest {
        id: "srv-41",
        request: &question,
        task: Some(&task),
        client_task: None,
    };
    assert_eq!(written(|out| delivery.write(out).unwrap()), elicit);

    let answer: Value = serde_json::from_str(example(LEGACY, r#""id":"srv-41","result""#, 0)).unwrap();
    let kept = legacy::input_request::strip_related_task(&answer["result"].to_string()).unwrap();
    let kept: Value = serde_json::from_str(kept.as_str()).unwrap();
    assert_eq!(
        kept,
        json!({"action":"accept","content":{"licence":"personal"},"_meta":{}})
    );

    let call = request(example(LEGACY, r#""id":3,"method""#, 0));
    let meta = call.params().unwrap().meta().unwrap();
    let token = meta.progress_token().unwrap().unwrap();
    let progress = Progress {
        current: 60.0,
        total: Some(100.0),
    };
    let got = written(|out| write_progress(out, token, progress, Some("Encoding"), Some(&task), None));
    assert_eq!(
        got,
        serde_json::from_str::<Value>(example(LEGACY, "notifications/progress", 0)).unwrap()
    );
}

#[test]
fn modern_answers() {
    let now = NINE.plus(30_000);
    let task = |ttl| task("tsk_4hC1nD8sPq6Zt2Yx", ttl);
    let server_info = server_info();
    answers(MODERN, "21", |out, id| {
        write_result(out, id, |out| {
            modern::tasks::write_created(out, &with_status(task(7_200_000), "Queued."), &server_info, now)
        });
    });
    let get = |id: &str, record| {
        answers(MODERN, id, |out, id| {
            write_result(out, id, |out| {
                modern::tasks::write_get(out, &record, None, &server_info, now)
            })
        });
    };
    get(
        "22",
        live(updated(with_status(task(7_200_000), "Encoding 60 %"), "09:02:10")),
    );
    let question = response_to(MODERN, "23")["result"]["inputRequests"]["in-1"].take();
    get(
        "23",
        asking(updated(task(7_200_000), "09:03:11"), &[("in-1", question)]),
    );
    let refused = result(&json!({"content":[{"type":"text","text":"Project p-99 has no tracks."}],"isError":true}));
    get("24", done(updated(task(10_800_000), "09:21:40"), refused));
    let died = rpc_error(-32603, "Encoder process died", Some(json!({"exit":137})));
    get("25", done(updated(task(7_200_000), "09:21:40"), died));
    answers(MODERN, "26", |out, id| {
        write_result(out, id, |out| modern::tasks::write_ack(out, &server_info))
    });
    answers(MODERN, "27", |out, id| {
        write_result(out, id, |out| modern::tasks::write_ack(out, &server_info))
    });

    let rendered = result(&json!({"content":[{"type":"text","text":"Rendered p-17."}],"isError":false}));
    let record = done(updated(task(10_800_000), "09:21:40"), rendered);
    let listening = request(example(MODERN, r#""id":30,"method""#, 0));
    let listen = listening.id;
    let mut accepted = listening.params().unwrap().listen().unwrap();
    accepted.task_ids.retain(|id| id != "tsk_not_mine");
    let got = written(|out| modern::subscription::write_acknowledged(out, listen, &accepted));
    let acknowledged = example(MODERN, "subscriptions/acknowledged", 0);
    assert_eq!(got, serde_json::from_str::<Value>(acknowledged).unwrap());
    answers(MODERN, "30", |out, id| {
        modern::subscription::write_end(out, id, &server_info)
    });
    let got = written(|out| modern::tasks::write_notification_for(out, &record, None, listen, now));
    assert_eq!(
        plain(got),
        plain(serde_json::from_str(example(MODERN, "notifications/tasks\"", 0)).unwrap())
    );
}

#[test]
fn modern_rounds_of_questions() {
    let server_info = server_info();
    let round = response_to(MODERN, "40")["result"].take();
    let (question, state) = (
        round["inputRequests"]["who"].to_string(),
        round["requestState"].as_str(),
    );
    answers(MODERN, "40", |out, id| {
        write_result(out, id, |out| {
            modern::input_required::write(out, [("who", question.as_str())], state, &server_info);
        });
    });
    let retry = request(example(MODERN, r#""id":41,"method""#, 0));
    let retry = retry.params().unwrap().call_tool().unwrap();
    assert_eq!(retry.request_state.as_deref(), state);
    let [(key, answer)] = &retry.input_responses[..] else {
        panic!("{retry:?}")
    };
    assert_eq!(key, "who");
    InputRequest::read(&question).unwrap().check(answer).unwrap();
    answers(MODERN, "42", |out, id| {
        write_result(out, id, |out| {
            modern::input_required::write(out, [], Some("v1.nonce.01J…mac"), &server_info);
        });
    });
}

/// A client hosts a task for us.
#[test]
fn legacy_tasks_of_a_client() {
    let asked: Value = serde_json::from_str(example(LEGACY, "sampling/createMessage", 0)).unwrap();
    let mut params = asked["params"].clone();
    params.as_object_mut().unwrap().remove("task");
    let question = json!({"method": asked["method"], "params": params}).to_string();
    let delivery = LegacyInputRequest {
        id: "srv-50",
        request: &question,
        task: None,
        client_task: Some(TaskMetadata { ttl: Some(900_000) }),
    };
    assert_eq!(written(|out| delivery.write(out).unwrap()), asked);

    let Ok(Message::Response(answer)) = Message::parse(example(LEGACY, r#""id":"srv-50","result""#, 0).as_bytes())
    else {
        panic!()
    };
    let task = ClientTask::created(answer.outcome.unwrap()).unwrap().unwrap();
    assert_eq!((task.status, task.poll_interval), (TaskStatus::Working, Some(1000)));
    let polled: Value = serde_json::from_str(example(LEGACY, r#""id":"srv-51""#, 0)).unwrap();
    assert_eq!(written(|out| client_task::write_get(out, "srv-51", &task.id)), polled);
}

#[test]
fn stdio_of_both_generations() {
    let features = ServerCapabilities {
        tools: Some(ListCapability::default()),
        tasks: true,
        idempotency: true,
        task_list: true,
        ..ServerCapabilities::default()
    };
    let stale = CacheHints {
        ttl_ms: 0,
        scope: CacheScope::Private,
    };
    let nameless = ServerInfo::new("acme-tasks", "0.3.0");
    let got = written(|out| modern::handshake::write_discover(out, &features, stale, &nameless));
    let mut expected = response_to(MODERN, "\"p\"")["result"].take();
    expected["supportedVersions"] = got["supportedVersions"].clone();
    assert_eq!(plain(without_own(got)), expected);

    let cancelled = example(MODERN, "notifications/cancelled", 0);
    let Ok(Message::Notification(read)) = Message::parse(cancelled.as_bytes()) else {
        panic!()
    };
    let read = read.params().unwrap().cancelled().unwrap();
    let got = written(|out| write_cancelled(out, read.request_id, read.reason.as_deref()));
    assert_eq!(got, serde_json::from_str::<Value>(cancelled).unwrap());
}

#[test]
fn modern_discovery_and_errors() {
    let features = ServerCapabilities {
        tools: Some(ListCapability { list_changed: true }),
        tasks: true,
        idempotency: true,
        task_list: true,
        ..ServerCapabilities::default()
    };
    let cache = CacheHints {
        ttl_ms: 600_000,
        scope: CacheScope::Public,
    };
    let got = written(|out| modern::handshake::write_discover(out, &features, cache, &server_info()));
    let mut expected = response_to(MODERN, "\"d1\"")["result"].take();
    expected["supportedVersions"] = got["supportedVersions"].clone();
    assert_eq!(got["supportedVersions"][0], "2026-07-28");
    assert_eq!(without_own(got), expected);

    let error = |id: &str, status: u16, error: RpcError| {
        assert_eq!(error.status(), status);
        let asking = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
        let mut got = written(|out| error.write_response(out, Some(request(&asking).id)));
        let mut expected = response_to(MODERN, id);
        for side in [&mut got, &mut expected] {
            if let Some(data) = side["error"]["data"].as_object_mut() {
                data.remove("supported");
            }
        }
        assert_eq!(got, expected);
    };
    error("50", 400, RpcError::missing_capability(Capability::Tasks));
    let get = request(example(MODERN, r#""id":22,"method""#, 0));
    let headers = Headers {
        protocol_version: Some(b"2026-07-28"),
        method: Some(b"tasks/get"),
        name: Some(b"another"),
        ..Headers::default()
    };
    let transport = MessageTransport::Http {
        headers,
        session: SessionState::None,
        sessionless: false,
    };
    let rules = AdmissionRules {
        strict_headers: false,
        serves: |_| true,
    };
    error("51", 400, admit(&get, &transport, &rules).unwrap_err());
    error("52", 400, RpcError::unsupported_version("2031-01-01"));
    error(
        "53",
        400,
        RpcError::malformed_meta("_meta lacks io.modelcontextprotocol/clientCapabilities"),
    );
    error(
        "54",
        404,
        RpcError::method_not_found(Generation::Modern, "tasks/result"),
    );
    error("55", 200, RpcError::task_not_found());
}

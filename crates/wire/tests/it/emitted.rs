//! Whatever the state of a task, what is written about it matches the official schemas.

use crate::{fixture::*, schema};
use longhaul_core::{Capability, Lineage, Outcome, Progress, TaskId, UnixMillis, store::Record};
use longhaul_wire::{
    Generation, Message, Rejection, RpcError, Version, legacy, modern,
    notification::{write_cancelled, write_progress},
};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) fn every_record() -> Vec<Record> {
    let task = || task("tsk_1", 60_000);
    let elicit = json!({"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}});
    vec![
        live(task()),
        live(with_status(task(), "line \"1\"\n\u{1}")),
        blocked(live(with_status(task(), "the tool's own line"))),
        blocked(asking(task(), &[("in-1", elicit.clone())])),
        asking(task(), &[("in-1", elicit.clone()), ("in-2", elicit)]),
        done(task(), result(&json!({"content": []}))),
        done(
            task(),
            result(
                &json!({"content": [], "isError": true, "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "upstream"}}}),
            ),
        ),
        done(task(), rpc_error(-32002, "gone", None)),
        done(task(), Outcome::from(longhaul_core::Failure::Interrupted)),
        cancelled(task()),
        // Kept for good, and gone at once: the ends of the scale.
        live(longhaul_core::Task {
            announced_until: UnixMillis(i64::MAX),
            ..task()
        }),
        live(longhaul_core::Task {
            announced_until: NINE,
            ..task()
        }),
    ]
}

/// It is working, unless a question is open, and says why it does not go on in the place of its own last line.
#[test]
fn a_blocked_task_is_working_and_says_why() {
    let asked = json!({"method": "elicitation/create", "params": {"message": "?"}});
    let cases = [
        (blocked(live(with_status(task("tsk_1", 60_000), "packing"))), "working"),
        (
            blocked(asking(task("tsk_1", 60_000), &[("in-1", asked)])),
            "input_required",
        ),
    ];
    for (record, status) in cases {
        let modern = respond(|out| modern::tasks::write_get(out, &record, None, &server_info(), NINE));
        let legacy = respond(|out| legacy::tasks::write_get(out, &record, None, NINE));
        let pushed = written(|out| legacy::tasks::write_status_notification(out, &record.task, None, NINE));
        for shown in [&modern["result"], &legacy["result"], &pushed["params"]] {
            let expected = "blocked (poisoned): 5 attempts failed without forward progress; the last: unknown";
            assert_eq!(
                (&shown["status"], &shown["statusMessage"]),
                (&json!(status), &json!(expected))
            );
        }
    }
}

#[test]
fn legacy_task_messages_match_the_schema() {
    for record in every_record() {
        let Record { task, outcome, .. } = &record;
        schema::check(
            "25:res:GetTaskResult",
            &respond(|out| legacy::tasks::write_get(out, &record, None, NINE)),
        );
        schema::check(
            "25:res:CancelTaskResult",
            &respond(|out| legacy::tasks::write_get(out, &record, None, NINE)),
        );
        let created = respond(|out| legacy::tasks::write_created(out, task, None, NINE));
        schema::check("25:res:CreateTaskResult", &created);
        assert_eq!(created["result"]["task"]["status"], "working");
        let listed = respond(|out| legacy::tasks::write_list(out, &[task.clone(), task.clone()], None, NINE));
        schema::check("25:res:ListTasksResult", &listed);
        let pushed = written(|out| legacy::tasks::write_status_notification(out, task, outcome.as_ref(), NINE));
        schema::check("25:msg:TaskStatusNotification", &pushed);
        let shown = respond(|out| legacy::tasks::write_get(out, &record, None, NINE))["result"].clone();
        if shown["status"] == "failed" {
            // Also of a task that an earlier release ended, which kept no line with it.
            for shown in [&shown, &pushed["params"], &listed["result"]["tasks"][0]] {
                let why = shown["statusMessage"].as_str().unwrap_or_default();
                assert!(!why.is_empty() && !why.contains('\n'), "{shown}");
            }
        }
        let Some(outcome) = outcome else { continue };
        let asking = request(r#"{"jsonrpc":"2.0","id":"r","method":"m"}"#);
        let payload = written(|out| legacy::tasks::write_payload(out, asking.id, &task.id, None, outcome));
        match outcome {
            Outcome::Result { .. } => {
                schema::check("25:res:CallToolResult", &payload);
                let related = &payload["result"]["_meta"]["io.modelcontextprotocol/related-task"];
                assert_eq!(related, &json!({"taskId": "tsk_1"}));
            }
            _ => schema::check("25:msg:JSONRPCErrorResponse", &payload),
        }
    }
}

#[test]
fn modern_task_messages_match_the_schema_and_have_no_other_members() {
    for record in every_record() {
        let got = respond(|out| modern::tasks::write_get(out, &record, None, &server_info(), NINE));
        schema::check("x:res:GetTaskResult", &got);
        let result = &got["result"];
        assert_eq!(result["resultType"], "complete");
        let has = |member: &str| result.get(member).is_some();
        let status = result["status"].as_str().unwrap();
        assert_eq!(has("result"), status == "completed");
        assert_eq!(has("error"), status == "failed");
        assert_eq!(has("inputRequests"), status == "input_required");
        for foreign in ["task", "ttl", "pollInterval", "requestState"] {
            assert!(!has(foreign), "{foreign}");
        }
        assert!(!result["result"].to_string().contains("related-task"));
        if status == "completed" {
            schema::check("26:res:CallToolResult", &json!({"result": result["result"]}));
        }
        assert_ne!(result["error"]["code"], -32002);
        assert!(result["ttlMs"].is_null() || result["ttlMs"].as_u64().unwrap() > 0);

        let created = respond(|out| modern::tasks::write_created(out, &record.task, &server_info(), NINE));
        schema::check("x:res:CreateTaskResult", &created);
        for foreign in [
            "task",
            "result",
            "error",
            "inputRequests",
            "requestState",
            "ttl",
            "pollInterval",
        ] {
            assert!(created["result"].get(foreign).is_none(), "{foreign}");
        }
        // What a modern client is shown of a legacy task is that task, as a complete result.
        let mut shown = respond(|out| modern::tasks::write_legacy_task(out, &record, None, &server_info(), NINE));
        let legacy = respond(|out| legacy::tasks::write_get(out, &record, None, NINE));
        let members = shown["result"].as_object_mut().unwrap();
        assert_eq!(members.remove("resultType"), Some(json!("complete")));
        assert!(
            members
                .remove("_meta")
                .unwrap()
                .get("io.modelcontextprotocol/serverInfo")
                .is_some()
        );
        assert_eq!(shown, legacy);

        let listen = request(r#"{"jsonrpc":"2.0","id":"l-1","method":"m"}"#);
        let pushed = written(|out| modern::tasks::write_notification_for(out, &record, None, listen.id, NINE));
        schema::check("x:msg:TaskStatusNotification", &pushed);
        assert!(pushed["params"].get("resultType").is_none());
    }
    schema::check(
        "x:res:CancelTaskResult",
        &respond(|out| modern::tasks::write_ack(out, &server_info())),
    );
}

#[test]
fn notifications_match_both_schemas() {
    let asking = request(r#"{"jsonrpc":"2.0","id":"a\u002f","method":"m"}"#);
    for current in [0.0, 0.1, -3.0, 1e300, f64::NAN, f64::INFINITY] {
        let progress = Progress { current, total: None };
        let got = written(|out| write_progress(out, asking.id, progress, None, None, None));
        schema::check("25:msg:ProgressNotification", &got);
        schema::check("26:msg:ProgressNotification", &got);
        assert_eq!(
            got["params"]["progress"].as_f64(),
            Some(if current.is_finite() { current } else { 0.0 })
        );
    }
    let got = written(|out| write_cancelled(out, asking.id, Some("done")));
    schema::check("25:msg:CancelledNotification", &got);
    schema::check("26:msg:CancelledNotification", &got);
    assert_eq!(got["params"]["requestId"], "a/");
}

pub(crate) fn every_error() -> Vec<RpcError> {
    vec![
        RpcError::parse("m"),
        RpcError::invalid_request("m"),
        RpcError::method_not_found(Generation::Modern, "m"),
        RpcError::method_not_found(Generation::Legacy, "m"),
        RpcError::invalid_params("m"),
        RpcError::malformed_meta("m"),
        RpcError::unknown_tool("t\n", Some("x\n")),
        RpcError::task_not_found(),
        RpcError::cannot_cancel("failed"),
        RpcError::must_be_task("t"),
        RpcError::cannot_be_task("t"),
        RpcError::task_cancelled("t", None, None),
        RpcError::task_cancelled("t", Some("so far\n"), Some(r#"{"code":3}"#)),
        RpcError::internal("m"),
        RpcError::resource_not_found(Generation::Modern, "u\""),
        RpcError::resource_not_found(Generation::Legacy, "u"),
        RpcError::header_mismatch("m"),
        RpcError::missing_capability(Capability::Tasks),
        RpcError::missing_capability(Capability::ElicitationForm),
        RpcError::missing_capability(Capability::ElicitationUrl),
        RpcError::missing_capability(Capability::Sampling),
        RpcError::missing_capability(Capability::SamplingTools),
        RpcError::missing_capability(Capability::Roots),
        RpcError::unsupported_version("1900-01-01"),
        RpcError::session_not_found(),
        RpcError::application(17, "m").unwrap(),
    ]
}

#[test]
fn errors_match_the_schemas_and_never_carry_a_retired_code() {
    let errors = every_error();
    for error in &errors {
        let refusal = Rejection {
            id: None,
            error: error.clone(),
        };
        let idless = written(|out| refusal.write(out));
        schema::check("25:msg:JSONRPCErrorResponse", &idless);
        schema::check("26:msg:JSONRPCErrorResponse", &idless);
        assert!(idless.get("id").is_none());
        let reserved = (-32099..=-32000).contains(&error.code());
        assert!(
            !reserved || [-32020, -32021, -32022, -32002].contains(&error.code()),
            "{error}"
        );
        let definition = match error.code() {
            -32020 => "HeaderMismatchError",
            -32021 => "MissingRequiredClientCapabilityError",
            -32022 => "UnsupportedProtocolVersionError",
            _ => continue,
        };
        schema::check(&format!("26:msg:{definition}"), &idless);
    }
    for code in [-32768, -32700, -32603, -32099, -32042, -32004, -32000] {
        assert!(RpcError::application(code, "m").is_err(), "{code}");
    }
    let Ok(Message::Response(answer)) =
        Message::parse(br#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}"#)
    else {
        panic!()
    };
    assert!(answer.id.is_none() && answer.outcome.is_err());
}

#[test]
fn an_unsupported_version_error_lists_suitable_revisions() {
    let data = |error: &RpcError| serde_json::from_str::<Value>(error.data().unwrap()).unwrap();
    assert_eq!(
        data(&RpcError::unsupported_version("2025-11-25"))["supported"],
        json!(["2026-07-28"])
    );
    let all = data(&RpcError::unsupported_version("2031-01-01"));
    assert_eq!(all["supported"].as_array().unwrap().len(), Version::ALL.len());
}

/// Wherever the schemas have a place for it, and nowhere for a task that a client called.
#[test]
fn a_tasks_parent_and_root_are_in_meta() {
    let [parent, root]: [TaskId; 2] = ["tsk_parent", "tsk_root"].map(|id| id.parse().unwrap());
    let task = || task("tsk_1", 60_000);
    let lineage = Lineage {
        parent,
        root,
        entry: 3,
        depth: 2,
    };
    let mut child = task();
    Arc::make_mut(&mut child.header).lineage = Some(lineage.clone());
    let record = done(child.clone(), result(&json!({"content": [], "_meta": {"mine": 1}})));
    let asking = request(r#"{"jsonrpc":"2.0","id":"r","method":"m"}"#);
    let shown = |meta: &Value| {
        assert_eq!(
            (&meta["dev.longhaul/parent"], &meta["dev.longhaul/root"]),
            (&json!("tsk_parent"), &json!("tsk_root")),
            "{meta}"
        );
    };

    let got = respond(|out| legacy::tasks::write_get(out, &record, None, NINE));
    schema::check("25:res:GetTaskResult", &got);
    shown(&got["result"]["_meta"]);
    let outcome = record.outcome.as_ref().unwrap();
    let payload = written(|out| legacy::tasks::write_payload(out, asking.id, &child.id, Some(&lineage), outcome));
    schema::check("25:res:CallToolResult", &payload);
    shown(&payload["result"]["_meta"]);
    assert_eq!(payload["result"]["_meta"]["mine"], 1);
    let listed = respond(|out| legacy::tasks::write_list(out, &[task(), child.clone()], Some("c"), NINE));
    schema::check("25:res:ListTasksResult", &listed);
    shown(&listed["result"]["_meta"]["dev.longhaul/lineage"]["tsk_1"]);

    let got = respond(|out| modern::tasks::write_get(out, &record, None, &server_info(), NINE));
    schema::check("x:res:GetTaskResult", &got);
    shown(&got["result"]["_meta"]);
    assert!(got["result"]["_meta"]["io.modelcontextprotocol/serverInfo"].is_object());
    let pushed = written(|out| modern::tasks::write_notification_for(out, &record, None, asking.id, NINE));
    schema::check("x:msg:TaskStatusNotification", &pushed);
    shown(&pushed["params"]["_meta"]);

    let labels = json!({"note": "a \"b\"", "team": "infra"});
    let label = |text: &str| text.parse::<longhaul_core::Label>().unwrap();
    let all = [label("team=infra"), label("note=a \"b\"")];
    Arc::make_mut(&mut child.header).labels = longhaul_core::Labels::new(all);
    let record = live(child.clone());
    let got = respond(|out| legacy::tasks::write_get(out, &record, None, NINE));
    assert_eq!(got["result"]["_meta"]["dev.longhaul/labels"], labels);
    shown(&got["result"]["_meta"]);
    let got = respond(|out| modern::tasks::write_get(out, &record, None, &server_info(), NINE));
    assert_eq!(got["result"]["_meta"]["dev.longhaul/labels"], labels);
    let mut labelled = task();
    labelled.header = Arc::new(longhaul_core::TaskHeader {
        lineage: None,
        ..(*child.header).clone()
    });
    let listed = respond(|out| legacy::tasks::write_list(out, &[task(), labelled], None, NINE));
    schema::check("25:res:ListTasksResult", &listed);
    assert_eq!(
        listed["result"]["_meta"],
        json!({"dev.longhaul/labels": {"tsk_1": labels}})
    );

    let plain = respond(|out| legacy::tasks::write_get(out, &live(task()), None, NINE));
    let list = respond(|out| legacy::tasks::write_list(out, &[task()], None, NINE));
    for nothing in [plain, list] {
        assert!(nothing["result"].get("_meta").is_none(), "{nothing}");
    }
}

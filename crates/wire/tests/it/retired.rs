//! Names that the protocol has retired, that drafts had, or that belong to the other generation are on no message of ours.

use crate::{
    emitted::{every_error, every_record},
    fixture::*,
};
use longhaul_core::{Json, LogLevel, Progress, TaskPolicy};
use longhaul_wire::{
    InputRequest, ListCapability, ListChange, ListKind, OutputSchema, RelayedCapabilities, RequestId,
    ResourcesCapability, ServerCapabilities, ToolEntry, Version, legacy,
    legacy::{client_task, input_request::LegacyInputRequest},
    modern,
    notification::{write_cancelled, write_list_changed, write_log, write_progress, write_resource_updated},
    params::{SubscriptionFilter, TaskMetadata},
};
use serde_json::Value;

/// Of drafts and pre-releases.
const RETIRED: &[&str] = &[
    "modelcontextprotocol.io/",
    "keepAlive",
    "pollFrequency",
    "tasks/delete",
    "notifications/tasks/created",
    "tasksStatus",
    "\"submitted\"",
    "\"unknown\"",
    "\"code\":-32001,",
    "\"code\":-32003,",
    "\"code\":-32004,",
];

/// What only 2026-07-28 knows.
const MODERN: &[&str] = &[
    "\"resultType\"",
    "\"ttlMs\"",
    "\"cacheScope\"",
    "\"pollIntervalMs\"",
    "\"inputRequests\"",
    "\"requestState\"",
    "\"extensions\"",
    "\"notifications/tasks\"",
    "notifications/subscriptions/",
    "/serverInfo",
    "/subscriptionId",
    "\"code\":-32020,",
    "\"code\":-32021,",
    "\"code\":-32022,",
];

/// What only revisions up to 2025-11-25 know.
const LEGACY: &[&str] = &[
    "\"ttl\"",
    "\"pollInterval\"",
    "taskSupport",
    "\"execution\"",
    "\"task\":",
    "\"tasks\":",
    "/related-task",
    "/model-immediate-response",
    "elicitationId",
    "notifications/tasks/status",
    "notifications/elicitation/complete",
    "\"protocolVersion\"",
    "\"code\":-32002,",
    "\"code\":-32042,",
];

const FORM: &str = r#"{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object"}}}"#;
/// As a legacy client's call has asked.
const PAGE: &str = r#"{"method":"elicitation/create","params":{"mode":"url","message":"?","url":"https://acme.example","elicitationId":"e"}}"#;
const URL: &str =
    r#"{"method":"elicitation/create","params":{"mode":"url","message":"?","url":"https://acme.example"}}"#;

/// What has been written.
#[derive(Default)]
struct Messages(Vec<String>);

impl Messages {
    fn add(&mut self, write: impl FnOnce(&mut String)) {
        let mut out = String::new();
        write(&mut out);
        serde_json::from_str::<Value>(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
        self.0.push(out);
    }

    /// The errors that a request can be answered with, but for those of the other generation.
    fn add_errors_but(&mut self, others: &[i64]) {
        for error in every_error().iter().filter(|error| !others.contains(&error.code())) {
            self.add(|out| error.write_response(out, None));
        }
    }
}

fn features() -> ServerCapabilities {
    ServerCapabilities {
        tools: Some(ListCapability { list_changed: true }),
        resources: Some(ResourcesCapability {
            list_changed: true,
            subscribe: true,
        }),
        prompts: Some(ListCapability { list_changed: true }),
        completions: true,
        logging: true,
        tasks: true,
        task_list: true,
        idempotency: true,
        idempotency_retention: None,
        extensions: [].into(),
        relayed: RelayedCapabilities::default(),
    }
}

fn tool() -> ToolEntry<'static> {
    ToolEntry {
        name: "t",
        title: None,
        description: None,
        input_schema: r#"{"type":"object"}"#,
        output_schema: OutputSchema::None,
        annotations: None,
        icons: None,
        meta: None,
        listed: None,
        policy: TaskPolicy::Optional,
    }
}

/// Everything a legacy client can be sent.
fn legacy_messages(id: RequestId<'_>) -> Vec<String> {
    let (records, given) = (
        every_record(),
        Json::trusted(r#"{"content":[],"resultType":"complete","ttlMs":1,"cacheScope":"public"}"#),
    );
    let task = &records[0].task;
    let mut all = Messages::default();
    all.add(|out| legacy::handshake::write_initialize(out, Version::V2025_11_25, &features(), &server_info()));
    all.add(|out| legacy::tools::write_list(out, &[tool()], None, Version::V2025_11_25));
    all.add(|out| legacy::list::write(out, ListKind::Prompts, &[], Some("c")));
    all.add(|out| legacy::result::write_cacheable(out, id, &given));
    all.add(|out| {
        write_progress(
            out,
            id,
            Progress {
                current: 1.0,
                total: None,
            },
            None,
            Some(&task.id),
            None,
        )
    });
    all.add(|out| write_log(out, LogLevel::Info, None, "1", Some(&task.id), None));
    all.add(|out| write_list_changed(out, ListChange::Tools, None));
    all.add(|out| write_resource_updated(out, "a:b", None, None));
    all.add(|out| write_cancelled(out, id, None));
    all.add(|out| legacy::input_request::write_elicitation_complete(out, "e"));
    all.add(|out| legacy::write_ping(out, "p"));
    all.add(|out| client_task::write_get(out, "p", "t"));
    all.add(|out| client_task::write_result(out, "p", "t"));
    all.add(|out| client_task::write_cancel(out, "p", "t"));
    for question in [FORM, URL] {
        let delivery = LegacyInputRequest {
            id: "d",
            request: question,
            task: Some(&task.id),
            client_task: Some(TaskMetadata { ttl: Some(1) }),
        };
        all.add(|out| delivery.write(out).unwrap());
    }
    for record in &records {
        all.add(|out| legacy::tasks::write_created(out, &record.task, Some("hint"), NINE));
        all.add(|out| legacy::tasks::write_get(out, record, None, NINE));
        all.add(|out| legacy::tasks::write_status_notification(out, &record.task, None, NINE));
        if let Some(outcome) = &record.outcome {
            all.add(|out| legacy::tasks::write_payload(out, id, &record.task.id, None, outcome));
        }
    }
    all.add_errors_but(&[-32020, -32021, -32022]);
    all.0
}

/// Everything a modern client can be sent, but for legacy tasks, which are what they are.
fn modern_messages(id: RequestId<'_>) -> Vec<String> {
    let (records, given) = (every_record(), Json::trusted(r#"{"content":[]}"#));
    let accepted = SubscriptionFilter {
        task_ids: vec!["t".into()],
        ..SubscriptionFilter::default()
    };
    let mut all = Messages::default();
    all.add(|out| modern::handshake::write_discover(out, &features(), FRESH, &server_info()));
    all.add(|out| modern::tools::write_list(out, &[tool()], None, FRESH, &server_info()));
    all.add(|out| modern::list::write(out, ListKind::Resources, &[], None, FRESH, &server_info()));
    all.add(|out| modern::result::write(out, id, &given, Some(FRESH), &server_info()));
    all.add(|out| modern::input_required::write(out, [("a", FORM), ("b", PAGE)], Some("s"), &server_info()));
    all.add(|out| modern::tasks::write_ack(out, &server_info()));
    all.add(|out| modern::subscription::write_acknowledged(out, id, &accepted));
    all.add(|out| modern::subscription::write_end(out, id, &server_info()));
    all.add(|out| {
        write_progress(
            out,
            id,
            Progress {
                current: 1.0,
                total: None,
            },
            None,
            None,
            None,
        )
    });
    all.add(|out| write_log(out, LogLevel::Info, None, "1", None, None));
    all.add(|out| write_list_changed(out, ListChange::Resources, Some(id)));
    all.add(|out| write_resource_updated(out, "a:b", Some(id), None));
    all.add(|out| write_cancelled(out, id, None));
    for record in &records {
        all.add(|out| modern::tasks::write_created(out, &record.task, &server_info(), NINE));
        all.add(|out| modern::tasks::write_get(out, record, None, &server_info(), NINE));
        all.add(|out| modern::tasks::write_notification_for(out, record, None, id, NINE));
    }
    all.add_errors_but(&[-32002]);
    all.0
}

/// The names of `foreign` and of drafts that stand on one of the messages.
fn found<'a>(messages: &'a [String], foreign: &'a [&str]) -> Vec<(&'a str, &'a str)> {
    let names = || RETIRED.iter().chain(foreign);
    let of = |text: &'a String| {
        names()
            .filter(|name| text.contains(**name))
            .map(move |name| (*name, text.as_str()))
    };
    messages.iter().flat_map(of).collect()
}

#[test]
fn no_message_has_a_name_of_a_draft_or_of_the_other_era() {
    let id = request(r#"{"jsonrpc":"2.0","id":7,"method":"m"}"#).id;
    assert_eq!(found(&legacy_messages(id), MODERN), []);
    // Questions reach a modern client as they were asked, so they must not contain any either.
    assert!(
        [FORM, PAGE, URL]
            .into_iter()
            .all(|question| InputRequest::read(question).is_ok())
    );
    assert_eq!(found(&modern_messages(id), LEGACY), []);
}

/// The search finds what is there: each generation's messages do hold its own names.
#[test]
fn the_search_finds_the_names_of_each_era() {
    let id = request(r#"{"jsonrpc":"2.0","id":7,"method":"m"}"#).id;
    for (messages, own, rare) in [
        (legacy_messages(id), LEGACY, &["\"code\":-32042,"][..]),
        (modern_messages(id), MODERN, &[][..]),
    ] {
        for name in own.iter().filter(|name| !rare.contains(name)) {
            assert!(messages.iter().any(|text| text.contains(name)), "{name}");
        }
    }
}

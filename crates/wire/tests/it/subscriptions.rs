//! Subscriptions and the notifications of both generations, on a subscription and off.

use crate::{
    fixture::{detailed_server_info, request, short_info, written},
    schema,
};
use longhaul_core::{LogLevel, TaskId};
use longhaul_wire::{
    ListChange, Params, RequestId, modern,
    notification::{write_cancelled, write_list_changed, write_log, write_resource_updated},
    params::SubscriptionFilter,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::borrow::Cow;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Ids as clients write them, with what they mean.
fn listeners() -> impl Iterator<Item = (RequestId<'static>, Value)> {
    let asking = [
        (r#"{"jsonrpc":"2.0","id":30,"method":"m"}"#, json!(30)),
        (r#"{"jsonrpc":"2.0","id":"l\u002d1","method":"m"}"#, json!("l-1")),
    ];
    asking.into_iter().map(|(text, id)| (request(text).id, id))
}

fn listen() -> impl Strategy<Value = SubscriptionFilter<'static>> {
    let texts = || proptest::collection::vec("[ -~\u{e9}\n]{0,6}".prop_map(Cow::Owned), 0..3);
    (any::<[bool; 3]>(), texts(), texts()).prop_map(|(flags, resource_subscriptions, task_ids)| SubscriptionFilter {
        tools_list_changed: flags[0],
        prompts_list_changed: flags[1],
        resources_list_changed: flags[2],
        resource_subscriptions,
        task_ids,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What is acknowledged is what was accepted, read back as a client would have written it.
    #[test]
    fn an_acknowledgement_names_what_was_accepted(accepted in listen()) {
        for (id, meant) in listeners() {
            let got = written(|out| modern::subscription::write_acknowledged(out, id, &accepted));
            schema::check("26:msg:SubscriptionsAcknowledgedNotification", &got);
            prop_assert_eq!(&got["params"]["_meta"], &json!({SUBSCRIPTION: meant}));
            let params = got["params"].to_string();
            let raw = serde_json::from_str(&params).unwrap();
            prop_assert_eq!(&Params::read(Some(raw)).unwrap().listen().unwrap(), &accepted);
            // Nothing is denied by name either.
            let filter = got["params"]["notifications"].as_object().unwrap();
            prop_assert!(filter.values().all(|value| value == &json!(true) || value.is_array()));
        }
    }
}

#[test]
fn the_end_of_a_subscription_is_its_result() {
    for (id, meant) in listeners() {
        let got = written(|out| modern::subscription::write_end(out, id, &detailed_server_info()));
        schema::check("26:res:SubscriptionsListenResult", &got);
        assert_eq!(got["id"], meant);
        assert_eq!(got["result"]["resultType"], "complete");
        assert_eq!(got["result"]["_meta"][SUBSCRIPTION], meant);
        assert_eq!(
            got["result"]["_meta"]["io.modelcontextprotocol/serverInfo"],
            short_info(),
        );
        let before = written(|out| write_cancelled(out, id, Some("The server stops")));
        schema::check("26:msg:CancelledNotification", &before);
        assert_eq!(before["params"]["requestId"], meant);
    }
}

/// Tagged on a subscription, bare on a legacy stream.
#[test]
fn list_changes_match_both_schemas() {
    for (change, definition) in [
        (ListChange::Tools, "ToolListChangedNotification"),
        (ListChange::Prompts, "PromptListChangedNotification"),
        (ListChange::Resources, "ResourceListChangedNotification"),
    ] {
        let got = written(|out| write_list_changed(out, change, None));
        schema::check(&format!("25:msg:{definition}"), &got);
        assert_eq!(got["params"], json!({}));
        for (id, meant) in listeners() {
            let got = written(|out| write_list_changed(out, change, Some(id)));
            schema::check(&format!("26:msg:{definition}"), &got);
            assert_eq!(got["params"], json!({"_meta": {SUBSCRIPTION: meant}}));
        }
    }
    let uri = "acme://\"a\"";
    let got = written(|out| write_resource_updated(out, uri, None, None));
    schema::check("25:msg:ResourceUpdatedNotification", &got);
    assert_eq!(got["params"], json!({"uri": uri}));
    for (id, meant) in listeners() {
        let got = written(|out| write_resource_updated(out, uri, Some(id), None));
        schema::check("26:msg:ResourceUpdatedNotification", &got);
        assert_eq!(got["params"], json!({"uri": uri, "_meta": {SUBSCRIPTION: meant}}));
    }
}

/// A legacy message of a task says which.
#[test]
fn log_messages_name_level_logger_and_task() {
    let task: TaskId = "tsk_1".parse().unwrap();
    for level in LogLevel::ALL {
        for data in ["null", r#""a\nb""#, r#"{"k":[1e2]}"#] {
            let got = written(|out| write_log(out, level, Some("db\""), data, None, None));
            for schema in ["25", "26"] {
                schema::check(&format!("{schema}:msg:LoggingMessageNotification"), &got);
            }
            let data: Value = serde_json::from_str(data).unwrap();
            assert_eq!(
                got["params"],
                json!({"level": level.as_str(), "logger": "db\"", "data": data})
            );
        }
    }
    let got = written(|out| write_log(out, LogLevel::Info, None, "1", Some(&task), None));
    schema::check("25:msg:LoggingMessageNotification", &got);
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "tsk_1"}});
    assert_eq!(got["params"], json!({"level": "info", "data": 1, "_meta": related}));
}

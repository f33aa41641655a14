//! What requests ask for, as their methods understand it.

use crate::{fixture::request, schema};
use longhaul_core::LogLevel;
use longhaul_wire::{
    Params,
    params::{Reference, SubscriptionFilter},
};
use serde_json::{Value, json};
use std::borrow::Cow;

/// A request that the schema of `tag` knows, as text.
fn asked(tag: &str, method: &str, params: Value) -> String {
    let mut body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    if tag.starts_with("26") {
        body["params"]["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/logLevel": "notice",
        });
    }
    schema::check(tag, &body);
    body.to_string()
}

fn params(text: &str) -> Params<'_> {
    *request(text).params().unwrap()
}

#[test]
fn prompts_and_resources_are_retried_with_answers() {
    let retry = json!({"inputResponses": {"who": {"action": "accept", "content": {"a": "b"}}}, "requestState": "s"});
    let with = |mut params: Value| {
        params
            .as_object_mut()
            .unwrap()
            .extend(retry.as_object().unwrap().clone());
        params
    };
    let text = asked(
        "26:msg:GetPromptRequest",
        "prompts/get",
        with(json!({"name": "p", "arguments": {"a": "1"}})),
    );
    let prompt = params(&text).get_prompt().unwrap();
    assert_eq!((&*prompt.name, prompt.arguments.unwrap().get()), ("p", r#"{"a":"1"}"#));
    let text_read = asked(
        "26:msg:ReadResourceRequest",
        "resources/read",
        with(json!({"uri": "acme://a"})),
    );
    let read = params(&text_read).read_resource().unwrap();
    assert_eq!(read.uri, "acme://a");
    for (answers, state) in [
        (prompt.input_responses, prompt.request_state),
        (read.input_responses, read.request_state),
    ] {
        assert_eq!(state.as_deref(), Some("s"));
        let [(key, answer)] = &answers[..] else {
            panic!("{answers:?}")
        };
        assert_eq!(
            (&**key, answer.get()),
            ("who", r#"{"action":"accept","content":{"a":"b"}}"#)
        );
    }

    let first = asked("25:msg:GetPromptRequest", "prompts/get", json!({"name": "p"}));
    let first = params(&first).get_prompt().unwrap();
    assert!(first.arguments.is_none() && first.input_responses.is_empty() && first.request_state.is_none());
    let watched = asked(
        "25:msg:SubscribeRequest",
        "resources/subscribe",
        json!({"uri": "acme://a"}),
    );
    assert_eq!(params(&watched).uri().unwrap(), "acme://a");
}

#[test]
fn arguments_are_completed_in_their_context() {
    let of = |reference: Value, context: Option<Value>| {
        let mut params = json!({"ref": reference, "argument": {"name": "language", "value": "py\u{e9}"}});
        if let Some(context) = context {
            params["context"] = context;
        }
        asked("25:msg:CompleteRequest", "completion/complete", params)
    };
    let text = of(
        json!({"type": "ref/prompt", "name": "review", "title": "R"}),
        Some(json!({"arguments": {"framework": "flask"}})),
    );
    let complete = params(&text).complete().unwrap();
    assert_eq!(complete.reference, Reference::Prompt(Cow::Borrowed("review")));
    assert_eq!((&*complete.argument, &*complete.value), ("language", "py\u{e9}"));
    assert_eq!(complete.context.unwrap().get(), r#"{"framework":"flask"}"#);
    let text = of(json!({"type": "ref/resource", "uri": "acme://{x}"}), Some(json!({})));
    let complete = params(&text).complete().unwrap();
    assert_eq!(complete.reference, Reference::Resource(Cow::Borrowed("acme://{x}")));
    assert!(complete.context.is_none());
}

#[test]
fn every_level_can_be_set_and_they_are_ordered() {
    for level in LogLevel::ALL {
        let text = asked(
            "25:msg:SetLevelRequest",
            "logging/setLevel",
            json!({"level": level.as_str()}),
        );
        assert_eq!(params(&text).set_level().unwrap(), level);
    }
    assert!(LogLevel::ALL.is_sorted());
    let text = asked("26:msg:ListToolsRequest", "tools/list", json!({}));
    assert_eq!(
        params(&text).meta().unwrap().log_level().unwrap(),
        Some(LogLevel::Notice)
    );
}

/// What nobody knows is ignored, what is false or null is not wanted.
#[test]
fn a_subscription_has_a_filter() {
    let listen = |filter: Value| {
        let text = asked(
            "26:msg:SubscriptionsListenRequest",
            "subscriptions/listen",
            json!({"notifications": filter}),
        );
        let listen = params(&text).listen().unwrap();
        SubscriptionFilter {
            resource_subscriptions: owned(&listen.resource_subscriptions),
            task_ids: owned(&listen.task_ids),
            ..listen
        }
    };
    assert_eq!(listen(json!({})), SubscriptionFilter::default());
    assert_eq!(
        listen(json!({"toolsListChanged": false, "moonPhases": [1], "taskIds": null})),
        SubscriptionFilter::default()
    );
    let all = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["acme://a", "acme://\"b\""], "taskIds": ["t1"]});
    let expected = SubscriptionFilter {
        tools_list_changed: true,
        prompts_list_changed: true,
        resources_list_changed: true,
        resource_subscriptions: vec!["acme://a".into(), "acme://\"b\"".into()],
        task_ids: vec!["t1".into()],
    };
    assert_eq!(listen(all), expected);
}

fn owned(texts: &[Cow<'_, str>]) -> Vec<Cow<'static, str>> {
    texts.iter().map(|text| Cow::Owned(text.to_string())).collect()
}

//! The first and the last message of a subscription: the acknowledgement and the result.

use super::COMPLETE;
use crate::{
    json,
    jsonrpc::{write_notification, write_result},
    meta::{SERVER_INFO, SUBSCRIPTION_ID},
    params::SubscriptionFilter,
    protocol::RequestId,
    result::ServerInfo,
};
use std::borrow::Cow;

/// Appends `notifications/subscriptions/acknowledged`, the first message of the subscription that the request `listen` opened.
/// `accepted` names the notifications that will be delivered; what the server does not accept is left out.
pub fn write_acknowledged(out: &mut String, listen: RequestId<'_>, accepted: &SubscriptionFilter<'_>) {
    write_notification(out, "notifications/subscriptions/acknowledged", |out| {
        out.push_str(r#"{"notifications":"#);
        push_filter(out, accepted);
        out.push(',');
        push_subscription(out, listen);
        out.push('}');
    });
}

/// Appends the response to `listen`, which ends the subscription.
pub fn write_end(out: &mut String, listen: RequestId<'_>, server_info: &ServerInfo) {
    write_result(out, listen, |out| {
        out.push_str(COMPLETE);
        out.push_str(r#","_meta":{"#);
        push_id(out, listen);
        out.push(',');
        json::push_string(out, SERVER_INFO);
        out.push(':');
        out.push_str(server_info.name());
        out.push_str("}}");
    });
}

/// Appends `"_meta":{…subscriptionId…}`.
pub(crate) fn push_subscription(out: &mut String, listen: RequestId<'_>) {
    out.push_str(r#""_meta":{"#);
    push_id(out, listen);
    out.push('}');
}

fn push_id(out: &mut String, listen: RequestId<'_>) {
    json::push_string(out, SUBSCRIPTION_ID);
    out.push(':');
    out.push_str(listen.as_json());
}

fn push_filter(out: &mut String, accepted: &SubscriptionFilter<'_>) {
    let mut next = "{";
    for (name, wanted) in [
        ("toolsListChanged", accepted.tools_list_changed),
        ("promptsListChanged", accepted.prompts_list_changed),
        ("resourcesListChanged", accepted.resources_list_changed),
    ] {
        if wanted {
            out.push_str(std::mem::replace(&mut next, ","));
            json::push_string(out, name);
            out.push_str(":true");
        }
    }
    for (name, texts) in [
        ("resourceSubscriptions", &accepted.resource_subscriptions),
        ("taskIds", &accepted.task_ids),
    ] {
        if !texts.is_empty() {
            out.push_str(std::mem::replace(&mut next, ","));
            json::push_string(out, name);
            out.push(':');
            push_texts(out, texts);
        }
    }
    out.push_str(if next == "{" { "{}" } else { "}" });
}

fn push_texts(out: &mut String, texts: &[Cow<'_, str>]) {
    for (nth, text) in texts.iter().enumerate() {
        out.push(if nth == 0 { '[' } else { ',' });
        json::push_string(out, text);
    }
    out.push(']');
}

//! Which server capabilities are declared.

use super::task_resources;
use crate::admission::caller::Caller;
use longhaul_core::Json;
use longhaul_runtime::Engine;
use longhaul_wire::{ListCapability, Method, RelayedCapabilities, ResourcesCapability, ServerCapabilities};
use serde_json::Value;
use std::sync::Arc;

/// What is offered now. What was never offered is not declared, because each declared kind costs a client a request. A legacy session is notified
/// of changes on its push stream, a modern client by `subscriptions/listen`, if its transport may stream.
pub(crate) fn of(engine: &Engine, caller: &Caller) -> ServerCapabilities {
    let notifies = caller.mode.notifies(caller.generation);
    let snapshot = engine.catalog().snapshot();
    let author_answers = |methods: &[Method]| {
        methods
            .iter()
            .any(|method| snapshot.methods.contains_key(method.as_str()))
    };
    let completes = author_answers(&[Method::CompletionComplete])
        || snapshot.prompts.values().any(|prompt| prompt.completer.is_some())
        || snapshot.templates.values().any(|template| template.completer.is_some());
    let prompts = snapshot.versions.prompts > 0 || author_answers(&[Method::PromptsList, Method::PromptsGet]);
    let author_reads = || {
        author_answers(&[
            Method::ResourcesList,
            Method::ResourceTemplatesList,
            Method::ResourcesRead,
        ])
    };
    let resources = author_reads() || task_resources::are_kept(engine, &snapshot) || snapshot.versions.resources > 0;
    // An author who answers calls may have no tool that can be a task, and does not remember keys.
    let author_calls = snapshot.author.calls.is_some();
    ServerCapabilities {
        tools: Some(ListCapability { list_changed: notifies }),
        resources: resources.then_some(ResourcesCapability {
            list_changed: notifies,
            subscribe: notifies,
        }),
        prompts: prompts.then_some(ListCapability { list_changed: notifies }),
        completions: completes,
        logging: notifies,
        tasks: !author_calls || !snapshot.tools.is_empty(),
        task_list: caller.mode.sessions,
        idempotency: !author_calls,
        idempotency_retention: snapshot.tools.values().map(|tool| tool.settings().retention).min(),
        extensions: Arc::clone(&snapshot.author.extensions),
        relayed: relayed(snapshot.relayed_capabilities.as_ref()),
    }
}

/// What is declared for a server behind this one.
fn relayed(declared: Option<&Json>) -> RelayedCapabilities {
    let declared: Value = declared
        .and_then(|declared| serde_json::from_str(declared.as_str()).ok())
        .unwrap_or_default();
    let of = |member: &str| {
        let names = declared[member].as_object().into_iter().flatten();
        names
            .map(|(name, settings)| (name.as_str().into(), Json::from(settings)))
            .collect()
    };
    RelayedCapabilities {
        extensions: of("extensions"),
        experimental: of("experimental"),
    }
}

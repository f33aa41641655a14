//! Which server capabilities are declared.

use super::task_resources;
use crate::admission::caller::Caller;
use longhaul_core::{Json, JsonMembers};
use longhaul_runtime::{Engine, Snapshot};
use longhaul_wire::{ListCapability, Method, RelayedCapabilities, ResourcesCapability, ServerCapabilities};
use std::{collections::BTreeMap, sync::Arc};

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
        logging: notifies && may_log(&snapshot),
        tasks: !author_calls || !snapshot.tools.is_empty(),
        task_list: caller.mode.sessions,
        idempotency: !author_calls,
        idempotency_retention: snapshot.tools.values().map(|tool| tool.settings().retention).min(),
        extensions: Arc::clone(&snapshot.author.extensions),
        relayed: relayed(snapshot.relayed_capabilities.as_ref()),
    }
}

/// Whether anything may send log messages. A server without tools may have some later.
fn may_log(snapshot: &Snapshot) -> bool {
    let is_of_tools = snapshot.tools.is_empty() || snapshot.author.calls.is_some();
    let mut tools = snapshot.tools.values();
    let has_handlers = !(snapshot.prompts.is_empty() && snapshot.resources.is_empty());
    is_of_tools || has_handlers || tools.any(|tool| tool.settings().executor.may_log())
}

/// What is declared for a server behind this one.
fn relayed(declared: Option<&Json>) -> RelayedCapabilities {
    let mut declared: BTreeMap<String, JsonMembers> = declared
        .and_then(|declared| serde_json::from_str(declared.as_str()).ok())
        .unwrap_or_default();
    let mut of = |member: &str| {
        let names = declared.remove(member).unwrap_or_default().into_iter();
        names.map(|(name, settings)| (name.into(), settings)).collect()
    };
    RelayedCapabilities {
        extensions: of("extensions"),
        experimental: of("experimental"),
    }
}

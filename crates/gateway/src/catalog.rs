//! The tools of upstreams, as they are offered.

use crate::{
    definition::{Definition, KIND},
    executor::UpstreamExecutor,
    listed::{Lists, text_member},
    options::first,
    upstream::Upstream,
};
use longhaul_core::{Json, Millis, TaskPolicy};
use longhaul_runtime::{Engine, Tool, ToolSettings};
use longhaul_wire::relayed;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// After how long a call becomes a task, if its upstream makes none of it: in milliseconds.
const TASK_AFTER: Millis = 5_000;

/// The tools of one upstream that are offered now, by the names under which they are, with what the upstream lists. `None` for one that was offered by an
/// upstream of an earlier configuration.
pub(crate) type OfferedTools = BTreeMap<String, Option<Json>>;

/// Offers the tools in `lists`, and no longer those of before that are not in it. It may be dropped at any await: what is noted as offered is offered.
pub(crate) async fn offer_tools(engine: &Engine, upstream: &Arc<Upstream>, lists: Option<&Lists>) {
    let mut offered = upstream.offered.lock().await;
    let mut kept = BTreeSet::new();
    let tools = lists.map(|lists| lists.tools.as_slice()).unwrap_or_default();
    for listed in tools {
        let Some(name) = text_member(listed, "name") else {
            tracing::warn!(upstream = upstream.name(), "ignored a tool without a name");
            continue;
        };
        if !upstream.options().tools.offers(&name) {
            continue;
        }
        let shown = upstream.offered_name(&name);
        if kept.contains(&shown) {
            tracing::warn!(
                upstream = upstream.name(),
                tool = shown,
                "ignored a second tool of this name"
            );
            continue;
        }
        if offered.get(&shown).is_none_or(|before| before.as_ref() != Some(listed)) {
            let is_others = !offered.contains_key(&shown) && engine.catalog().tool(&shown).is_some();
            if is_others {
                tracing::warn!(
                    upstream = upstream.name(),
                    tool = shown,
                    "ignored a tool: one of this name is offered already; rename it, or use prefixes"
                );
                continue;
            }
            if let Err(why) = put(engine, upstream, &name, &shown, listed).await {
                tracing::warn!(
                    upstream = upstream.name(),
                    tool = shown,
                    why,
                    "ignored a tool that cannot be offered"
                );
                continue;
            }
            offered.insert(shown.clone(), Some(listed.clone()));
        }
        kept.insert(shown);
    }
    offered.retain(|name, _| {
        let stays = kept.contains(name);
        if !stays {
            engine.remove_tool(name);
        }
        stays
    });
}

/// The settings under which a tool is offered.
pub(crate) fn settings_of(upstream: &Arc<Upstream>, name: &str, listed: &Json) -> Result<ToolSettings, String> {
    settings(upstream, name, &upstream.offered_name(name), listed)
}

async fn put(engine: &Engine, upstream: &Arc<Upstream>, name: &str, shown: &str, listed: &Json) -> Result<(), String> {
    let settings = settings(upstream, name, shown, listed)?;
    let tool = Tool::new(settings).map_err(|error| error.to_string())?;
    engine.put_tool(tool).await.map_err(|error| error.to_string())
}

/// The settings of a tool: what its upstream says of it, unless the configuration says something else.
fn settings(upstream: &Arc<Upstream>, name: &str, shown: &str, listed: &Json) -> Result<ToolSettings, String> {
    let members: Value = serde_json::from_str(listed.as_str()).map_err(|error| error.to_string())?;
    let rules = &upstream.options().rules;
    let hint = |hint: &str| members["annotations"][hint] == true;
    let idempotent =
        first(rules, name, |rule| rule.idempotent).unwrap_or(hint("idempotentHint") || hint("readOnlyHint"));
    let makes_tasks = matches!(
        members["execution"]["taskSupport"].as_str(),
        Some("optional" | "required")
    );
    let policy = first(rules, name, |rule| rule.task).unwrap_or(match makes_tasks {
        true => TaskPolicy::Optional,
        false => TaskPolicy::After(TASK_AFTER),
    });
    let definition = Definition {
        version: 1,
        upstream: upstream.name().to_owned(),
        tool: name.to_owned(),
        idempotent,
    };
    let executor = Arc::new(UpstreamExecutor {
        upstream: Arc::clone(upstream),
        tool: name.to_owned(),
        idempotent,
    });
    let mut settings = ToolSettings::new(shown, KIND, definition.to_json(), executor as Arc<_>);
    settings.title = members["title"].as_str().map(str::to_owned);
    settings.description = members["description"].as_str().unwrap_or_default().to_owned();
    settings.input_schema = members["inputSchema"].clone();
    settings.output_schema = Some(members["outputSchema"].clone()).filter(|schema| !schema.is_null());
    settings.listed = Some(relayed::entry(listed, "name", &Value::from(shown).to_string()));
    settings.policy = policy;
    settings.handoff = first(rules, name, |rule| rule.handoff);
    settings.deadline = first(rules, name, |rule| rule.deadline);
    settings.concurrency = first(rules, name, |rule| rule.concurrency);
    if let Some(retention) = first(rules, name, |rule| rule.retention) {
        settings.retention = retention;
    }
    if let Some(retry) = first(rules, name, |rule| rule.retry.clone()) {
        settings.retry = retry;
    }
    Ok(settings)
}

//! The tools of upstreams, as they are offered.

use super::{
    claims::{Claim, EarlierNames},
    offering::{Offering, offering, too_long},
    provider::executor_of,
};
use crate::{
    JobTools,
    config::options::first,
    lists::{UpstreamLists, text_member},
    upstream::{Definition, KIND, Upstream, Upstreams},
};
use longhaul_core::{Json, Millis, Retry, RetryOn, TaskPolicy};
use longhaul_runtime::{Engine, FOLLOW_TOOLS, Handoff, Tool, ToolSettings};
use longhaul_wire::relayed;
use serde_json::{Map, Value, json, value::RawValue};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// How often an idempotent call is made of which it is not known what became, without a configured policy. It may be what ends the upstream.
const MOST_CALLS: u32 = 5;
/// The wait before the second of them, in milliseconds.
const BACKOFF: Millis = 1_000;
/// After how long a call becomes a task, if its upstream makes none of it: in milliseconds.
const TASK_AFTER: Millis = 5_000;
/// Why a tool is not offered whose name this server or another upstream uses already.
const OTHERS_TOOL: &str = "one of this name is offered already: rename it, or use prefixes";

impl Upstream {
    /// The tools that it offers to anyone: those in `lists`, and those that connections of clients have besides.
    fn tools_of_all(&self, lists: &UpstreamLists) -> Vec<Json> {
        let of_clients = self.connections.client_lists();
        let mut tools = lists.tools.clone();
        // What one principal is told of a tool is not for others.
        let mut principals = of_clients.iter().map(|(principal, _)| principal);
        let first = principals.next();
        let is_one = principals.all(|principal| Some(principal) == first);
        for (_, lists) in of_clients {
            for tool in &lists.tools {
                let Some(name) = text_member(tool, "name") else {
                    continue;
                };
                let mut known = tools.iter_mut();
                match known.find(|known| text_member(known, "name").as_ref() == Some(&name)) {
                    Some(known) if is_one => known.clone_from(tool),
                    Some(_) => {}
                    None => tools.push(tool.clone()),
                }
            }
        }
        tools
    }
}

/// Offers the tools in `lists`, and no longer those of before that are not in it. It may be dropped at any await: what is noted as offered is offered.
pub(crate) async fn offer_tools(
    engine: &Engine,
    upstreams: &Upstreams,
    upstream: &Arc<Upstream>,
    lists: Option<&UpstreamLists>,
) {
    let mut offered = upstream.offered.lock().await;
    let earlier = EarlierNames::of_tools(upstreams, upstream);
    let (mut kept, mut left_out) = (BTreeSet::new(), BTreeMap::new());
    let tools = lists.map(|lists| upstream.tools_of_all(lists)).unwrap_or_default();
    for listed in &tools {
        let Some(name) = text_member(listed, "name") else {
            continue;
        };
        let Offering::Tool { shown, job } = offering(upstream, &name) else {
            continue;
        };
        if kept.contains(&shown) {
            tracing::warn!(
                upstream = upstream.name(),
                tool = shown,
                "ignored a second tool of this name"
            );
            continue;
        }
        if let Some(claim) = earlier.claim(&shown) {
            match claim {
                Claim::Taken(_) => drop(left_out.insert(shown, claim.to_string())),
                Claim::Unknown(_) => {
                    tracing::warn!(upstream = upstream.name(), tool = shown, %claim, "ignored a tool");
                }
            }
            continue;
        }
        if offered.get(&shown).is_none_or(|before| before.as_ref() != Some(listed)) {
            let is_others = !offered.contains_key(&shown) && engine.catalog().tool(&shown).is_some();
            if is_others {
                left_out.insert(shown, OTHERS_TOOL.to_owned());
                continue;
            }
            if let Err(why) = put(engine, upstream, &name, &shown, job, listed).await {
                tracing::warn!(
                    upstream = upstream.name(),
                    tool = shown,
                    why,
                    "ignored a tool that cannot be offered"
                );
                continue;
            }
            if let Some(why) = too_long(upstream, &name, &shown) {
                tracing::warn!(
                    upstream = upstream.name(),
                    tool = shown,
                    why,
                    "the name of a tool is long"
                );
            }
            if let Some(wrong) = lists.and_then(|lists| lists.mended.get(&name)) {
                tracing::warn!(
                    upstream = upstream.name(),
                    tool = shown,
                    wrong,
                    "a tool has members that clients refuse; they are left out, or replaced"
                );
            }
            if FOLLOW_TOOLS.contains(&shown.as_str()) {
                tracing::warn!(
                    upstream = upstream.name(),
                    tool = shown,
                    "a tool has the name of one with which calls are followed: no call is handed off by default, and where `handoff` is set the server's own tool takes its place"
                );
            }
            offered.insert(shown.clone(), Some(listed.clone()));
        }
        kept.insert(shown);
    }
    let told = std::mem::replace(&mut *upstream.left_out.write(), left_out.clone());
    for (tool, why) in left_out.iter().filter(|(tool, why)| told.get(*tool) != Some(why)) {
        tracing::error!(
            upstream = upstream.name(),
            tool,
            why,
            "a tool of an upstream is not offered"
        );
    }
    offered.retain(|name, _| {
        let stays = kept.contains(name);
        if !stays {
            engine.remove_tool(name);
        }
        stays
    });
    engine.catalog().order_tools(&names_in_order(upstreams));
}

/// Has `tools/list` show what the lists of upstreams have besides their tools. Of several the first one counts.
pub(crate) fn offer_members(upstreams: &Upstreams, engine: &Engine) {
    let mut all: Option<Json> = None;
    for upstream in upstreams.all() {
        let lists = upstream.lists();
        let Some(members) = lists.as_ref().and_then(|lists| lists.members.get("tools")) else {
            continue;
        };
        all = Some(match all {
            Some(earlier) => Json::trusted(relayed::with_members(earlier.as_str(), members)),
            None => members.clone(),
        });
    }
    engine.catalog().set_tool_list_members(all);
}

/// The names of all tools that may be offered, in the order of the configuration and of each upstream: the list does not depend on who was connected first.
fn names_in_order(upstreams: &Upstreams) -> Vec<String> {
    let mut names = Vec::new();
    for upstream in upstreams.all() {
        let Some(lists) = upstream.lists().or_else(|| upstream.last_lists()) else {
            continue;
        };
        let tools = upstream.tools_of_all(&lists);
        let listed = tools.iter().filter_map(|tool| text_member(tool, "name"));
        names.extend(listed.filter_map(|name| match offering(&upstream, &name) {
            Offering::Tool { shown, .. } => Some(shown),
            Offering::LeftOut | Offering::Bound => None,
        }));
    }
    names
}

/// Offers what an upstream has, and what later upstreams have under names that were or are its own.
pub(crate) async fn offer_with_later(
    engine: &Engine,
    upstreams: &Upstreams,
    upstream: &Arc<Upstream>,
    lists: &UpstreamLists,
) {
    let all = upstreams.all().into_iter();
    let later: Vec<_> = all.skip_while(|other| !Arc::ptr_eq(other, upstream)).skip(1).collect();
    let offer_later = async || {
        for other in &later {
            // One that is down keeps its tools for a while, and one that was never seen has none.
            if let Some(lists) = other.lists() {
                offer_tools(engine, upstreams, other, Some(&lists)).await;
            }
        }
    };
    // They give up what belongs to this one first, and are offered last what it has no longer.
    offer_later().await;
    offer_tools(engine, upstreams, upstream, Some(lists)).await;
    offer_later().await;
}

async fn put(
    engine: &Engine,
    upstream: &Arc<Upstream>,
    name: &str,
    shown: &str,
    job: Option<&JobTools>,
    listed: &Json,
) -> Result<(), String> {
    let settings = upstream_tool(upstream, name, shown, job, listed)?.settings;
    let tool = Tool::new(settings).map_err(|error| error.to_string())?;
    engine.put_tool(tool).await.map_err(|error| error.to_string())
}

/// The tool that a toolset is offered as: the one that submits, whose result is another one now.
fn as_job(job: &JobTools, listed: &Json) -> Json {
    let mut members: Map<String, Value> = serde_json::from_str(listed.as_str()).unwrap_or_default();
    for of_submit in ["outputSchema", "execution", "title"] {
        members.remove(of_submit);
    }
    if let Some(description) = &job.description {
        members.insert("description".to_owned(), description.as_str().into());
    }
    Json::from(&Value::Object(members))
}

/// A tool of an upstream.
pub(crate) struct UpstreamTool {
    pub(crate) settings: ToolSettings,
    /// Whether the upstream makes tasks of it itself.
    pub(crate) makes_tasks: bool,
    /// Whether a call may be made again when it is not known what became of it.
    pub(crate) idempotent: bool,
}

/// The members of a tool, without those that cannot be read, such as a schema with a number that is too large. They are listed as they are, and the upstream
/// checks what they say.
fn readable_members(listed: &Json) -> Result<Value, String> {
    let members: BTreeMap<String, &RawValue> =
        serde_json::from_str(listed.as_str()).map_err(|error| error.to_string())?;
    let mut readable: Map<String, Value> = members
        .into_iter()
        .filter_map(|(name, value)| Some((name, serde_json::from_str(value.get()).ok()?)))
        .collect();
    readable
        .entry("inputSchema")
        .or_insert_with(|| json!({"type": "object"}));
    Ok(Value::Object(readable))
}

/// A tool as its upstream describes it, unless the configuration says something else.
pub(crate) fn upstream_tool(
    upstream: &Arc<Upstream>,
    name: &str,
    shown: &str,
    job: Option<&JobTools>,
    listed: &Json,
) -> Result<UpstreamTool, String> {
    let listed = &job.map_or_else(|| listed.clone(), |job| as_job(job, listed));
    let members = readable_members(listed)?;
    let rules = &upstream.options().rules;
    let hint = |hint: &str| members["annotations"][hint] == true;
    let idempotent =
        first(rules, name, |rule| rule.idempotent).unwrap_or(hint("idempotentHint") || hint("readOnlyHint"));
    let makes_tasks = matches!(
        members["execution"]["taskSupport"].as_str(),
        Some("optional" | "required")
    );
    let policy = first(rules, name, |rule| rule.task).unwrap_or(match makes_tasks || job.is_some() {
        true => TaskPolicy::Optional,
        false => TaskPolicy::After(TASK_AFTER),
    });
    let definition = Definition {
        version: 1,
        upstream: upstream.name().to_owned(),
        tool: name.to_owned(),
        idempotent,
        job: job.cloned(),
    };
    let frozen = definition.to_json();
    let mut settings = ToolSettings::new(shown, KIND, frozen, executor_of(definition, Arc::clone(upstream)));
    settings.title = members["title"].as_str().map(str::to_owned);
    settings.description = members["description"].as_str().unwrap_or_default().to_owned();
    settings.input_schema = members["inputSchema"].clone();
    settings.output_schema = Some(members["outputSchema"].clone()).filter(|schema| !schema.is_null());
    settings.listed = Some(relayed::entry(listed, "name", &Value::from(shown).to_string()));
    settings.policy = policy;
    settings.handoff = first(rules, name, |rule| rule.handoff).unwrap_or(Handoff::Default);
    settings.deadline = first(rules, name, |rule| rule.deadline);
    settings.concurrency = first(rules, name, |rule| rule.concurrency);
    if let Some(retention) = first(rules, name, |rule| rule.retention) {
        settings.retention = retention;
    }
    settings.retry = retry_policy(first(rules, name, |rule| rule.retry.clone()), idempotent);
    Ok(UpstreamTool {
        settings,
        makes_tasks,
        idempotent,
    })
}

/// When the calls of a tool are made again. One that is not idempotent is not, once it may have run: whatever is configured, and on whichever node.
fn retry_policy(configured: Option<Retry>, idempotent: bool) -> Retry {
    let mut policy = configured.unwrap_or_else(|| Retry {
        attempts: MOST_CALLS,
        backoff: BACKOFF,
        on: vec![RetryOn::Crash],
    });
    policy.on.retain(|why| idempotent || *why != RetryOn::Crash);
    policy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_may_have_run_are_retried_only_if_their_tool_is_idempotent() {
        let configured = Retry {
            attempts: 3,
            backoff: 10,
            on: vec![RetryOn::Crash, RetryOn::Error],
        };
        assert_eq!(retry_policy(Some(configured.clone()), true), configured);
        assert_eq!(retry_policy(Some(configured), false).on, [RetryOn::Error]);
        assert_eq!(retry_policy(None, true).wait_after(1, RetryOn::Crash), Some(BACKOFF));
        assert_eq!(retry_policy(None, false).on, []);
    }
}

//! What the upstreams of a configuration offer.

use crate::{
    config::{Config, UpstreamConfig},
    machine::upstream_logins::{UpstreamError, UpstreamLogins},
};
use longhaul_core::{TaskPolicy, format_duration, plain_line};
use longhaul_gateway::{ReportedTool, UpstreamCheck};
use longhaul_runtime::Ports;
use serde_json::{Value, json};
use std::time::Duration;

/// How long an upstream may take. A package runner may have to download it first.
const LIMIT: Duration = Duration::from_secs(30);

/// Connects to all upstreams of the configuration.
pub(super) async fn dial(
    upstreams: Vec<UpstreamConfig>,
    config: &Config,
    ports: &Ports,
) -> Result<Vec<UpstreamCheck>, UpstreamError> {
    if upstreams.is_empty() {
        return Ok(Vec::new());
    }
    let upstreams = UpstreamLogins::new(&config.server.data_dir).apply(upstreams)?;
    let version = env!("CARGO_PKG_VERSION");
    Ok(longhaul_gateway::check(upstreams, config.prefix, version, LIMIT, ports).await?)
}

/// For people. Upstreams name themselves and their tools as they like, and each is on one line all the same.
pub(super) fn describe(reports: &[UpstreamCheck]) -> String {
    let lines = reports.iter().flat_map(lines_of);
    lines.map(|line| plain_line(&line) + "\n").collect()
}

fn lines_of(report: &UpstreamCheck) -> Vec<String> {
    let server = match &report.server {
        Ok(server) => server,
        Err(reason) => return vec![format!("upstream {}: cannot be used now: {reason}", report.name)],
    };
    let named = match (server.info["name"].as_str(), server.info["version"].as_str()) {
        (Some(name), Some(version)) => format!(", {name} {version}"),
        (Some(name), None) => format!(", {name}"),
        _ => String::new(),
    };
    let counts = [
        (report.tools.len(), "tool"),
        (report.prompts, "prompt"),
        (report.resources, "resource"),
        (report.templates, "resource template"),
    ];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(count, what)| *count > 0 || *what == "tool")
        .map(|(count, what)| format!("{count} {what}{}", if *count == 1 { "" } else { "s" }))
        .collect();
    let mut lines = vec![format!(
        "upstream {}: up{named}, MCP {}: {}",
        report.name,
        server.version,
        counts.join(", ")
    )];
    let width = report
        .tools
        .iter()
        .map(|tool| tool.offered.len())
        .max()
        .unwrap_or_default();
    let tools = report.tools.iter();
    lines.extend(tools.map(|tool| format!("  {:width$}  {}", tool.offered, policy(tool))));
    if !report.left_out.is_empty() {
        lines.push(format!("  not offered: {}", report.left_out.join(", ")));
    }
    lines
}

fn policy(tool: &ReportedTool) -> String {
    let mut words = vec![match tool.policy {
        TaskPolicy::Never => "never a task".to_owned(),
        TaskPolicy::Optional => "a task at once".to_owned(),
        TaskPolicy::After(after) => format!("a task after {}", format_duration(after)),
        TaskPolicy::Always => "always a task".to_owned(),
    }];
    if tool.makes_tasks {
        words.push("has tasks itself".to_owned());
    }
    if tool.idempotent {
        words.push("idempotent".to_owned());
    }
    words.extend(
        tool.handoff
            .map(|handoff| format!("handoff {}", format_duration(handoff))),
    );
    words.extend(
        tool.deadline
            .map(|deadline| format!("deadline {}", format_duration(deadline))),
    );
    words.join(", ")
}

/// The tools that have another upstream's name, with the names of their upstreams.
pub(super) fn collisions(reports: &[UpstreamCheck]) -> impl Iterator<Item = String> {
    reports.iter().flat_map(|report| {
        let collisions = report.collisions.iter();
        collisions.map(|collision| format!("upstream `{}`: {collision}", report.name))
    })
}

/// All warnings, with the names of their upstreams.
pub(super) fn warnings(reports: &[UpstreamCheck]) -> impl Iterator<Item = String> {
    reports.iter().flat_map(|report| {
        let warnings = report.warnings.iter();
        warnings.map(|warning| format!("upstream `{}`: {warning}", report.name))
    })
}

/// For programs.
pub(super) fn to_json(reports: &[UpstreamCheck]) -> Vec<Value> {
    reports.iter().map(one_to_json).collect()
}

fn one_to_json(report: &UpstreamCheck) -> Value {
    let tools: Vec<Value> = report.tools.iter().map(tool_to_json).collect();
    match &report.server {
        Err(reason) => json!({"name": report.name, "state": "down", "reason": reason}),
        Ok(server) => json!({
            "name": report.name,
            "state": "up",
            "server": server.info,
            "revision": server.version,
            "tools": tools,
            "notOffered": report.left_out,
            "prompts": report.prompts,
            "resources": report.resources,
            "resourceTemplates": report.templates,
        }),
    }
}

fn tool_to_json(tool: &ReportedTool) -> Value {
    let (task, after) = match tool.policy {
        TaskPolicy::Never => ("never", None),
        TaskPolicy::Optional => ("optional", None),
        TaskPolicy::After(after) => ("after", Some(after)),
        TaskPolicy::Always => ("always", None),
    };
    json!({
        "name": tool.offered,
        "upstreamName": tool.name,
        "task": task,
        "taskAfterMs": after,
        "hasTasks": tool.makes_tasks,
        "idempotent": tool.idempotent,
        "handoffMs": tool.handoff,
        "deadlineMs": tool.deadline,
    })
}

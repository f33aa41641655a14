//! What the issuers of a configuration are like, and what their scopes are for.

use crate::{
    config::{Config, Problem},
    output::nearest,
};
use futures_util::future::join_all;
use longhaul::auth::oauth::Issuer;
use longhaul_core::ToolPattern;
use longhaul_gateway::UpstreamCheck;
use longhaul_runtime::Ports;

/// What the issuers do not answer now.
pub(super) async fn find_unreachable(issuers: &[Issuer], ports: &Ports) -> Vec<String> {
    let unreachable = join_all(issuers.iter().map(|issuer| issuer.find_unreachable(ports)));
    unreachable.await.concat()
}

/// Warns of patterns in tables of scopes that fit no tool. Nothing is known while an upstream was not asked, or did not answer.
pub(super) fn patterns_without_tool(config: &Config, upstreams: &[UpstreamCheck]) -> Vec<Problem> {
    let is_known = config.upstreams.is_empty() && upstreams.iter().all(|upstream| upstream.server.is_ok());
    if !is_known {
        return Vec::new();
    }
    let own = config.tools.iter().map(|tool| tool.name.as_str());
    let of_others = upstreams.iter().flat_map(|upstream| &upstream.tools);
    let names: Vec<&str> = own.chain(of_others.map(|tool| tool.offered.as_str())).collect();
    let patterns = config.server.auth.scope_patterns.iter();
    let unfit = patterns.filter_map(|given| {
        Some(Problem {
            line: Some(given.line),
            message: format!("`scopes`: {}", describe_unfit(&given.pattern, &names)?),
        })
    });
    unfit.collect()
}

/// Says that a pattern fits none of these tools, if so. A mistyped pattern is otherwise found out when a client gets 403.
pub(crate) fn describe_unfit(pattern: &ToolPattern, tools: &[&str]) -> Option<String> {
    if tools.iter().any(|tool| pattern.matches(tool)) {
        return None;
    }
    let hint = nearest::suggestion(pattern.as_str(), tools.iter().copied());
    Some(format!(
        "no tool fits `{pattern}`; {}",
        hint.as_deref().unwrap_or("there is none")
    ))
}

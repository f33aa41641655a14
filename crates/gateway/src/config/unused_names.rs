//! Names of tools in a configuration that its upstream does not have.

use crate::UpstreamOptions;
use longhaul_core::ToolPattern;
use std::collections::HashSet;

/// What the configuration says of tools that do not exist.
pub(crate) fn unused(options: &UpstreamOptions, names: &HashSet<String>) -> Vec<String> {
    let fits = |pattern: &ToolPattern| names.iter().any(|name| pattern.matches(name));
    let mut unused = Vec::new();
    for (key, patterns) in [("allow", &options.tools.allow), ("deny", &options.tools.deny)] {
        let is_known = |pattern: &ToolPattern| {
            let mut others = patterns
                .iter()
                .filter(|other| is_same_tool(other.as_str(), pattern.as_str()));
            fits(pattern) || others.any(fits)
        };
        let idle = patterns.iter().filter(|pattern| !is_known(pattern));
        unused.extend(idle.map(|pattern| format!("`tools.{key}`: it has no tool `{pattern}`")));
    }
    let renamed = options.tools.rename.keys().filter(|name| !names.contains(*name));
    unused.extend(renamed.map(|name| format!("`tools.rename`: it has no tool `{name}`")));
    for job in &options.jobs {
        let missing = job.bound().filter(|tool| !names.contains(*tool));
        unused.extend(missing.map(|tool| format!("its job `{}`: it has no tool `{tool}`", job.name)));
    }
    // The last rule is that of the upstream as a whole, which fits any.
    let rules = options
        .rules
        .iter()
        .filter(|rule| !fits(&rule.tools) && !rule.tools.is_any());
    unused.extend(rules.map(|rule| format!("its settings for the tool `{}`: it has none", rule.tools)));
    unused
}

/// Whether two patterns name one tool with its server in front and without: which of them is meant is known only from the tools.
fn is_same_tool(one: &str, other: &str) -> bool {
    let (long, short) = if one.len() > other.len() {
        (one, other)
    } else {
        (other, one)
    };
    let server = long.strip_suffix(short);
    server.is_some_and(|server| server.ends_with(['_', '-', '.', '/', ':']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tool_may_have_two_names() {
        assert!(is_same_tool("hub-write", "write") && is_same_tool("write", "hub__write"));
        assert!(!is_same_tool("rewrite", "write") && !is_same_tool("write", "write"));
    }
}

//! What upstreams tell of themselves: their names, and the model of how to use them.

use crate::upstream::Upstreams;
use longhaul_runtime::Engine;
use longhaul_wire::relayed;
use std::sync::Arc;

/// Tells clients what upstreams say of themselves.
pub(crate) fn offer(upstreams: &Upstreams, engine: &Engine) {
    let all = upstreams.all();
    let told: Vec<(String, String)> = all
        .iter()
        .filter_map(|upstream| Some((upstream.name().to_owned(), upstream.lists()?.instructions.clone()?)))
        .collect();
    let instructions = joined(&told, all.len()).map(Arc::from);
    if engine.catalog().snapshot().instructions != instructions {
        engine.catalog().set_instructions(instructions);
    }
    let presented = all.iter().find(|upstream| upstream.options().presented);
    let info = presented.and_then(|upstream| upstream.last_lists());
    // Both members are required.
    let info = info.filter(|lists| lists.info["name"].is_string() && lists.info["version"].is_string());
    let info = info.map(|lists| lists.info.as_json().clone());
    if engine.catalog().snapshot().server_info != info {
        engine.catalog().set_server_info(info);
    }
    let only = all.first().filter(|upstream| upstream.connections.is_only());
    let declared = only.and_then(|upstream| upstream.last_lists());
    let declared = declared.and_then(|lists| relayed::capabilities(lists.capabilities.as_json().as_str()));
    if engine.catalog().snapshot().relayed_capabilities != declared {
        engine.catalog().set_relayed_capabilities(declared);
    }
}

/// Those of the only upstream as they are; those of several under the names of their upstreams. `None` if there are none.
fn joined(told: &[(String, String)], upstreams: usize) -> Option<String> {
    match told {
        [] => None,
        [(_, text)] if upstreams == 1 => Some(text.clone()),
        told => {
            let sections = told.iter().map(|(name, text)| format!("## {name}\n\n{}", text.trim()));
            Some(sections.collect::<Vec<_>>().join("\n\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn instructions_of_several_upstreams_are_named() {
        let told = [("git", "Use log.\n"), ("search", "Ask.")].map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(joined(&[], 1), None);
        assert_eq!(joined(&told[..1], 1).as_deref(), Some("Use log.\n"));
        assert_eq!(joined(&told[..1], 2).as_deref(), Some("## git\n\nUse log."));
        let expected = Some("## git\n\nUse log.\n\n## search\n\nAsk.");
        assert_eq!(joined(&told, 2).as_deref(), expected);
    }
}

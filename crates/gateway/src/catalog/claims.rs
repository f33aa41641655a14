//! Whose a name is that tools or prompts of several upstreams have: that of the first upstream in the configuration, whichever of them are up.

use super::offering::{Offering, offering};
use crate::{
    Target,
    lists::{UpstreamLists, text_member},
    upstream::{Upstream, Upstreams},
};
use longhaul_core::{Json, ToolPattern, canonical_digest};
use serde_json::{Value, json};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// The names of the upstreams that come before one in the configuration.
pub(crate) struct EarlierNames(Vec<EarlierUpstream>);

struct EarlierUpstream {
    upstream: Arc<Upstream>,
    /// `None` if it was never seen.
    names: Option<HashSet<String>>,
}

/// Why a tool or prompt is not offered under its name.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Claim {
    #[error("upstream `{0}` has one of this name and comes first in the configuration: rename it, or use prefixes")]
    Taken(String),
    #[error(
        "upstream `{0}` comes first in the configuration and was never seen, so it is not known whether it has one of this name: this one is offered once it was, or with prefixes"
    )]
    Unknown(String),
}

/// A tool that is not offered, since an earlier upstream has one that is offered under its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "its tool `{tool}` is not offered: upstream `{owner}` has one of the name `{shown}`; rename it with `tools.rename`, or use prefixes"
)]
pub(crate) struct Collision {
    tool: String,
    shown: String,
    owner: String,
}

/// The names of tools, each with the upstream whose it is.
#[derive(Default)]
pub(crate) struct Owners(HashMap<String, String>);

impl Owners {
    /// Gives the name to this upstream, unless another one has it. Of two tools of one upstream the first is offered.
    pub(crate) fn claim(&mut self, upstream: &str, tool: &str, shown: &str) -> Option<Collision> {
        let Some(owner) = self.0.get(shown) else {
            self.0.insert(shown.to_owned(), upstream.to_owned());
            return None;
        };
        (owner != upstream).then(|| Collision {
            tool: tool.to_owned(),
            shown: shown.to_owned(),
            owner: owner.clone(),
        })
    }
}

/// The tools of upstreams, in the order of the configuration, that would not be offered.
pub(crate) fn collisions(all: &[(Arc<Upstream>, Arc<UpstreamLists>)]) -> Vec<String> {
    let (mut owners, mut found) = (Owners::default(), Vec::new());
    for (upstream, lists) in all {
        for name in lists.tools.iter().filter_map(|tool| text_member(tool, "name")) {
            let Offering::Tool { shown, .. } = offering(upstream, &name) else {
                continue;
            };
            let collision = owners.claim(upstream.name(), &name, &shown);
            found.extend(collision.map(|collision| format!("upstream `{}`: {collision}", upstream.name())));
        }
    }
    found
}

/// What decides which names upstreams give to their tools: their order, what each of them is, and which of its tools are offered under which names.
pub(crate) fn digest_of_names(all: &[Arc<Upstream>]) -> String {
    let patterns = |patterns: &[ToolPattern]| -> Vec<String> { patterns.iter().map(ToString::to_string).collect() };
    let names = all.iter().map(|upstream| {
        let options = upstream.options();
        let target = match &options.target {
            Target::Command(child) => {
                let words = [&child.program].into_iter().chain(&child.args);
                json!(words.collect::<Vec<_>>())
            }
            Target::Http { url, .. } => json!(url),
        };
        let jobs: Vec<_> = options
            .jobs
            .iter()
            .map(|job| json!([job.name, job.bound().collect::<Vec<_>>()]))
            .collect();
        let tools = &options.tools;
        json!([
            options.name,
            target,
            patterns(&tools.allow),
            patterns(&tools.deny),
            tools.rename,
            jobs
        ])
    });
    let digest = canonical_digest(&Json::from(&Value::from_iter(names)));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl EarlierNames {
    pub(crate) fn of_tools(upstreams: &Upstreams, upstream: &Upstream) -> Self {
        Self::of(upstreams, upstream, |earlier, lists| {
            let names = lists.tools.iter().filter_map(|tool| text_member(tool, "name"));
            let offered = names.filter_map(|name| match offering(earlier, &name) {
                Offering::Tool { shown, .. } => Some(shown),
                Offering::LeftOut | Offering::Bound => None,
            });
            offered.collect()
        })
    }

    pub(crate) fn of_prompts(upstreams: &Upstreams, upstream: &Upstream) -> Self {
        Self::of(upstreams, upstream, |earlier, lists| {
            let names = lists.index().prompts.iter();
            names.map(|name| earlier.offered_name(name)).collect()
        })
    }

    fn of(
        upstreams: &Upstreams,
        upstream: &Upstream,
        names: impl Fn(&Upstream, &UpstreamLists) -> HashSet<String>,
    ) -> Self {
        let all = upstreams.all().into_iter();
        let earlier = all.take_while(|other| !std::ptr::eq(&raw const **other, upstream));
        let with_names = earlier.map(|upstream| EarlierUpstream {
            names: upstream.last_lists().map(|lists| names(&upstream, &lists)),
            upstream,
        });
        Self(with_names.collect())
    }

    /// Who may have this name, if anyone does.
    pub(crate) fn claim(&self, shown: &str) -> Option<Claim> {
        self.0.iter().find_map(|EarlierUpstream { upstream, names }| {
            let name = || upstream.name().to_owned();
            match names {
                Some(names) if names.contains(shown) => Some(Claim::Taken(name())),
                Some(_) => None,
                None => upstream
                    .naming
                    .can_make(upstream.options().prefix(), shown)
                    .then(|| Claim::Unknown(name())),
            }
        })
    }
}

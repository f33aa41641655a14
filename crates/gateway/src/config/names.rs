//! The names under which an upstream's tools and prompts are offered.

use crate::UpstreamOptions;
use std::collections::BTreeSet;

/// The names of upstreams cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNames {
    /// Two have one name.
    #[error("two upstreams are named `{0}`")]
    Twice(String),
    /// Two have one prefix.
    #[error("the tools of two upstreams would begin with `{0}_`: give one of them another `prefix`")]
    SamePrefix(String),
    /// It would make names that MCP does not allow.
    #[error("`{0}` is no name for an upstream: use letters, digits, - and _, at most 64")]
    Invalid(String),
}

/// How the names of all upstreams are made. It depends on the configuration alone, never on which upstreams are up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// As the upstream has them.
    Bare,
    /// Behind the name of the upstream: `NAME_tool`.
    Prefixed,
}

impl Naming {
    /// Checks the names of these upstreams, and their prefixes.
    pub(crate) fn of(upstreams: &[UpstreamOptions], prefix: bool) -> Result<Self, InvalidNames> {
        let (mut names, mut prefixes) = (BTreeSet::new(), BTreeSet::new());
        for options in upstreams {
            for text in [&options.name, options.prefix()] {
                let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
                if !(1..=64).contains(&text.len()) || !text.chars().all(fits) {
                    return Err(InvalidNames::Invalid(text.to_owned()));
                }
            }
            if !names.insert(options.name.as_str()) {
                return Err(InvalidNames::Twice(options.name.clone()));
            }
            if !prefixes.insert(options.prefix()) {
                return Err(InvalidNames::SamePrefix(options.prefix().to_owned()));
            }
        }
        Ok(if prefix { Self::Prefixed } else { Self::Bare })
    }

    /// Whether the upstream with this prefix may have something that is offered under this name.
    pub(crate) fn can_make(self, prefix: &str, shown: &str) -> bool {
        match self {
            Self::Bare => true,
            Self::Prefixed => shown.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('_')),
        }
    }

    /// The name under which `name` of the upstream with this prefix is offered.
    pub(crate) fn offered(self, prefix: &str, name: &str) -> String {
        match self {
            Self::Bare => name.to_owned(),
            Self::Prefixed => format!("{prefix}_{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;
    use longhaul_client::ChildOptions;

    fn named(names: &[&str]) -> Vec<UpstreamOptions> {
        let command = || Target::Command(ChildOptions::new("x", [""; 0]));
        names
            .iter()
            .map(|name| UpstreamOptions::new(*name, command()))
            .collect()
    }

    #[test]
    fn names_have_prefixes_that_differ() {
        assert_eq!(Naming::of(&named(&["a"]), false), Ok(Naming::Bare));
        assert_eq!(Naming::of(&named(&["a", "b"]), true), Ok(Naming::Prefixed));
        assert_eq!(Naming::Prefixed.offered("git", "log"), "git_log");
        let mut short = named(&["a", "b"]);
        short[0].prefix = Some("c".to_owned());
        assert_eq!(Naming::of(&short, true), Ok(Naming::Prefixed));
        short[0].prefix = Some("b".to_owned());
        assert_eq!(Naming::of(&short, true), Err(InvalidNames::SamePrefix("b".to_owned())));
    }

    #[test]
    fn wrong_names_are_refused() {
        assert_eq!(
            Naming::of(&named(&["a", "a"]), true),
            Err(InvalidNames::Twice("a".to_owned()))
        );
        for wrong in ["", "a b", "ä", &"x".repeat(65)] {
            assert_eq!(
                Naming::of(&named(&[wrong]), true),
                Err(InvalidNames::Invalid(wrong.to_owned()))
            );
        }
    }
}

//! The scenarios of the conformance suite.

/// The version of the suite.
pub(super) const VERSION: &str = "0.2.0-alpha.12";

/// What a scenario tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Server,
    Client,
}

/// A scenario that a revision requires; it runs with that revision.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) revision: &'static str,
    pub(super) side: Side,
    pub(super) scenario: String,
}

impl Case {
    /// Whether it is about authorization, which the client does not have.
    pub(super) fn is_authorization(&self) -> bool {
        self.scenario.starts_with("auth/")
    }

    /// Whether it disturbs other scenarios: this one changes the server's lists of tools and prompts.
    pub(super) fn disturbs(&self) -> bool {
        self.scenario == "server-stateless"
    }
}

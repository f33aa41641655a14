//! The scenarios of the conformance suite.

/// The version of the suite.
pub(super) const VERSION: &str = "0.2.0-alpha.12";

/// A scenario that a revision requires; it runs with that revision.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) revision: &'static str,
    pub(super) scenario: String,
}

impl Case {
    /// Whether it disturbs other scenarios: this one changes the server's lists of tools and prompts.
    pub(super) fn disturbs(&self) -> bool {
        self.scenario == "server-stateless"
    }
}

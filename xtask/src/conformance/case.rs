//! The scenarios of the conformance suite.

/// The version of the suite.
pub(super) const VERSION: &str = "0.2.0-alpha.12";

/// A scenario as a revision requires it: run at that revision's wire.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) revision: &'static str,
    pub(super) scenario: String,
}

impl Case {
    /// Whether it changes what the others look at: this one has the server's lists of tools and prompts change.
    pub(super) fn disturbs(&self) -> bool {
        self.scenario == "server-stateless"
    }
}

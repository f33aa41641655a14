//! The scenarios of the conformance suite.

/// The version of the suite.
pub(super) const VERSION: &str = "0.2.0-alpha.12";

/// Extensions of authorization: a client's signed assertion, an enterprise's identity provider, proof of possession, the identity of a workload.
const LEFT_OUT: [&str; 5] = [
    "auth/client-credentials-jwt",
    "auth/enterprise-managed-authorization",
    "auth/dpop",
    "auth/dpop-nonce",
    "auth/wif-jwt-bearer",
];

/// What a scenario tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Server,
    Client,
}

/// A scenario that a revision requires; it runs with that revision.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) revision: &'static str,
    pub(super) side: Side,
    pub(super) scenario: String,
}

impl Case {
    /// Whether it tests an extension of authorization that the client does not have. The suite runs these and does not score them.
    pub(super) fn is_left_out(&self) -> bool {
        LEFT_OUT.contains(&self.scenario.as_str())
    }

    /// Whether it disturbs other scenarios: this one changes the server's lists of tools and prompts.
    pub(super) fn disturbs(&self) -> bool {
        self.scenario == "server-stateless"
    }
}

//! Whether what a server offers is known already.

/// Whether what a server offers is known already. What comes from other servers is known when these have answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Completeness {
    /// Nothing is said of what is offered.
    Starting,
    /// What is offered is said, but a list of tools is waited for, since there are none yet.
    WithoutTools,
    /// All that is offered is known, or is not waited for.
    #[default]
    Complete,
}

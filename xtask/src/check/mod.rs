//! What is counted and compared in the repository: instructions, requirements, dependencies, lines.

pub(crate) mod counts;
pub(crate) mod coverage;
pub(crate) mod deny;
pub(crate) mod size;

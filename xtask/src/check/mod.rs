//! What is counted and compared in the repository: instructions, requirements, dependencies, lines, and what schedules cost.

pub(crate) mod counts;
pub(crate) mod coverage;
pub(crate) mod deny;
pub(crate) mod schedule_costs;
pub(crate) mod size;

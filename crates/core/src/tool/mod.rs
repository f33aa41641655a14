//! What a tool is to its tasks: its stored definition, its policy, patterns of its name.

pub(crate) mod pattern;
pub(crate) mod policy;
pub(crate) mod spec;

//! What Longhaul can put behind a tool: commands under a supervisor that outlives the server, and functions in this process.

pub mod command;
pub mod in_process;

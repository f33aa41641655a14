//! What Longhaul can put behind a tool: commands under a supervisor that outlives the server, and functions in this process. Beside them the supervisor of a child
//! that must not outlive the server.

pub mod child_supervisor;
pub mod command;
pub mod in_process;

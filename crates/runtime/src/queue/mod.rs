//! The queues of tasks, the slots of work, and what is paused.

pub(crate) mod paused_tools;
pub(crate) mod queues;
pub(crate) mod schedules;
pub(crate) mod slots;

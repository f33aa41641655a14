#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod adapter;
mod task_manager;

pub use adapter::{AdapterError, ServerBuilder, server};
pub use task_manager::{OpenError, TaskContext, TaskManager, TaskManagerBuilder};

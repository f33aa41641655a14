#![doc = include_str!("../README.md")]

mod kept;
mod served;

pub use kept::{Builder, OpenError, TaskContext, TaskManager};
pub use served::{Served, ServedError, server};

//! What is found of tasks, and by whom: lists, searches and counts.

pub mod counts;
pub mod isolation;
pub mod lists;
pub mod searches;

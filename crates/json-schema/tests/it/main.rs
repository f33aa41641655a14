//! Schemas and values of anybody.

mod checks;
mod fuzz;
mod limits;

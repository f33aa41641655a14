//! The tasks of the repository.
fn main() {}

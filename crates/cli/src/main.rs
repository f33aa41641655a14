//! The longhaul command.
fn main() {}

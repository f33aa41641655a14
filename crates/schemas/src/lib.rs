//! The official schemas, and a [`Witness`] that holds against them what a server says. For tests only.
//!
//! The clients of our tests have a witness each and tell it everything they send and hear, and clients that are processes of their own
//! speak through a [`Tap`], so that no test can see a message that does not fit its era's schema. Each message is held against the one definition it claims to be, never against a union (C-40).

mod definition;
mod law;
mod tap;
mod text;
mod witness;

pub use definition::{Fault, Schema};
pub use tap::Tap;
pub use text::read;
pub use witness::Witness;

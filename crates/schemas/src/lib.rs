//! The official schemas, and a [`MessageChecker`] that validates a server's messages against them. For tests only.
//!
//! Every client in our tests has a checker, which sees all messages it sends and receives. Clients that are other processes connect
//! through a [`CheckingProxy`]. So each message a server sends in a test is validated, against the one definition for its era and
//! method and never against a union.

mod checking_proxy;
mod definition;
mod expected;
mod message_checker;
mod text;

pub use checking_proxy::CheckingProxy;
pub use definition::{PublishedSchema, SchemaViolation};
pub use message_checker::MessageChecker;
pub use text::read;

//! How messages reach the server and how answers leave it: HTTP, and byte streams with one message a line.

pub(crate) mod batch;
pub(crate) mod connection;
pub(crate) mod duplex;
pub(crate) mod front;
pub mod http;
pub mod stdio;

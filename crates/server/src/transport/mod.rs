//! How messages reach the server and how answers leave it: HTTP, and byte streams with one message a line.

pub(crate) mod batch;
pub(crate) mod connection;
pub(crate) mod duplex;
pub(crate) mod file_version;
pub mod http;
pub(crate) mod protocol_server;
pub mod stdio;

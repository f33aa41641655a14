//! The store over a real server: `LONGHAUL_TEST_POSTGRES` if it is set, else the one on 127.0.0.1:5432 if it lets us in, else a private one.
#![allow(clippy::unwrap_used)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests run on tokio, and look from time to time whether a condition holds"
)]

mod concurrent;
mod contract;
mod copies;
mod crash;
mod deaf;
mod events;
mod groups;
mod locked;
mod pooler;
mod relocation;
mod rights;
mod server;
mod servers;
mod tasks;
mod tls;
mod unusable;

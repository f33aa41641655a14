//! What the tests of whole programs share. Each program of `cargo xtask` is its faults and its checks.
//!
//! - [`rounds`] run a [`Campaign`](rounds::Campaign) in a [`Site`](site::Site), until a
//!   [`Violation`](rounds::violation::Violation) is found, and print its report.
//! - [`server`], [`postgres`] and [`replicas`] are the processes of a run; [`network`] and [`shim`] make faults around
//!   them.
//! - [`mcp`] is a client of both eras, which shares no code with the server. A [`Caller`](ledger::caller::Caller) makes
//!   its requests about tasks, and the [`Ledger`](ledger::Ledger) keeps and checks what was acknowledged and answered.
//! - [`commands`] and [`durable`] are what tools write while they run: the journal of commands, and the effects of
//!   steps.

pub mod clock;
pub mod commands;
pub mod durable;
pub mod ledger;
pub mod mcp;
pub mod network;
pub mod postgres;
pub mod process;
pub mod replicas;
pub mod rounds;
pub mod server;
pub mod shim;
pub mod side_by_side;
pub mod site;
pub mod workspace;

//! How the database is reached: its address, TLS, the connections, and the transactions that each piece of work takes on one of them.

pub(crate) mod address;
pub(crate) mod connections;
pub(crate) mod locks;
pub(crate) mod met_lock;
pub(crate) mod open_error;
pub(crate) mod session;
pub(crate) mod tls;
pub(crate) mod types;
pub(crate) mod work;

pub(crate) use self::{
    address::Address,
    connections::Connections,
    session::quoted,
    work::{Work, take_turn, transact},
};

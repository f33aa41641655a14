//! How statements are sent, alone and in transactions, what their rows hold, and what their errors mean.

pub(crate) mod clock;
pub(crate) mod fault;
pub(crate) mod row;
pub(crate) mod text;
pub(crate) mod tls_fault;
pub(crate) mod transaction;

pub(crate) use self::{
    clock::Clock,
    fault::{Fault, Retries},
    row::{PostgresRow, select_tasks, texts},
    text::encode,
    transaction::{Connection, Execute, Param, Then, Tx},
};

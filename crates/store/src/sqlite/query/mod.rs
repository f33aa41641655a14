//! What only reads: the connections for reading, tasks and what belongs to them, and searches.

pub(super) mod journal;
pub(super) mod read;
pub(super) mod readers;
pub(super) mod row;
pub(super) mod search;

pub(super) use self::{
    read::bound,
    row::{MORE, select_tasks},
};

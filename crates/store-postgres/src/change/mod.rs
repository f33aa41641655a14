//! Changes of tasks, which the writer makes in batches, and deletions.

pub(crate) mod batch;
pub(crate) mod deletion;
pub(crate) mod groups;
pub(crate) mod ledger;
pub(crate) mod quota_turns;
pub(crate) mod request;
pub(crate) mod schedules;
pub(crate) mod signing_keys;
pub(crate) mod writer;
pub(crate) mod writes;

pub(crate) use self::{
    ledger::{Ledger, Part},
    request::{Request, RequestAnswer},
};

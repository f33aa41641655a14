//! What SQLite must do beyond the contract: real files, real crashes, real full disks.
#![allow(clippy::unwrap_used)]

mod backup;
mod child;
mod commit;
mod crash;
mod deleted;
mod directory;
mod full;
mod groups;
mod locked;
#[path = "../../../private-dir/tests/planted/mod.rs"]
mod planted;
mod refused;
mod task;

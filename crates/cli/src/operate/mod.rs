//! What operates: an installation, its server, its data directory and its keys.

#[cfg(unix)]
pub(crate) mod admin;
pub(crate) mod backup;
#[cfg(unix)]
pub(crate) mod import;
#[cfg(unix)]
pub(crate) mod init;
pub(crate) mod keys;
pub(crate) mod migrate;
pub(crate) mod restore;
#[cfg(unix)]
pub(crate) mod service;

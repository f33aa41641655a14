//! What is on this machine, and whose it is: ports, sockets, files that are served, and those beside the tasks of a data directory.

pub(crate) mod audit;
pub(crate) mod listening_socket;
pub(crate) mod port_owner;
pub(crate) mod principal_logins;
pub(crate) mod secret_keys;
pub(crate) mod served_file;
pub(crate) mod upstream_logins;

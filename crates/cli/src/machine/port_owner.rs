//! The process that listens on a port that is in use (Linux only).

use crate::machine::listening_socket;
use std::{fs, path::Path};

/// `; pid 123 (name) listens there`, or an empty text if the process is not known.
pub(crate) fn describe(port: u16) -> String {
    find(port).unwrap_or_default()
}

fn find(port: u16) -> Option<String> {
    let socket = listening_socket::on_port(port).into_iter().next()?;
    let socket = format!("socket:[{}]", socket.inode);
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes.filter_map(|process| holds(&process.path(), &socket)).next()
}

fn holds(process: &Path, socket: &str) -> Option<String> {
    let pid: u32 = process.file_name()?.to_str()?.parse().ok()?;
    let mut descriptors = fs::read_dir(process.join("fd")).ok()?.flatten();
    descriptors.find(|link| fs::read_link(link.path()).is_ok_and(|target| target.as_os_str() == socket))?;
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    Some(format!("; pid {pid} ({}) listens there", name.trim()))
}

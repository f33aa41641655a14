//! The process that listens on a port that is in use (Linux only).

use std::{fs, path::Path};

/// `TCP_LISTEN` in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// `; pid 123 (name) listens there`, or an empty text if the process is not known.
pub(super) fn describe(port: u16) -> String {
    find(port).unwrap_or_default()
}

fn find(port: u16) -> Option<String> {
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .find_map(|table| listening_inode(table, port))?;
    let socket = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes.filter_map(|process| holds(&process.path(), &socket)).next()
}

/// The socket's inode: columns are slot, local address, remote address, state, …, inode.
fn listening_inode(table: &str, port: u16) -> Option<String> {
    let text = fs::read_to_string(table).ok()?;
    let suffix = format!(":{port:04X}");
    text.lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let listens = columns.get(1)?.ends_with(&suffix) && *columns.get(3)? == LISTENING;
        listens.then(|| columns.get(9).map(ToString::to_string)).flatten()
    })
}

fn holds(process: &Path, socket: &str) -> Option<String> {
    let pid: u32 = process.file_name()?.to_str()?.parse().ok()?;
    let mut descriptors = fs::read_dir(process.join("fd")).ok()?.flatten();
    descriptors.find(|link| fs::read_link(link.path()).is_ok_and(|target| target.as_os_str() == socket))?;
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    Some(format!("; pid {pid} ({}) listens there", name.trim()))
}

//! The sockets that listen on a port of this machine, as Linux lists them. Elsewhere none is known.

use std::fs;

/// `TCP_LISTEN` in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// A socket that listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListeningSocket {
    pub(crate) inode: String,
    /// The user that has opened it.
    pub(crate) user: u32,
}

/// The sockets that a connection to this port of 127.0.0.1 may reach: those of that address and those of all addresses.
pub(crate) fn on_loopback(port: u16) -> Vec<ListeningSocket> {
    all(port, is_reached_from_loopback)
}

/// All sockets that listen on the port.
pub(crate) fn on_port(port: u16) -> Vec<ListeningSocket> {
    all(port, |_| true)
}

fn all(port: u16, is_wanted: impl Fn(&str) -> bool) -> Vec<ListeningSocket> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    tables.iter().flat_map(|table| find(table, port, &is_wanted)).collect()
}

fn is_reached_from_loopback(address: &str) -> bool {
    // 127.0.0.1 in the order of the machine's bytes, and the same in an IPv6 address.
    let loopback = u32::from_ne_bytes([127, 0, 0, 1]);
    let mapped = format!("0000000000000000{:08X}{loopback:08X}", 0xffff_u32.to_be());
    address.chars().all(|char| char == '0') || address == format!("{loopback:08X}") || address == mapped
}

/// Columns are: slot, local address, remote address, state, queues, timer, retransmits, user, timeout, inode.
fn find(table: &str, port: u16, is_wanted: impl Fn(&str) -> bool) -> Vec<ListeningSocket> {
    let port = format!("{port:04X}");
    let sockets = table.lines().skip(1).filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (address, listened) = columns.get(1)?.split_once(':')?;
        if listened != port || !is_wanted(address) || *columns.get(3)? != LISTENING {
            return None;
        }
        Some(ListeningSocket {
            inode: (*columns.get(9)?).to_owned(),
            user: columns.get(7)?.parse().ok()?,
        })
    });
    sockets.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn only_sockets_that_listen_for_local_connections_are_found() {
        const HEADER: &str =
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
        let line = |address: &str, state: &str, user: u32| {
            format!(
                "   0: {address} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  {user}        0 4711 1 0\n"
            )
        };
        let users = |lines: &[String]| {
            let found = find(&format!("{HEADER}{}", lines.concat()), 7411, is_reached_from_loopback);
            found.iter().map(|socket| socket.user).collect::<Vec<_>>()
        };
        assert_eq!(users(&[line("0100007F:1CF3", "0A", 1000)]), [1000]);
        assert_eq!(users(&[line("00000000:1CF3", "0A", 7)]), [7]);
        assert_eq!(users(&[line("0000000000000000FFFF00000100007F:1CF3", "0A", 8)]), [8]);
        assert_eq!(users(&[line("00000000000000000000000000000000:1CF3", "0A", 9)]), [9]);
        for other in [
            line("0100007F:1CF4", "0A", 1),
            line("0100007F:1CF3", "01", 1),
            line("0200000A:1CF3", "0A", 1),
        ] {
            assert_eq!(users(&[other]), [0; 0]);
        }
        assert_eq!(users(&["not a line\n".to_owned()]), [0; 0]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_socket_of_this_user_is_found() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let found = on_loopback(socket.local_addr().unwrap().port());
        let user = rustix::process::geteuid().as_raw();
        assert!(found.iter().any(|found| found.user == user), "{found:?}");
    }
}

//! Sockets of connections and their owners, asked of the Linux kernel.
//!
//! `/proc/net/tcp` would not do: it shows a socket whose process has closed it with uid 0.

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::{
    SockDiagMessage,
    constants::{AF_INET, AF_INET6, IPPROTO_TCP, TCP_ESTABLISHED},
    inet::{ExtensionFlags, InetRequest, SocketId, StateFlags},
};
use netlink_sys::{Socket, SocketAddr as NetlinkAddr, protocols::NETLINK_SOCK_DIAG};
use std::{io, net::SocketAddr};

/// Asks for any socket with these addresses, not for one that was seen before.
const ANY_COOKIE: [u8; 8] = [0xff; 8];
/// The kernel's answer has a few hundred bytes.
const ANSWER: usize = 8192;
/// The kernel's own address.
const KERNEL: u32 = 0;

/// An established socket that a process holds.
pub(super) struct EstablishedSocket {
    /// The user who made it.
    pub(super) uid: u32,
    /// The same as of its file descriptor.
    pub(super) inode: u32,
}

/// The socket that is bound to `from` and connected to `to`. `None` if there is none, if it is not established any more, or if its process has
/// closed it.
///
/// Both addresses are IPv4 or both are IPv6, and no IPv4 address is written as IPv6.
pub(super) fn established(from: SocketAddr, to: SocketAddr) -> io::Result<Option<EstablishedSocket>> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&NetlinkAddr::new(KERNEL, 0))?;
    socket.send(&request(from, to), 0)?;
    let mut answer = Vec::with_capacity(ANSWER);
    // The answer is there when `send` returns. Without one this must not wait.
    let (length, sender) = socket.recv_from(&mut answer, libc_dontwait())?;
    if sender.port_number() != KERNEL {
        return Err(io::Error::other("somebody else than the kernel answered"));
    }
    let answer = answer.get(..length).unwrap_or_default();
    let message = NetlinkMessage::<SockDiagMessage>::deserialize(answer).map_err(io::Error::other)?;
    match message.payload {
        NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(found)) => {
            let found = found.header;
            // Without a connection the kernel answers with a listener of the same port.
            let is_it = (found.state, found.inode != 0) == (TCP_ESTABLISHED, true)
                && is(&found.socket_id.source_address, found.socket_id.source_port, from)
                && is(
                    &found.socket_id.destination_address,
                    found.socket_id.destination_port,
                    to,
                );
            Ok(is_it.then_some(EstablishedSocket {
                uid: found.uid,
                inode: found.inode,
            }))
        }
        NetlinkPayload::Error(error) => {
            let error = error.to_io();
            match error.kind() {
                io::ErrorKind::NotFound => Ok(None),
                _ => Err(error),
            }
        }
        _ => Err(io::Error::other("the kernel's answer is not understood")),
    }
}

fn is(address: &std::net::IpAddr, port: u16, wanted: SocketAddr) -> bool {
    (address.to_canonical(), port) == (wanted.ip(), wanted.port())
}

fn request(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let request = InetRequest {
        family: if from.is_ipv4() { AF_INET } else { AF_INET6 },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::ESTABLISHED,
        socket_id: SocketId {
            source_port: from.port(),
            destination_port: to.port(),
            source_address: from.ip(),
            destination_address: to.ip(),
            interface_id: 0,
            cookie: ANY_COOKIE,
        },
    };
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

fn libc_dontwait() -> i32 {
    rustix::net::RecvFlags::DONTWAIT.bits().cast_signed()
}

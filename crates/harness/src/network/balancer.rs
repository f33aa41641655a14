//! A load balancer that knows nothing: each request goes to the next node, whatever it is about.
//!
//! It reads the head of a request, names the node in it as the host, as most proxies do unless told otherwise, asks for the connection to be closed behind the
//! response, and relays bytes. So the client's next request comes on another connection, and goes to another node.

use crate::network::acceptor::Acceptor;
use crate::network::namespace::{self, Namespace};
use parking_lot::Mutex;
use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

const CONNECT: Duration = Duration::from_secs(1);
/// A longer head is not relayed.
const MOST_HEAD: usize = 64 * 1024;

pub struct Balancer {
    acceptor: Acceptor,
    nodes: Arc<Nodes>,
}

struct Nodes {
    /// The network in which each node listens; `None`: this program's.
    namespaces: Vec<Option<Namespace>>,
    state: Mutex<BalancerState>,
}

struct BalancerState {
    /// Where each node listens, if it does.
    addresses: Vec<Option<SocketAddr>>,
    next: usize,
}

impl Balancer {
    /// Starts one for as many nodes, of which each listens in this namespace.
    pub fn start(namespaces: Vec<Option<Namespace>>) -> io::Result<Self> {
        let nodes = Arc::new(Nodes {
            state: Mutex::new(BalancerState {
                addresses: vec![None; namespaces.len()],
                next: 0,
            }),
            namespaces,
        });
        let of_acceptor = Arc::clone(&nodes);
        let acceptor = Acceptor::start(move |stream| {
            // The client sees a broken connection.
            let _ = of_acceptor.serve(&stream);
            let _ = stream.shutdown(Shutdown::Both);
        })?;
        Ok(Self { acceptor, nodes })
    }

    pub fn address(&self) -> SocketAddr {
        self.acceptor.address()
    }

    /// Where a node listens from now on; `None`: nowhere.
    pub fn set(&self, node: usize, address: Option<SocketAddr>) {
        self.nodes.state.lock().addresses[node] = address;
    }
}

impl Nodes {
    fn serve(&self, client: &TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let Some((head, body)) = read_head(client)? else {
            return Ok(());
        };
        let (node, address) = self.connect()?;
        node.set_nodelay(true)?;
        let mut request = for_node(&head, address);
        request.extend(body);
        (&node).write_all(&request)?;
        let (from_client, to_node) = (client.try_clone()?, node.try_clone()?);
        let rest_of_request = move || {
            let _ = io::copy(&mut &from_client, &mut &to_node);
            // The client has gone, and the node is to notice.
            let _ = to_node.shutdown(Shutdown::Both);
        };
        let sending = thread::Builder::new()
            .name("request".to_owned())
            .spawn(rest_of_request)?;
        let relayed = io::copy(&mut &node, &mut &*client);
        let _ = client.shutdown(Shutdown::Both);
        let _ = sending.join();
        relayed.map(drop)
    }

    /// A connection to the next node that accepts one.
    fn connect(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let count = self.namespaces.len();
        for _ in 0..count {
            let (nth, address) = {
                let mut state = self.state.lock();
                state.next = (state.next + 1) % count;
                (state.next, state.addresses[state.next])
            };
            let Some(address) = address else { continue };
            let connect = || TcpStream::connect_timeout(&address, CONNECT);
            if let Ok(node) = namespace::within(self.namespaces[nth].as_ref(), connect)? {
                return Ok((node, address));
            }
        }
        Err(io::ErrorKind::ConnectionRefused.into())
    }
}

/// The head of a request, and what came behind it; `None` if the client has closed the connection before.
fn read_head(mut client: &TcpStream) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut read = Vec::new();
    let mut buffer = [0; 8 * 1024];
    loop {
        let length = client.read(&mut buffer)?;
        if length == 0 {
            return Ok(None);
        }
        read.extend(&buffer[..length]);
        if let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let body = read.split_off(end + 4);
            return Ok(Some((read, body)));
        }
        if read.len() > MOST_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// The head for this node, which asks for the connection to be closed behind the response.
fn for_node(head: &[u8], node: SocketAddr) -> Vec<u8> {
    let text = String::from_utf8_lossy(head);
    let lines = text.trim_end().split("\r\n");
    let is_ours = |line: &str| ["connection:", "host:"].iter().any(|name| line.starts_with(name));
    let kept = lines.filter(|line| !is_ours(&line.to_ascii_lowercase()));
    let mut head: String = kept.flat_map(|line| [line, "\r\n"]).collect();
    head.push_str(&format!("Host: {node}\r\nConnection: close\r\n\r\n"));
    head.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_its_node_and_asks_for_the_end_of_its_connection() {
        let head = b"POST /mcp HTTP/1.1\r\nconnection: keep-alive\r\nHost: a\r\nAccept: b\r\n\r\n";
        let head = for_node(head, SocketAddr::from(([127, 0, 0, 1], 7)));
        assert_eq!(
            String::from_utf8(head).unwrap(),
            "POST /mcp HTTP/1.1\r\nAccept: b\r\nHost: 127.0.0.1:7\r\nConnection: close\r\n\r\n"
        );
    }
}

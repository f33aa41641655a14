//! The network between a host and the database: a TCP proxy that can cut connections, or hold back what is sent on them.

use super::faults::LinkState;
use harness::network::acceptor::Acceptor;
use parking_lot::{Condvar, Mutex};
use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::Arc,
    thread,
};

/// The proxy. Dropping it cuts its connections.
pub(super) struct Proxy {
    acceptor: Acceptor,
    shared: Arc<Shared>,
}

struct Shared {
    target: SocketAddr,
    state: Mutex<Connections>,
    changed: Condvar,
}

struct Connections {
    state: LinkState,
    /// Both ends of each.
    open: Vec<(TcpStream, TcpStream)>,
}

impl Proxy {
    pub(super) fn to(target: SocketAddr) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            target,
            state: Mutex::new(Connections {
                state: LinkState::Open,
                open: Vec::new(),
            }),
            changed: Condvar::new(),
        });
        let of_acceptor = Arc::clone(&shared);
        let acceptor = Acceptor::start(move |stream| {
            // The caller sees a broken connection.
            let _ = of_acceptor.connect(stream);
        })?;
        Ok(Self { acceptor, shared })
    }

    /// Where the node finds the database.
    pub(super) fn address(&self) -> SocketAddr {
        self.acceptor.address()
    }

    pub(super) fn set(&self, state: LinkState) {
        let mut connections = self.shared.state.lock();
        connections.state = state;
        if state == LinkState::Cut {
            for (node, database) in connections.open.drain(..) {
                let _ = node.shutdown(Shutdown::Both);
                let _ = database.shutdown(Shutdown::Both);
            }
        }
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.set(LinkState::Cut);
    }
}

impl Shared {
    fn connect(self: &Arc<Self>, node: TcpStream) -> io::Result<()> {
        if self.state.lock().state == LinkState::Cut {
            return Ok(());
        }
        let database = TcpStream::connect(self.target)?;
        node.set_nodelay(true)?;
        database.set_nodelay(true)?;
        {
            let mut connections = self.state.lock();
            // It was cut while the database was dialled.
            if connections.state == LinkState::Cut {
                return Ok(());
            }
            connections
                .open
                .retain(|(node, _)| node.take_error().is_ok() && node.peer_addr().is_ok());
            connections.open.push((node.try_clone()?, database.try_clone()?));
        }
        let (from_node, to_database) = (node.try_clone()?, database.try_clone()?);
        for (name, from, to) in [("to-database", from_node, to_database), ("to-node", database, node)] {
            let shared = Arc::clone(self);
            let relaying = move || {
                let _ = shared.relay(&from, &to);
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
            };
            thread::Builder::new().name(name.to_owned()).spawn(relaying)?;
        }
        Ok(())
    }

    fn relay(&self, mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        loop {
            let length = from.read(&mut buffer)?;
            if length == 0 {
                return Ok(());
            }
            let mut connections = self.state.lock();
            while connections.state == LinkState::Stalled {
                self.changed.wait(&mut connections);
            }
            if connections.state == LinkState::Cut {
                return Ok(());
            }
            drop(connections);
            to.write_all(&buffer[..length])?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, time::Duration};

    fn pair() -> (Proxy, TcpStream, TcpStream) {
        let target = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy::to(target.local_addr().unwrap()).unwrap();
        let node = TcpStream::connect(proxy.address()).unwrap();
        let (database, _) = target.accept().unwrap();
        for end in [&node, &database] {
            end.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        }
        (proxy, node, database)
    }

    #[test]
    fn what_is_held_back_arrives_later() {
        let (proxy, mut node, mut database) = pair();
        proxy.set(LinkState::Stalled);
        node.write_all(b"COMMIT").unwrap();
        let mut read = [0; 6];
        assert!(database.read_exact(&mut read).is_err(), "nothing arrives");
        proxy.set(LinkState::Open);
        database.set_read_timeout(None).unwrap();
        database.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"COMMIT");
    }

    #[test]
    fn a_cut_breaks_connections() {
        let (proxy, mut node, _database) = pair();
        proxy.set(LinkState::Cut);
        node.set_read_timeout(None).unwrap();
        assert!(matches!(node.read(&mut [0]), Ok(0) | Err(_)));
    }
}

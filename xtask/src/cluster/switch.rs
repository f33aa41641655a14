//! Hosts and a database, each in a network namespace, on one switch: a bridge in a namespace of its own. The machine's network is not touched.

use super::faults::LinkState;
use harness::network::namespace::{Namespace, NamespaceError, NetworkHost};
use std::{
    io::{self, Read},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

/// Within this time a connection over the new network is there, or breaks.
const CHECK: Duration = Duration::from_secs(5);

/// The network. Nothing of it is left once this is dropped and what was started in it has ended.
pub(super) struct Switch {
    namespace: Namespace,
    database: NetworkHost,
    hosts: Vec<NetworkHost>,
}

impl Switch {
    pub(super) fn create(hosts: usize) -> Result<Self, NamespaceError> {
        let namespace = Namespace::create()?;
        namespace.run("ip link add switch type bridge")?;
        namespace.run("ip link set switch up")?;
        let database = connected(&namespace, "database", Ipv4Addr::new(10, 0, 0, 1))?;
        let hosts = (0..hosts).map(|host| {
            let number = u8::try_from(host + 2).map_err(io::Error::other)?;
            connected(&namespace, &port(host), Ipv4Addr::new(10, 0, 0, number))
        });
        let switch = Self {
            hosts: hosts.collect::<Result<_, _>>()?,
            namespace,
            database,
        };
        switch.check()?;
        Ok(switch)
    }

    pub(super) fn database(&self) -> &NetworkHost {
        &self.database
    }

    pub(super) fn host(&self, host: usize) -> &NetworkHost {
        &self.hosts[host]
    }

    pub(super) fn set(&self, host: usize, state: LinkState) -> Result<(), NamespaceError> {
        let own = &self.hosts[host];
        match state {
            LinkState::Open => {
                let port = port(host);
                self.namespace.run(&format!("ip link set {port} master switch"))?;
                own.namespace.run("ip link set lan up")
            }
            // Both sides see a network that works, and packets go no further than the port.
            LinkState::Stalled => self.namespace.run(&format!("ip link set {} nomaster", port(host))),
            LinkState::Cut => {
                // Without a route a new connection fails at once.
                own.namespace.run("ip link set lan down")?;
                // An interface that is down does not break connections, so both ends are closed.
                own.namespace
                    .run(&format!("ss -K -Htn dst {}", self.database.address))?;
                self.database.namespace.run(&format!("ss -K -Htn dst {}", own.address))
            }
        }
    }

    /// Checks that a cut breaks a connection, which not every kernel can do (`CONFIG_INET_DIAG_DESTROY`).
    fn check(&self) -> Result<(), NamespaceError> {
        let address = SocketAddr::from((self.database.address, 0));
        let listener = self.database.namespace.within(|| TcpListener::bind(address))??;
        let address = listener.local_addr()?;
        let connect = || TcpStream::connect_timeout(&address, CHECK);
        let mut node = self.hosts[0].namespace.within(connect)??;
        node.set_read_timeout(Some(CHECK))?;
        self.set(0, LinkState::Cut)?;
        match node.read(&mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::other("the kernel does not close connections for `ss -K`").into());
            }
            Ok(_) | Err(_) => {}
        }
        self.set(0, LinkState::Open)
    }
}

/// The name of a host's port at the switch.
fn port(host: usize) -> String {
    format!("host{host}")
}

/// A namespace whose `lan` is connected to this port of the switch.
fn connected(switch: &Namespace, port: &str, address: Ipv4Addr) -> Result<NetworkHost, NamespaceError> {
    let namespace = Namespace::create()?;
    namespace.run("ip link set lo up")?;
    let other_end = switch.path();
    namespace.run(&format!(
        "ip link add lan type veth peer name {port} netns {}",
        other_end.display()
    ))?;
    switch.run(&format!("ip link set {port} up master switch"))?;
    namespace.run(&format!("ip address add {address}/24 dev lan"))?;
    namespace.run("ip link set lan up")?;
    Ok(NetworkHost { namespace, address })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A connection between a host and the database; `None` where namespaces are not allowed, or `ip` is missing.
    fn connection() -> Option<(Switch, TcpListener, TcpStream, TcpStream)> {
        let switch = match Namespace::create().map(|_| Switch::create(2)) {
            Ok(Err(why @ NamespaceError::Start { .. })) => return untested(&why),
            Ok(switch) => switch.unwrap(),
            Err(why) => return untested(&why),
        };
        let address = SocketAddr::from((switch.database().address, 0));
        let listener = switch.database().namespace.within(|| TcpListener::bind(address));
        let listener = listener.unwrap().unwrap();
        let node = connect(&switch, 1, &listener).unwrap();
        let (database, _) = listener.accept().unwrap();
        for end in [&node, &database] {
            end.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        }
        Some((switch, listener, node, database))
    }

    fn untested<T>(why: &dyn std::error::Error) -> Option<T> {
        eprintln!("network namespaces are not tested: {why}");
        None
    }

    fn connect(switch: &Switch, host: usize, listener: &TcpListener) -> io::Result<TcpStream> {
        let address = listener.local_addr().unwrap();
        let connect = || TcpStream::connect_timeout(&address, CHECK);
        switch.host(host).namespace.within(connect).unwrap()
    }

    #[test]
    fn what_is_lost_is_sent_again() {
        let Some((switch, listener, mut node, mut database)) = connection() else {
            return;
        };
        switch.set(1, LinkState::Stalled).unwrap();
        node.write_all(b"COMMIT").unwrap();
        let mut read = [0; 6];
        assert_eq!(
            database.read_exact(&mut read).unwrap_err().kind(),
            io::ErrorKind::WouldBlock,
            "nothing arrives"
        );
        connect(&switch, 0, &listener).expect("the other host reaches the database");
        switch.set(1, LinkState::Open).unwrap();
        database.set_read_timeout(None).unwrap();
        database.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"COMMIT");
    }

    #[test]
    fn a_cut_breaks_connections_at_both_ends() {
        let Some((switch, listener, mut node, mut database)) = connection() else {
            return;
        };
        switch.set(1, LinkState::Cut).unwrap();
        for end in [&mut node, &mut database] {
            end.set_read_timeout(Some(CHECK)).unwrap();
            let broken = end.read(&mut [0]).unwrap_err();
            assert_ne!(broken.kind(), io::ErrorKind::WouldBlock);
        }
        let refused = connect(&switch, 1, &listener).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NetworkUnreachable);
        connect(&switch, 0, &listener).expect("the other host reaches the database");
        switch.set(1, LinkState::Open).unwrap();
        connect(&switch, 1, &listener).expect("it is over");
    }

    #[test]
    fn a_connection_that_was_stalled_and_cut_loses_what_was_sent() {
        let Some((switch, listener, mut node, mut database)) = connection() else {
            return;
        };
        switch.set(1, LinkState::Stalled).unwrap();
        node.write_all(b"COMMIT").unwrap();
        switch.set(1, LinkState::Cut).unwrap();
        switch.set(1, LinkState::Open).unwrap();
        database.set_read_timeout(None).unwrap();
        assert!(matches!(database.read(&mut [0]), Ok(0) | Err(_)));
        connect(&switch, 1, &listener).expect("it is over");
    }
}
